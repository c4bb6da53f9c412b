"""A journal on disk: whole lines, added one after the other, each there for good before the next is begun.

A line without its end is a write that never finished; it is cut off when the journal is opened, and whoever wrote it
writes it again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.durable_files import sync_folder
from builders.errors import UserError

_STAGE = "keep journal"


class LineJournal:
    """An open journal: the lines that it held, and a way to add more."""

    def __init__(self, path: Path, handle: int, lines: list[str]) -> None:
        self.path, self.lines = path, lines
        self._handle = handle

    def append(self, line: str) -> None:
        """Add a line; it is on disk when the call returns, or, after an error, not there at all."""
        if "\n" in line:
            raise ValueError("a line of a journal holds a line end")
        end = os.lseek(self._handle, 0, os.SEEK_END)
        rest = memoryview(f"{line}\n".encode())
        try:
            while rest:  # a nearly full disk takes a part, and refuses only the next write
                rest = rest[os.write(self._handle, rest) :]
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, end)
            raise _journal_error(
                self.path, f"cannot be written ({error.strerror})", "mend that, then run the same command"
            ) from None

    def clear(self) -> None:
        """Begin anew, with no line."""
        os.ftruncate(self._handle, 0)
        self.lines = []


@contextmanager
def open_journal(path: Path) -> Iterator[LineJournal]:
    """The journal at `path`, made if it is not there, for one process alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise _journal_error(path, f"cannot be opened ({error.strerror})", "check the path") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _journal_error(path, "is being written by another run", "wait for it to end") from None
        if is_new:
            sync_folder(path.parent)
        yield LineJournal(path, handle, _whole_lines(path, handle))
    finally:
        os.close(handle)


def read_lines(path: Path) -> list[str]:
    """The whole lines of a journal that is not open here."""
    try:
        return _decoded(path, path.read_bytes())
    except OSError as error:
        raise _journal_error(path, f"cannot be read ({error.strerror})", "run the stage that writes it again") from None


def _whole_lines(path: Path, handle: int) -> list[str]:
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        os.ftruncate(handle, end)
    return _decoded(path, data[:end])


def _decoded(path: Path, data: bytes) -> list[str]:
    try:
        return data.decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _journal_error(
            f"{path} line {line}", "is damaged", "remove the file: it is made again from kept replies"
        ) from None


def _journal_error(item: object, reason: str, next_step: str) -> UserError:
    return UserError(_STAGE, item, reason, next_step)
