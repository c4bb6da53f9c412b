"""`querytruth init`: writes a commented definition to start from."""

from pathlib import Path
from typing import Annotated

import typer

from builders.errors import UserError, suggest_choice
from querytruth import terminal
from querytruth.options import JsonOption


def init(
    kind: Annotated[str, typer.Argument(help="gallery, recall, precision, generated, training or prefect")],
    annotations: Annotated[
        list[Path] | None, typer.Option(help="precision: a COCO-form annotation file; may be given several times.")
    ] = None,
    images: Annotated[
        str | None, typer.Option(help="The pictures' folder; gallery: also a list, table or URL.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write (default: KIND.yaml).")] = None,
    json: JsonOption = False,
) -> None:
    """Write a commented definition, or the deployments of Prefect, to start from.

    Example: querytruth init precision --annotations instances_val2017.json --images val2017
    """
    from backends.file_errors import translate_write_errors
    from flows.definition_starter import list_starter_kinds, render_starter

    if kind not in list_starter_kinds():
        raise UserError("init", kind, "is no kind of set", suggest_choice(kind, list_starter_kinds()))
    path = out or Path(f"{kind}.yaml")
    if path.exists():
        raise UserError("init", path, "exists already", "give --out another name, or remove it")
    with translate_write_errors("init", path, "or give --out another name"):
        path.write_text(render_starter(kind, annotations, images, path.parent), encoding="utf-8")
    if json:
        terminal.print_json({"path": str(path), "kind": kind})
    else:
        commands = {
            "generated": f"querytruth topics {path}",
            "training": f"querytruth train {path}",
            "prefect": "prefect --no-prompt deploy --all",
        }
        next_ = commands.get(kind, f"querytruth build {kind} {path} --plan")
        terminal.out.print(f"{path} written. Next: {next_}", soft_wrap=True)
