"""Append-only logs of lines; every line is on disk before the call returns.

Lines that were appended together are separated by a carriage return, and the last one ends with a line feed. The line
feed is written when everything before it is on disk. Whatever follows the last line feed is an unfinished write, after
a power failure, too: readers skip it, and the next write replaces it.
"""

import errno
import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from backends.durable_files import make_durable_folder, sync_folder
from backends.regular_files import MAX_DOCUMENT_BYTES, open_regular, require_regular

_BLOCK_BYTES = 1 << 20
_LINE_END = re.compile(rb"\r\n?|\n")  # CRLF: of an editor


@contextmanager
def open_log(path: Path, *, wait: bool) -> Iterator[int]:
    """Locks a log for this process and yields its descriptor; creates a missing one. Where another process holds the
    lock, waits, or without `wait` raises BlockingIOError. Raises OSError where the log cannot be opened."""
    make_durable_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        require_regular(handle)
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if not os.fstat(handle).st_size:
            sync_folder(path.parent)
        yield handle
    finally:
        os.close(handle)


def append_lines(handle: int, lines: Sequence[str]) -> None:
    """Appends lines after the last whole one, all or none, and waits until they are on disk. Raises OSError."""
    if not lines:
        return
    end = _end_of_lines(handle)
    os.ftruncate(handle, end)
    try:
        _write_durably(handle, "\r".join(lines).encode())
        _write_durably(handle, b"\n")
    except BaseException:
        os.ftruncate(handle, end)
        raise


def read_lines(path: Path, start: int = 0, *, lock: bool = True) -> tuple[list[bytes], int]:
    """Returns the whole lines after the first `start` bytes, and the offset of their end. Raises OSError.

    Without `lock`, the last lines may be part of an append that another process is making.
    """
    with open_regular(path) as file:
        if lock:
            fcntl.flock(file, fcntl.LOCK_SH)
        if os.fstat(file.fileno()).st_size - start > MAX_DOCUMENT_BYTES:
            raise OSError(errno.EFBIG, f"has more than {MAX_DOCUMENT_BYTES >> 20} MB")
        file.seek(start)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return _LINE_END.split(whole)[:-1], start + len(whole)


def read_last_line(handle: int) -> bytes:
    """Returns the last whole line of an open log, without its end; b"" for none."""
    end = _end_of_lines(handle)
    start, line = end, b""
    while start and b"\n" not in line[:-1]:
        start = max(0, end - _BLOCK_BYTES - len(line))
        line = os.pread(handle, end - start, start)
    return _LINE_END.split(line.rstrip(b"\r\n"))[-1]


def _write_durably(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:  # a nearly full disk takes a part, and fails only at the next write
        rest = rest[os.write(handle, rest) :]
    os.fsync(handle)


def _end_of_lines(handle: int) -> int:
    """Returns the offset of the end of the last whole line."""
    end = os.lseek(handle, 0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK_BYTES)
        place = os.pread(handle, end - start, start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
