"""The journal of a stage on disk: a line per step, for one process at a time."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from backends import append_log
from builders.errors import UserError

_STAGE = "keep journal"


class LineJournal:
    """An open journal and the lines that it held when it was opened."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path, self.lines = path, read_lines(path)
        self._handle = handle

    def append(self, line: str) -> None:
        """Appends a line; it is on disk when the call returns. Raises UserError, and then writes nothing."""
        if "\n" in line or "\r" in line:
            raise ValueError("a line of a journal holds a line end")
        try:
            append_log.append_lines(self._handle, [line])
        except OSError as error:
            reason = f"cannot be written ({error.strerror})"
            raise UserError(_STAGE, self.path, reason, "fix that, then run the same command") from None

    def clear(self) -> None:
        """Removes all lines."""
        os.ftruncate(self._handle, 0)
        self.lines = []


@contextmanager
def open_journal(path: Path) -> Iterator[LineJournal]:
    """Opens the journal at `path`, created if missing. Raises UserError where another process has it open."""
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(append_log.open_log(path, wait=False))
        except BlockingIOError:
            raise UserError(_STAGE, path, "is being written by another run", "wait for it to end") from None
        except OSError as error:
            raise UserError(_STAGE, path, f"cannot be opened ({error.strerror})", "check the path") from None
        yield LineJournal(path, handle)


def read_lines(path: Path) -> list[str]:
    """Returns the complete lines of a journal, open or not. Raises UserError where it is missing or damaged."""
    lines: list[str] = []
    try:
        for line in append_log.read_lines(path, lock=False)[0]:
            lines.append(line.decode())  # noqa: PERF401 - their number is the place of an error
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise UserError(_STAGE, path, reason, "run the stage that writes it again") from None
    except UnicodeDecodeError:
        next_step = "remove the file: it is made again from kept replies"
        raise UserError(_STAGE, f"{path} line {len(lines) + 1}", "is damaged", next_step) from None
    return lines
