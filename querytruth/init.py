"""`querytruth init`: a commented definition to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from builders.errors import UserError
from querytruth import terminal
from querytruth.sets import Json


def init(
    kind: Annotated[str, typer.Argument(help="gallery, recall, precision, generated or training")],
    annotations: Annotated[Path | None, typer.Option(help="precision: a COCO-form annotation file.")] = None,
    images: Annotated[
        str | None, typer.Option(help="The pictures' folder; gallery: also a list, table or URL.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write (default: KIND.yaml).")] = None,
    json: Json = False,
) -> None:
    """Write a commented definition to start from.

    Example: querytruth init precision --annotations instances_val2017.json --images val2017
    """
    from builders.errors import nearest
    from flows.starter import kinds, starter

    if kind not in kinds():
        raise UserError("init", kind, "is no kind of set", nearest(kind, kinds()))
    path = out or Path(f"{kind}.yaml")
    if path.exists():
        raise UserError("init", path, "exists already", "give --out another name, or remove it")
    try:
        path.write_text(starter(kind, annotations, images, path.parent), encoding="utf-8")
    except OSError as error:
        raise UserError("init", path, f"cannot be written ({error.strerror})", "give --out another name") from None
    if json:
        terminal.as_json({"path": str(path), "kind": kind})
    else:
        first = {"generated": f"topics {path}", "training": f"train {path}"}
        next_ = first.get(kind, f"build {kind} {path} --plan")
        terminal.out.print(f"{path} written. Next: querytruth {next_}", soft_wrap=True)
