"""WebDataset shards: tars of images and captions, named by a file or by a pattern of names."""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from builders.errors import UserError

_SUFFIX = ".tar"
_COMPRESSED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")
_MOST_SHARDS = 1_000_000
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})")


class Shard(NamedTuple):
    """A tar and the name that its members' names begin with."""

    name: str
    path: Path


def find_shards(stage: str, given: str) -> list[Shard]:
    """Returns the shards that a .tar or a pattern names (`{00000..00012}`, `{a,b}`, `*`, `?`); none where it names
    something else. Raises UserError for a pattern without files, a missing one, and a compressed tar."""
    path = Path(given)
    if given.lower().endswith(_COMPRESSED):
        raise UserError(stage, given, "is compressed", f"unpack it to a {_SUFFIX} file")
    if not is_shard(given) or path.is_dir() or not (path.is_file() or _is_pattern(given)):
        return []
    files = [path] if path.is_file() else _expand(stage, given)
    if missing := next((file for file in files if not file.is_file()), None):
        raise UserError(stage, missing, "is not there", f"fix the pattern {given}")
    if not files:
        raise UserError(stage, given, "matches no file", "check the pattern")
    home = os.path.commonpath([file.absolute().parent for file in files])
    return [Shard(file.absolute().relative_to(home).as_posix(), file) for file in files]


def is_shard(name: str) -> bool:
    """Whether a file is a shard, by its name."""
    return name.lower().endswith(_SUFFIX)


def _is_pattern(given: str) -> bool:
    return any(mark in given for mark in "*?[{")


def _expand(stage: str, given: str) -> list[Path]:
    """Returns the files of a pattern; what braces name must be there, what a wildcard matches is found."""
    names = list(islice(_expand_braces(given), _MOST_SHARDS + 1))
    if len(names) > _MOST_SHARDS:
        raise UserError(stage, given, f"names more than {_MOST_SHARDS:,} shards", "give fewer of them")
    found = (sorted(glob.glob(name)) if glob.has_magic(name) else [name] for name in names)  # noqa: PTH207 - an absolute pattern, too
    return [Path(file) for files in found for file in files]


def _expand_braces(given: str) -> Iterator[str]:
    """Yields the names of a pattern as shells and WebDataset read it: a range has the digits of its start."""
    braces = _BRACES.search(given)
    if braces is None:
        yield given
        return
    before, after = given[: braces.start()], given[braces.end() :]
    if limits := _RANGE.fullmatch(braces[1]):
        numbers = range(int(limits[1]), int(limits[2]) + 1)
        parts: Iterable[str] = (str(number).zfill(len(limits[1])) for number in numbers)
    else:
        parts = braces[1].split(",")
    for one in parts:
        for rest in _expand_braces(after):
            yield before + one + rest
