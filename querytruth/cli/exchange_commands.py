"""`querytruth export` and `querytruth import`: sets in and from the formats of others.

`querytruth publish` and `querytruth fetch`: sets in object storage.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from querytruth import terminal
from querytruth.cli import options

AllowLossOption = Annotated[
    bool, typer.Option("--allow-loss", help="Leave out, or split, what the format cannot hold.")
]
_FORMAT_HELP = "See docs/formats.md; an unknown one lists the nearest."


def _complete_export_formats(incomplete: str) -> list[str]:
    from querytruth.formats.exporters import EXPORTERS

    return [name for name in EXPORTERS.list_plugins() if name.startswith(incomplete)]


def _complete_import_formats(incomplete: str) -> list[str]:
    from querytruth.formats.importers import IMPORTERS

    return [name for name in IMPORTERS.list_plugins() if name.startswith(incomplete)]


ExportFormatArgument = Annotated[
    str, typer.Argument(metavar="FORMAT", help=_FORMAT_HELP, autocompletion=_complete_export_formats)
]
ImportFormatArgument = Annotated[
    str, typer.Argument(metavar="FORMAT", help=_FORMAT_HELP, autocompletion=_complete_import_formats)
]


def export(
    set_: options.SetArgument,
    format_: ExportFormatArgument,
    to: Annotated[Path, typer.Argument(metavar="OUT", help="A new or empty folder.")],
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    allow_loss: AllowLossOption = False,
    images: options.ImageRootsOption = [],  # noqa: B006 - typer needs a list
    json: options.JsonOption = False,
) -> None:
    """Write a set as other evaluators read it.

    Example: querytruth export family-album huggingface out/family-album
    """
    from querytruth.api import loaded_set, set_builds

    set_builds.check_format(format_)  # a wrong name is refused before the set is looked for
    path = loaded_set.find_version(set_, out, remote="whole")
    dropped_features = set_builds.export(path, format_, to, allow_loss=allow_loss, images=images)
    if json:
        terminal.print_json({"path": str(to), "format": format_, "not_held": dropped_features})
        return
    loss_note = f"; the format does not hold: {', '.join(dropped_features)}" if dropped_features else ""
    place = loaded_set.describe_place(set_, out, path)
    terminal.out.print(f"{place} exported as {format_} to {to}{loss_note}", soft_wrap=True, markup=False)


def import_(
    format_: ImportFormatArgument,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="The publisher's folder or file.")],
    to: Annotated[Path, typer.Argument(metavar="OUT", help="The set's folder, such as datasets/muge.")],
    images: Annotated[Path | None, typer.Option(help="The pictures' folder, where they lie apart.")] = None,
    split: Annotated[str | None, typer.Option(help="Which part (default: the one that is evaluated on).")] = None,
    title: Annotated[str, typer.Option(help="The set's title (default: the publisher's).")] = "",
    licence: Annotated[str, typer.Option(help="The set's licence (default: the publisher's).")] = "",
    lose_at_most: Annotated[
        float, typer.Option(min=0, max=1, help="The share of the last version's queries that may be gone.")
    ] = 0.2,
    accept_loss: options.AcceptLossOption = False,
    json: options.JsonOption = False,
) -> None:
    """Make a set of somebody else's files: then lint, evaluate and review it like any other.

    Example: querytruth import flickr8k_cn Flickr8k-CN datasets/flickr8k-cn --images Flicker8k_Dataset
    """
    terminal.err.print(f"querytruth: reading {source}", markup=False)
    from querytruth.api.set_builds import import_set
    from querytruth.cli.build_output import show_build_result, summarize_build

    with terminal.reported_run(workers=options.CPU_CORES, accept_loss=accept_loss):
        done = import_set(
            format_,
            source,
            to,
            images=images,
            split=split,
            title=title,
            licence=licence,
            lose_at_most=lose_at_most,
        )
    terminal.print_json(summarize_build(done.result)) if json else show_build_result(done.result)


def publish(
    set_: options.SetArgument,
    to: Annotated[str, typer.Option(help="Where sets lie in a bucket.", metavar="s3://BUCKET/FOLDER")],
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
) -> None:
    """Store a version in object storage: readers of s3://BUCKET/FOLDER/NAME see all of it or nothing. What is stored
    already is not sent again.

    Example: querytruth publish family-album --to s3://benchmarks/sets
    """
    from querytruth.api import set_checks

    stored = set_checks.publish(set_, to, out=out)
    if json:
        terminal.print_json(asdict(stored))
        return
    what = "published" if stored.is_new else "is already there"
    terminal.out.print(
        f"{stored.url}: {what}; {stored.sent_files:,} files sent, {stored.sent_bytes / 1e6:,.1f} MB",
        markup=False,
        soft_wrap=True,
    )


def fetch(
    url: Annotated[str, typer.Argument(metavar="s3://BUCKET/FOLDER/NAME[/vN]", help="A set, or a version of it.")],
    to: Annotated[Path, typer.Option(help="The folder of sets that gets it.")] = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
) -> None:
    """Put a version from object storage into a folder of sets, with its decision logs: to review it and build on it.
    Every file is checked.

    Example: querytruth fetch s3://benchmarks/sets/family-album --to datasets
    """
    from querytruth.api import set_checks

    fetched = set_checks.fetch(url, to)
    if json:
        terminal.print_json({"path": str(fetched.path), "is_new": fetched.is_new})
        return
    terminal.out.print(
        f"{fetched.path}: {'fetched' if fetched.is_new else 'is already there'}", markup=False, soft_wrap=True
    )
