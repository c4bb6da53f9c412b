"""The bytes of a local file or an fsspec URL, up to a limit."""

import errno
import hashlib
import os
import stat
from typing import Any

from backends.sources.source_names import is_allowed_url
from backends.workers.handed_files import open_file

HEAD_BYTES = 4096  # enough to recognize the format of a file, and that a file has changed


def head_digest(head: bytes) -> str:
    """Returns the digest of a file's first bytes, as `ScannedImage.head` has it."""
    return hashlib.sha256(head).hexdigest()[:16]


def is_remote(location: str) -> bool:
    """Whether fsspec opens the location. An absolute path is local, whatever it contains."""
    return "://" in location and not location.startswith("/")


def read_bounded(location: str, limit: int) -> bytes:
    """Returns at most `limit` + 1 bytes; `limit` + 1 bytes mean that the file is too large. Links are followed.
    Raises OSError; FileNotFoundError for what is not a regular file."""
    if not is_remote(location):
        handle = open_file(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not block
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a regular file")
            return file.read(limit + 1)
    if not is_allowed_url(location):
        raise OSError(None, "cannot be read: a scheme that is not allowed")
    import fsspec

    try:
        with fsspec.open(location, "rb") as remote_file:
            return read_stream(remote_file, limit + 1)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # each file system has its own errors; their texts may hold a URL with a password
        raise OSError(None, f"cannot be read: {type(error).__name__}") from None


def read_stream(file: Any, limit: int) -> bytes:
    """Returns up to `limit` bytes. Reads repeatedly, because one read of a stream may return less."""
    pieces = []
    while limit > 0 and (piece := file.read(limit)):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)
