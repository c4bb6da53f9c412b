"""`querytruth init`: writes a commented definition to start from.

`querytruth doctor`: compares the libraries with the tested ones, and checks a definition before a build.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from querytruth import terminal
from querytruth.cli.options import DefinitionOutOption, JsonOption, OverridesOption, list_overrides
from querytruth.errors import UserError, suggest_choice

if TYPE_CHECKING:
    from flows.definition_checks import CaptionWriter


def doctor(
    definition: Annotated[
        Path | None, typer.Argument(help="The definition, a YAML file. Without one: the libraries alone.")
    ] = None,
    set_: OverridesOption = [],  # noqa: B006 - typer needs a list
    out: DefinitionOutOption = None,
    json: JsonOption = False,
) -> None:
    """Check libraries, folders, keys, models, endpoints and disk before a build; builds and downloads nothing. Exit 1
    where a build would fail.

    Example: querytruth doctor recall.yaml
    """
    if definition is None:
        _show_libraries(json)
        return
    from flows.definition_checks import check_definition
    from querytruth.api import set_builds

    with terminal.reported_run():
        checks = check_definition(set_builds.read_definition(definition, list_overrides(set_, out)))
    if json:
        fields = [
            {"check": one.name, "found": one.found, "problem": one.problem and str(one.problem)} for one in checks
        ]
        terminal.print_json(fields)
    else:
        for check in checks:
            state = "ok" if check.problem is None else "problem"
            line = f"{state:8}{check.name}: {check.problem or check.found}"
            terminal.out.print(line, markup=False, soft_wrap=True)
    if any(check.problem is not None for check in checks):
        raise typer.Exit(1)


def _show_libraries(is_json: bool) -> None:
    from querytruth.backends.environment import describe_newer, read_library_versions

    versions = read_library_versions()
    if is_json:
        terminal.print_json([one._asdict() | {"state": one.state} for one in versions])
        return
    rows: list[list[object]] = [
        [one.name, one.installed or "-", one.tested, "" if one.state == "tested" else one.state] for one in versions
    ]
    terminal.print_table("Libraries", ["library", "installed", "tested", "state"], rows)
    terminal.out.print(describe_newer(versions), markup=False, soft_wrap=True)


def init(
    kind: Annotated[str, typer.Argument(help="gallery, recall, precision, generated, training, audit or prefect")],
    annotations: Annotated[
        list[Path] | None, typer.Option(help="precision: a COCO-form annotation file; may be given several times.")
    ] = None,
    images: Annotated[
        str | None, typer.Option(help="The pictures' folder; gallery: also a list, table or URL.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="recall: the address of an OpenAI-compatible endpoint, up to /v1.", metavar="URL")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="recall: the model that writes the captions, on the endpoint or this machine.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option(help="recall: the environment variable that holds the endpoint's key.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="recall: the captions' language.", metavar="zh|en")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write (default: KIND.yaml).")] = None,
    json: JsonOption = False,
) -> None:
    """Write a commented definition, or the deployments of Prefect, to start from. On a terminal, what a recall set
    needs and no option gives is asked.

    Example: querytruth init recall --images photos --endpoint http://localhost:11434/v1 --model qwen2.5vl --language en
    """
    from flows.definition_checks import list_starter_kinds, render_starter
    from querytruth.errors import translate_write_errors

    if kind not in list_starter_kinds():
        raise UserError("init", kind, "is no kind of set", suggest_choice(kind, list_starter_kinds()))
    path = out or Path(f"{kind}.yaml")
    if path.exists():
        raise UserError("init", path, "exists already", "give --out another name, or remove it")
    if kind == "recall" and sys.stdin.isatty() and not json:
        images, endpoint, model, language = _ask(images, endpoint, model, language)
    writer = _choose_writer(kind, endpoint, model, key_env, language)
    with translate_write_errors("init", path, "or give --out another name"):
        path.write_text(render_starter(kind, annotations, images, path.parent, writer), encoding="utf-8")
    if images is not None and "://" not in images and not Path(images).expanduser().exists():
        terminal.err.print(
            f"{images} is not there yet: `images` in {path} must name where the pictures are", markup=False
        )
    if json:
        terminal.print_json({"path": str(path), "kind": kind})
    else:
        commands = {
            "generated": f"querytruth topics {path}",
            "training": f"querytruth train {path}",
            "audit": f"querytruth audit plan {path}",
            "prefect": "prefect --no-prompt deploy --all",
        }
        next_ = commands.get(kind, f"querytruth build {kind} {path} --plan")
        terminal.out.print(f"{path} written. Next: {next_}", soft_wrap=True)


def _ask(*given: str | None) -> tuple[str, str | None, str, str]:
    """Ask on the terminal for what no option gives: images, endpoint, model and language."""
    images, endpoint, model, language = given
    images = images or typer.prompt("The pictures' folder", default="pictures", err=True)
    if endpoint is None:
        endpoint = typer.prompt("The endpoint's address (empty: a model on this machine)", default="", err=True) or None
    default = "qwen2.5vl" if endpoint else "Qwen/Qwen3-VL-8B-Instruct"
    model = model or typer.prompt("The model that writes the captions", default=default, err=True)
    return images, endpoint, model, language or typer.prompt("The captions' language, zh or en", default="zh", err=True)


def _choose_writer(kind: str, *given: str | None) -> CaptionWriter:
    """Return the model of the captions. Raises UserError for options that do not go together."""
    from flows.definition_checks import CaptionWriter

    endpoint, model, key_env, language = given
    if kind != "recall" and any(given):
        option = next(name for name, one in zip(_WRITER_OPTIONS, given, strict=True) if one)
        raise UserError("init", option, f"is not of {kind} definitions", "leave it out, or say querytruth init recall")
    if endpoint is not None and model is None:
        raise UserError("init", endpoint, "is an endpoint without a model", "give --model its name")
    if key_env is not None and endpoint is None:
        raise UserError("init", key_env, "is a key without an endpoint", "give --endpoint its address")
    if language not in (None, "zh", "en"):
        raise UserError("init", language, "is no language of captions", suggest_choice(language, ["zh", "en"]))
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise UserError("init", endpoint, "is no http address", "give one like http://localhost:11434/v1")
    keys: dict[str, Any] = {"model": model, "endpoint": endpoint, "key_env": key_env}
    named = {key: one for key, one in keys.items() if one is not None}
    return CaptionWriter(**named, language=cast(Literal["zh", "en"], language or "zh"))


_WRITER_OPTIONS = ("--endpoint", "--model", "--key-env", "--language")
