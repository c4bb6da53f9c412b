"""Folders in which runs write before they put the result in place, one for each run, and what interrupted runs left.

The name holds the machine and the process. A folder is abandoned when its process has ended, or, where that is on
another machine, after a day. Left are unfinished writes, and versions of killed builds that were never put in place.
"""

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from querytruth.backends.environment import process_start, this_machine

_NAME = re.compile(r"([0-9a-f]{12})-([0-9]+)-[0-9a-f]{8}")
_ABANDONED = 24 * 3600  # seconds
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}")  # the temporary names of querytruth.backends.files.durable_files
_VERSION = re.compile(r"v[1-9][0-9]*")


def make_staging_folder(parent: Path) -> Path:
    """Creates a folder of this process below `parent`, which is created if missing."""
    folder = parent / f"{_this_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    for _ in range(9):
        with suppress(FileNotFoundError):  # another run removed the empty parent at this moment
            folder.mkdir(parents=True)
            return folder
    folder.mkdir(parents=True)
    return folder


def is_abandoned(folder: Path) -> bool:
    """Whether no run writes to the folder any more. One that has no name of ours is."""
    if not (named := _NAME.fullmatch(folder.name)):
        return True
    if named[1] == _this_machine() and not process_start(int(named[2])):
        return True
    try:
        return time.time() - folder.stat().st_mtime > _ABANDONED
    except FileNotFoundError:
        return False


def remove_abandoned_folders(parent: Path) -> None:
    """Removes what ended runs left below `parent`, and `parent` where it is empty then."""
    with suppress(OSError):
        for path in parent.iterdir():
            if not is_abandoned(path):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        parent.rmdir()


def _this_machine() -> str:
    return hashlib.sha256(this_machine().encode()).hexdigest()[:12]


def find_leftovers(folder: Path, older_than: float) -> list[Path]:
    """Returns the leftovers that were last changed before `older_than` (seconds since 1970), sorted. Nothing in a
    version and no decision, reply or rendered image is one."""
    files = [path for path in _walk(folder) if path.lstat().st_mtime < older_than]
    inside = {path: path.relative_to(folder).parts for path in files}
    found = {
        path for path, parts in inside.items() if _UNFINISHED.fullmatch(path.name) or parts[:2] == ("pages", "incoming")
    }
    staged = {path: folder.joinpath(*parts[:2]) for path, parts in inside.items() if parts[0] == ".publish"}
    return sorted(found | {path for path, staging in staged.items() if is_abandoned(staging)})


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink():
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and not _VERSION.fullmatch(path.name):
            yield from _walk(path)
