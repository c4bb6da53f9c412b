"""`querytruth init`: writes a commented definition to start from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from builders.errors import UserError, suggest_choice
from querytruth import terminal
from querytruth.options import JsonOption

if TYPE_CHECKING:
    from flows.definition_starter import CaptionWriter


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
    from backends.file_errors import translate_write_errors
    from flows.definition_starter import list_starter_kinds, render_starter

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
    from flows.definition_starter import CaptionWriter

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
