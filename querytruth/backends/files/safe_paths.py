"""Paths below a folder that cannot lead out of it: a received set may hold any name and any link.

Every read and write below a set, an export or a review folder gets its path here.

Files from outside are opened only where they are regular: a pipe would block a reader, a device never ends.
"""

import errno
import os
import stat
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from querytruth.errors import UserError

MAX_DOCUMENT_BYTES = 1 << 30  # of a file that is read whole: JSON, CSV, captions


def contained_path(folder: Path, name: str, stage: str) -> Path:
    """Return the path of `name` below the folder; the file may be missing. Raises UserError where the name leads out
    of the folder, or where it or a folder on its way is a link."""
    if not is_contained_name(name):
        raise UserError(stage, f"{folder}: {name!r}", "points outside the set", _NEXT_STEP)
    path = folder
    for part in PurePosixPath(name).parts:
        path = path / part
        if _mode(path) is not None and stat.S_ISLNK(_mode(path) or 0):
            raise UserError(stage, path, "is a link, not a folder or regular file of the set", _NEXT_STEP)
    return path


def contained_file(folder: Path, name: str, stage: str) -> Path:
    """Return the path of an existing regular file. Raises UserError like `contained_path`, and for a missing file, a
    pipe or a device, which could block its reader."""
    path = contained_path(folder, name, stage)
    mode = _mode(path)
    if mode is None or not stat.S_ISREG(mode):
        reason = "is missing" if mode is None else "is not a regular file"
        raise UserError(stage, path, reason, "run verify on the set, restore the file")
    return path


def is_contained_name(name: str) -> bool:
    """Return whether a name is relative and has no part that leads upwards."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and not set(name) & _FORBIDDEN


def _mode(path: Path) -> int | None:
    """Return the type and permissions of what is at the path, links not followed; None where nothing is."""
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):  # a name too long, or with a lone surrogate
        return None


_FORBIDDEN = {"\x00", "\\"}
_NEXT_STEP = "replace it by the file it points to, or get the set again"


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one, for reading. Raises OSError, also for a pipe, a device or a folder."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(handle)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_regular(handle: int) -> None:
    """Raise OSError where an open file is not regular."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file")


def read_regular(path: Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Return the bytes of a regular file. Raises OSError, also where it has more than `limit` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit or len(data := file.read(limit + 1)) > limit:
            raise OSError(errno.EFBIG, f"is larger than {limit >> 20} MB")
    return data
