"""What people say, as lines of an append-only log: on disk before it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Generic, TypeVar

LogEntry = TypeVar("LogEntry")


@dataclass(frozen=True, slots=True)
class LogFile(Generic[LogEntry]):
    """A log on disk. `append` returns when the lines are there; `read_on` gives the lines after a place and the place
    where they end."""

    append: Callable[[list[LogEntry]], None]
    read_from: Callable[[int], tuple[list[LogEntry], int]]


class LogSession(Generic[LogEntry]):
    """Threads take turns; what other processes add to the log is heard before each answer."""

    def __init__(self, apply_entries: Callable[[list[LogEntry]], None], log: LogFile[LogEntry]) -> None:
        self._apply_entries, self._log = apply_entries, log
        self._position, self._lock = 0, Lock()
        self.refresh()

    def refresh(self) -> None:
        """Hear what is new in the log."""
        with self._lock:
            self._refresh()

    def append(
        self, build_entries: Callable[[str], list[LogEntry]], build_response: Callable[[list[LogEntry]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Put lines, made for the present time, on disk; then what answers them."""
        with self._lock:
            self._refresh()
            lines = build_entries(_now())
            self._log.append(lines)
            self._refresh()
            return build_response(lines)

    def _refresh(self) -> None:
        lines, self._position = self._log.read_from(self._position)
        self._apply_entries(lines)


def _now() -> str:
    """To the microsecond, so that no two acts have one time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
