"""datasets/<name>/decisions.jsonl: a line per decision, on disk before anybody is told that it was taken."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path
from typing import TypeVar

from builders.decisions import Decision
from builders.errors import UserError
from builders.image_decisions import ImageDecision
from builders.overrides import Override

_NAME = "decisions.jsonl"
LineT = TypeVar("LineT")
DecisionT = TypeVar("DecisionT")
_BLOCK = 1 << 20


def read_decision_log(folder: Path) -> list[Decision]:
    """All decisions of a set on queries and judgments, in order. A last line without a line end is a write that never
    finished: skipped."""
    return read_decisions_from(folder)[0]


def read_decisions_from(folder: Path, start: int = 0) -> tuple[list[Decision], int]:
    """The decisions after the first `start` bytes, and where they end: how a reader follows a log that others, too,
    add to."""
    return _read_kind(Decision, folder, start)


def read_image_decisions_from(folder: Path, start: int = 0) -> tuple[list[ImageDecision], int]:
    """The decisions about pictures alone, as `read_on`."""
    return _read_kind(ImageDecision, folder, start)


def read_overrides_from(folder: Path, start: int = 0) -> tuple[list[Override], int]:
    """The rescues alone, as `read_on`."""
    return _read_kind(Override, folder, start)


def _read_kind(kind: type[DecisionT], folder: Path, start: int) -> tuple[list[DecisionT], int]:
    decisions, end = read_log_lines(folder / _NAME, _read, "read decisions", start)
    return [decision for decision in decisions if isinstance(decision, kind)], end


def _read(line: str) -> Decision | ImageDecision | Override:
    """A line of any kind, told by what it is about."""
    fields = json.loads(line)
    kind: type[Decision] | type[ImageDecision] | type[Override] = Decision
    if isinstance(fields, dict):
        kind = ImageDecision if "pictures" in fields else Override if "item" in fields else Decision
    decision = kind.from_json(line)
    if "\\u" in line and any("\ud800" <= letter <= "\udfff" for letter in decision.as_json()):
        raise ValueError("a text holds half a character")
    return decision


def append_decisions(folder: Path, decisions: Sequence[Decision | ImageDecision | Override]) -> None:
    """Add decisions, all or none, and wait until they are on disk."""
    append_log_lines(folder / _NAME, [decision.as_json() for decision in decisions], "save decisions")


def read_log_lines(path: Path, of_json: Callable[[str], LineT], stage: str, start: int = 0) -> tuple[list[LineT], int]:
    """The whole lines of a log after the first `start` bytes, and where they end."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # never half of what another process is adding
            file.seek(start)
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise UserError(stage, path, f"cannot be read ({error.strerror})", "mend that") from None
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(of_json(line.decode()))
        except (ValueError, RecursionError) as error:
            reason, further = str(error).splitlines()[0], "" if not start else f" after byte {start}"
            raise UserError(stage, f"{path} line {number}{further}", reason, "mend or remove the line") from None
    return records, start + sum(len(line) + 1 for line in lines)


def append_log_lines(path: Path, lines: list[str], stage: str) -> None:
    """Add lines to a log, all or none, and wait until they are on disk."""
    if not lines:
        return
    try:
        data = "".join(f"{line}\n" for line in lines).encode()
    except UnicodeEncodeError:
        raise UserError(stage, path, "a text holds half a character", "type that text again") from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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
                _sync_folder(path.parent)
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); none was taken"
        raise UserError(stage, path, reason, "mend that and do the same again") from None


def _end_of_lines(file: FileIO) -> int:
    """Where the last whole line ends, however long the rest is."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        position = os.pread(file.fileno(), end - start, start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
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
