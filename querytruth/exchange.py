"""`querytruth export` and `querytruth import`: sets as other evaluators read them, and other people's as ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from builders.errors import UserError
from querytruth import terminal
from querytruth.sets import DATASETS, Json, Out, Set

AllowLoss = Annotated[bool, typer.Option("--allow-loss", help="Leave out, or split, what the format cannot hold.")]
Format = Annotated[str, typer.Argument(metavar="FORMAT", help="See docs/formats.md; an unknown one lists the nearest.")]


def export(
    set_: Set,
    format_: Format,
    to: Annotated[Path, typer.Argument(metavar="OUT", help="A new or empty folder.")],
    out: Out = DATASETS,
    allow_loss: AllowLoss = False,
    json: Json = False,
) -> None:
    """Write a set as other evaluators read it.

    Example: querytruth export family-album huggingface out/family-album
    """
    from backends import exporters
    from backends.sets import set_files

    exporter = exporters.load(format_)
    path = set_files.find(set_, out)
    try:
        lost = exporter(set_files.read(path), to, allow_loss=allow_loss)
    except OSError as error:
        reason = f"cannot be written ({error.strerror})"
        raise UserError("export", to, reason, "make room or give another folder") from None
    if json:
        terminal.as_json({"path": str(to), "format": format_, "not_held": lost})
        return
    held = f"; the format does not hold: {', '.join(lost)}" if lost else ""
    terminal.out.print(f"{path} exported as {format_} to {to}{held}", soft_wrap=True, markup=False)


def import_(
    format_: Format,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="The publisher's folder or file.")],
    to: Annotated[Path, typer.Argument(metavar="OUT", help="The set's folder, such as datasets/muge.")],
    images: Annotated[Path | None, typer.Option(help="The pictures' folder, where they lie apart.")] = None,
    split: Annotated[str | None, typer.Option(help="Which part (default: the one that is evaluated on).")] = None,
    title: Annotated[str, typer.Option(help="The set's title (default: the publisher's).")] = "",
    licence: Annotated[str, typer.Option(help="The set's licence (default: the publisher's).")] = "",
    json: Json = False,
) -> None:
    """Make a set of somebody else's files: then lint, evaluate and review it like any other.

    Example: querytruth import flickr8k_cn Flickr8k-CN datasets/flickr8k-cn --images Flicker8k_Dataset
    """
    terminal.err.print(f"querytruth: reading {source}", markup=False)
    from flows.definitions import check_definition
    from flows.import_set import import_set
    from flows.steps import running
    from querytruth.build import How, show_result, summary

    # Absolute, so that rebuild --check finds them from anywhere; the manifest's configuration keeps the names alone.
    places = {"annotations": str(source.absolute()), "images": images and str(images.absolute())}
    given = {"format": format_, "split": split, **places}
    named = {"name": to.name, "out": str(to.parent), "title": title, "licence": licence}
    definition = check_definition({**given, **named}, "imported", str(source))
    with running(How().run()):
        result = import_set(definition)  # type: ignore[arg-type]
    terminal.as_json(summary(result)) if json else show_result(result)
