"""What people say, as lines of an append-only log: on disk before it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Generic, TypeVar

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class Log(Generic[Line]):
    """A log on disk. `append` returns when the lines are there; `read_on` gives the lines after a place and the place
    where they end."""

    append: Callable[[list[Line]], None]
    read_on: Callable[[int], tuple[list[Line], int]]


class LogDesk(Generic[Line]):
    """Threads take turns; what other processes add to the log is heard before each answer."""

    def __init__(self, hear: Callable[[list[Line]], None], log: Log[Line]) -> None:
        self._hear, self._log = hear, log
        self._heard, self._lock = 0, Lock()
        self.listen()

    def listen(self) -> None:
        """Hear what is new in the log."""
        with self._lock:
            self._listen()

    def keep(self, make: Callable[[str], list[Line]], answer: Callable[[list[Line]], dict[str, Any]]) -> dict[str, Any]:
        """Put lines, made for the present time, on disk; then what answers them."""
        with self._lock:
            self._listen()
            lines = make(_now())
            self._log.append(lines)
            self._listen()
            return answer(lines)

    def _listen(self) -> None:
        lines, self._heard = self._log.read_on(self._heard)
        self._hear(lines)


def _now() -> str:
    """To the microsecond, so that no two acts have one time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
