"""The record of rendered images: the sha256 of each file below a folder of rendered images, as it was written.

A file of the record is a line `<path> <sha256>` per rendering; a path may have several. What is not in the record is
rendered again.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from backends import append_log

_NAME = "rendered.txt"


def record_digests(folder: Path, digests: Iterable[tuple[str, str]]) -> None:
    """Adds (path, sha256) pairs, all or none, and returns when they are on disk. Raises OSError."""
    with append_log.open_log(folder / _NAME, wait=True) as handle:
        append_log.append_lines(handle, [f"{path} {sha256}" for path, sha256 in digests])


def read_recorded_digests(folder: Path) -> dict[str, set[str]]:
    """Returns the digests of each path in the record, without its damaged lines. Raises OSError."""
    recorded = defaultdict[str, set[str]](set)
    try:
        lines, _ = append_log.read_lines(folder / _NAME)
    except FileNotFoundError:
        return {}
    for line in lines:
        path, _, sha256 = line.decode("utf-8", "replace").partition(" ")
        recorded[path].add(sha256)
    return dict(recorded)
