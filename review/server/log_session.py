"""A log that a view of the page writes and follows: each decision is on disk before the response."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Generic, Protocol

from builders.decisions.effective import DecisionT


class FollowedLog(Protocol[DecisionT]):
    """A log on disk."""

    def append(self, decisions: Sequence[DecisionT], /) -> None:
        """Append decisions and wait until they are on disk."""

    def read_from(self, start: int, /) -> tuple[list[DecisionT], int]:
        """Return the decisions after the first `start` bytes, and the end of the log in bytes."""


class LogSession(Generic[DecisionT]):
    """A session on one log, safe for threads; entries of other processes are read before each response."""

    def __init__(self, apply_entries: Callable[[list[DecisionT]], None], log: FollowedLog[DecisionT]) -> None:
        self._apply_entries, self._log = apply_entries, log
        self._position, self._lock = 0, Lock()
        self.refresh()

    def refresh(self) -> None:
        """Apply the new entries of the log."""
        with self._lock:
            self._refresh()

    def append(
        self,
        build_entries: Callable[[str], list[DecisionT]],
        build_response: Callable[[list[DecisionT]], dict[str, Any]],
    ) -> dict[str, Any]:
        """Write the decisions that `build_entries` returns for the present time; return the response to them."""
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
        """Write the decision that `create` returns for the present time; return its card."""
        return self.append(lambda at: [create(at)], lambda entries: find_card(entries[0]))

    def _refresh(self) -> None:
        entries, self._position = self._log.read_from(self._position)
        self._apply_entries(entries)
