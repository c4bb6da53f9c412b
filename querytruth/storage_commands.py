"""`querytruth publish` and `querytruth fetch`: sets in object storage."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from querytruth import terminal
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption, SetArgument


def publish(
    set_: SetArgument,
    to: Annotated[str, typer.Option(help="Where sets lie in a bucket.", metavar="s3://BUCKET/FOLDER")],
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Store a version in object storage: readers of s3://BUCKET/FOLDER/NAME see all of it or nothing. What is stored
    already is not sent again.

    Example: querytruth publish family-album --to s3://benchmarks/sets
    """
    from querytruth.api import set_storage

    stored = set_storage.publish(set_, to, out=out)
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
    to: Annotated[Path, typer.Option(help="The folder of sets that gets it.")] = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Put a version from object storage into a folder of sets, with its decision logs: to review it and build on it.
    Every file is checked.

    Example: querytruth fetch s3://benchmarks/sets/family-album --to datasets
    """
    from querytruth.api import set_storage

    fetched = set_storage.fetch(url, to)
    if json:
        terminal.print_json({"path": str(fetched.path), "is_new": fetched.is_new})
        return
    terminal.out.print(
        f"{fetched.path}: {'fetched' if fetched.is_new else 'is already there'}", markup=False, soft_wrap=True
    )
