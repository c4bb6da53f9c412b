"""The bytes of a local file or an fsspec URL, up to a limit."""

from __future__ import annotations

import errno
import os
import stat
from typing import Any


def is_remote(location: str) -> bool:
    """Whether fsspec opens the location; an absolute path is local, whatever it contains."""
    return "://" in location and not location.startswith("/")


def read_bounded(location: str, limit: int) -> bytes:
    """Returns at most `limit` + 1 bytes: one more than the limit says that there is more. Raises OSError, and
    FileNotFoundError for what is not a regular file. Links are followed."""
    if not is_remote(location):
        handle = os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not block
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a regular file")
            return file.read(limit + 1)
    import fsspec

    try:
        with fsspec.open(location, "rb") as remote_file:
            return read_stream(remote_file, limit + 1)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # every file system has its own; their texts may hold a URL with a password
        raise OSError(None, f"cannot be read: {type(error).__name__}") from None


def read_stream(file: Any, limit: int) -> bytes:
    """Returns up to `limit` bytes; streams give less at a time than they are asked for."""
    pieces = []
    while limit > 0 and (piece := file.read(limit)):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)
