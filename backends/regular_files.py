"""Files from outside are opened only where they are regular: a pipe would block a reader, a device never ends."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MAX_DOCUMENT_BYTES = 1 << 30  # of a file that is read whole: JSON, CSV, captions


def open_regular(path: Path) -> BinaryIO:
    """Opens a regular file, or a link to one, for reading. Raises OSError, also for a pipe, a device or a folder."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(handle)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_regular(handle: int) -> None:
    """Raises OSError where an open file is not regular."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file")


def read_regular(path: Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Returns the bytes of a regular file. Raises OSError, also where it has more than `limit` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit or len(data := file.read(limit + 1)) > limit:
            raise OSError(errno.EFBIG, f"has more than {limit >> 20} MB")
    return data
