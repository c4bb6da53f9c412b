"""Limits per host: requests at a time, the interval between them, and the pauses that the host asks for.

A host that cannot be reached, or that refuses everything for minutes, is given up for the rest of the run; the next
run tries it again.
"""

import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from backends.web.web_records import FailedFetch, RefusedFetch

LONGEST_PAUSE = 60.0  # seconds: the most that a server can ask for
_DEAD_AFTER = 3  # failed connections in a row before the first answer
_REFUSES_AFTER = 5  # addresses in a row with only 429 or 503 as answers
_PATIENCE = 300.0  # seconds during which a host may refuse everything


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
        """Waits for a slot of the host. Raises RefusedFetch where it comes too late or the host was given up."""
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
        """Returns the time (monotonic clock) of the next slot."""
        with self._changed:
            return self._hosts[host].opens_at

    def set_interval(self, host: str, seconds: float) -> None:
        """Sets the shortest interval between two requests that the host's robots.txt asks for."""
        with self._changed:
            self._hosts[host].interval = seconds

    def record_answer(self, host: str) -> None:
        """Records an answer other than 429 or 503."""
        with self._changed:
            state = self._hosts[host]
            state.answered, state.unreachable, state.refuses_since = True, 0, None
            state.refused.clear()

    def record_unreachable(self, host: str, failed: FailedFetch) -> None:
        """Records a failed connection."""
        with self._changed:
            state = self._hosts[host]
            state.unreachable += 1
            if not state.answered and state.unreachable >= _DEAD_AFTER:
                state.given_up = failed
                self._changed.notify_all()

    def record_refusal(self, host: str, url: str, failed: FailedFetch, pause: float) -> None:
        """Records a 429 or 503. After several refused addresses the host is paused for `pause` seconds, and after
        minutes of refusals it is given up."""
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
        """Ends all waits."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _wait(self, state: _Host) -> float:
        if state.given_up:
            return 0.0
        if state.under_way >= self._per_host:
            return 3600.0  # until a slot is released
        return state.opens_at - time.monotonic()


def retry_after(headers: Mapping[str, str]) -> float:
    """Returns the seconds that the server asks to wait, 0 to 60, given as a number or a date; 0 if not valid."""
    value = headers.get("retry-after", "").strip()
    try:
        if re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,9})?", value):
            seconds = float(value)
        else:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return 0.0
    return min(max(seconds, 0.0), LONGEST_PAUSE) if math.isfinite(seconds) else 0.0
