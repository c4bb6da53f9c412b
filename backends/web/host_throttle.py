"""When a host may be asked again: so many requests at a time, so far apart, and not at all while it wants a pause.

A host that nothing can connect to is given up for the rest of the run, and so is one that refuses everything for
minutes: neither holds up the others, and the next run tries again.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from backends.web.web_records import FailedFetch, RefusedFetch

_DEAD_AFTER = 3  # failed connections in a row, before the first answer
_REFUSES_AFTER = 5  # addresses in a row that were answered with 429 or 503 only
_PATIENCE = 300.0  # seconds that a host may go on refusing everything


@dataclass(slots=True)
class _Host:
    under_way: int = 0
    opens_at: float = 0.0
    interval: float = 0.0
    unreachable: int = 0
    answered: bool = False
    refused: set[str] = field(default_factory=set)
    refuses_since: float | None = None
    given_up: FailedFetch | None = None


class HostThrottle:
    """Shared by all threads; a host is a name with its port."""

    def __init__(self, per_host: int, interval: float) -> None:
        self._per_host, self._interval = per_host, interval
        self._hosts: dict[str, _Host] = defaultdict(_Host)
        self._changed = threading.Condition()
        self._stopped = False

    @contextmanager
    def acquire(self, host: str, ends: float) -> Iterator[None]:
        """A turn with the host, waited for; Refused where it comes too late or the host was given up."""
        with self._changed:
            state = self._hosts[host]
            while (wait := self._wait(state)) > 0:
                left = ends - time.monotonic()
                if left <= 0 or self._stopped:
                    raise RefusedFetch("deadline", "transient", "the host's turn came too late")
                self._changed.wait(min(wait, left))
            if state.given_up:
                raise RefusedFetch(state.given_up.reason, "transient", state.given_up.detail)
            state.under_way += 1
            state.opens_at = max(state.opens_at, time.monotonic() + max(self._interval, state.interval))
        try:
            yield
        finally:
            with self._changed:
                state.under_way -= 1
                self._changed.notify_all()

    def opens_at(self, host: str) -> float:
        """The moment (monotonic clock) before which there is no turn."""
        with self._changed:
            return self._hosts[host].opens_at

    def set_interval(self, host: str, seconds: float) -> None:
        """At least so long between two requests: what the host's robots.txt asks for."""
        with self._changed:
            self._hosts[host].interval = seconds

    def record_answer(self, host: str) -> None:
        """It gave an answer other than a refusal to answer now."""
        with self._changed:
            state = self._hosts[host]
            state.answered, state.unreachable, state.refuses_since = True, 0, None
            state.refused.clear()

    def record_unreachable(self, host: str, failed: FailedFetch) -> None:
        """No connection came about."""
        with self._changed:
            state = self._hosts[host]
            state.unreachable += 1
            if not state.answered and state.unreachable >= _DEAD_AFTER:
                state.given_up = failed
                self._changed.notify_all()

    def record_refusal(self, host: str, url: str, failed: FailedFetch, pause: float) -> None:
        """It answered that it will not now. One address may be at fault; when one after the other is refused, the host
        is left alone for as long as it asks, and at last given up."""
        now = time.monotonic()
        with self._changed:
            state = self._hosts[host]
            state.refused.add(url)
            if len(state.refused) < _REFUSES_AFTER:
                return
            state.refuses_since = now if state.refuses_since is None else state.refuses_since
            state.opens_at = max(state.opens_at, now + pause)
            if now - state.refuses_since > _PATIENCE:
                state.given_up = failed
                self._changed.notify_all()

    def stop(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _wait(self, state: _Host) -> float:
        if state.given_up:
            return 0.0
        if state.under_way >= self._per_host:
            return 3600.0  # until somebody gives a turn back
        return state.opens_at - time.monotonic()
