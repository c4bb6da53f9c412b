"""A log that a view of the page writes and follows: each decision is on disk before it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Generic, Protocol

from builders.decisions.effective import DecisionT


class FollowedLog(Protocol[DecisionT]):
    """A log on disk."""

    def append(self, decisions: Sequence[DecisionT], /) -> None:
        """Add decisions; they are on disk when it returns."""

    def read_from(self, start: int, /) -> tuple[list[DecisionT], int]:
        """The decisions after the first `start` bytes, and where the log ends."""


class LogSession(Generic[DecisionT]):
    """Threads take turns; what other processes add to the log is read before each answer."""

    def __init__(self, apply_entries: Callable[[list[DecisionT]], None], log: FollowedLog[DecisionT]) -> None:
        self._apply_entries, self._log = apply_entries, log
        self._position, self._lock = 0, Lock()
        self.refresh()

    def refresh(self) -> None:
        """Read what is new in the log."""
        with self._lock:
            self._refresh()

    def append(
        self,
        build_entries: Callable[[str], list[DecisionT]],
        build_response: Callable[[list[DecisionT]], dict[str, Any]],
    ) -> dict[str, Any]:
        """Put decisions, made for the present time, on disk; then the response to them."""
        with self._lock:
            self._refresh()
            # To the microsecond, so that no two actions have one time.
            entries = build_entries(datetime.now(UTC).isoformat(timespec="microseconds"))
            self._log.append(entries)
            self._refresh()
            return build_response(entries)

    def append_one(
        self, create: Callable[[str], DecisionT], find_card: Callable[[DecisionT], dict[str, Any]]
    ) -> dict[str, Any]:
        """Put the decision that `create` makes for the present time on disk; then its card."""
        return self.append(lambda at: [create(at)], lambda entries: find_card(entries[0]))

    def _refresh(self) -> None:
        entries, self._position = self._log.read_from(self._position)
        self._apply_entries(entries)
