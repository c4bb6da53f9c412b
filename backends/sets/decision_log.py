"""datasets/<name>/decisions.jsonl: a line per decision, on disk before anybody is told that it was taken."""

from __future__ import annotations

import fcntl
import os
from io import FileIO
from pathlib import Path

from builders.decisions import Decision
from builders.errors import UserError

_NAME = "decisions.jsonl"
_BLOCK = 1 << 20


def read_log(folder: Path) -> list[Decision]:
    """All decisions of a set in order. A last line without a line end is a write that never finished: skipped."""
    path = folder / _NAME
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # never half of what another process is adding
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError("read decisions", path, f"cannot be read ({error.strerror})", "mend that") from None
    decisions = []
    for number, line in enumerate(lines, start=1):
        try:
            decisions.append(Decision.of_json(line.decode()))
        except (ValueError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            raise UserError("read decisions", f"{path} line {number}", reason, "mend or remove the line") from None
    return decisions


def append(folder: Path, decisions: list[Decision]) -> None:
    """Add decisions, all or none, and wait until they are on disk."""
    if not decisions:
        return
    path = folder / _NAME
    try:
        data = "".join(f"{decision.as_json()}\n" for decision in decisions).encode()
    except UnicodeEncodeError:
        raise UserError("save decisions", path, "a text holds half a character", "type that text again") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = _end_of_lines(file)
            file.truncate(end)  # a line that was cut off: nobody was told that it was taken, so it goes
            try:
                _write(file, data)
            except BaseException:
                file.truncate(end)
                raise
            if not end:
                _sync_folder(folder)
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); none was taken"
        raise UserError("save decisions", path, reason, "mend that and do the same again") from None


def _end_of_lines(file: FileIO) -> int:
    """Where the last whole line ends, however long the rest is."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        found = os.pread(file.fileno(), end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _write(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:  # a nearly full disk takes a part, and refuses only the next write
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
