"""The queue of fetches: the next one goes to the host that has waited longest among those that are open.

A slow host, or one that asks for a pause, delays only its own fetches: no thread waits for it while another is open.
"""

import heapq
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Waiting(Generic[T]):
    jobs: deque[T] = field(default_factory=deque)
    under_way: int = 0
    is_listed: bool = False


class FetchQueue(Generic[T]):
    """Jobs by host. `opens_at` returns the time (monotonic clock) from which a host accepts the next request."""

    def __init__(self, per_host: int, opens_at: Callable[[str], float]) -> None:
        self._per_host, self._opens_at = per_host, opens_at
        self._hosts: dict[str, _Waiting[T]] = defaultdict(_Waiting)
        self._listed: list[tuple[float, int, str]] = []  # hosts with a job and a free slot, by opening time
        self._later: list[tuple[float, int, str, T]] = []  # jobs to retry, by time
        self._numbers, self._unfinished, self._stopped = count(), 0, False
        self._changed = threading.Condition()

    def put(self, host: str, job: T) -> None:
        """Adds a job after the other jobs of its host."""
        with self._changed:
            self._unfinished += 1
            self._hosts[host].jobs.append(job)
            self._list(host)
            self._changed.notify()

    def take(self) -> tuple[str, T] | None:
        """Waits for the next job and returns it with its host; None when all are done or the queue is stopped."""
        with self._changed:
            while self._unfinished and not self._stopped:
                now = time.monotonic()
                self._bring_forward(now)
                if self._listed and self._listed[0][0] <= now:
                    host = heapq.heappop(self._listed)[2]
                    waiting = self._hosts[host]
                    waiting.is_listed = False
                    waiting.under_way += 1
                    job = waiting.jobs.popleft()
                    self._list(host)
                    return host, job
                moments = [host[0] for host in self._listed[:1]] + [job[0] for job in self._later[:1]]
                self._changed.wait(min(moments) - now if moments else None)
            return None

    def done(self, host: str) -> None:
        """Marks a taken job as finished."""
        with self._changed:
            self._unfinished -= 1
            self._release(host)

    def retry_later(self, host: str, job: T, pause: float) -> None:
        """Puts a taken job back, before the other jobs of its host, after a pause in seconds."""
        with self._changed:
            heapq.heappush(self._later, (time.monotonic() + pause, next(self._numbers), host, job))
            self._release(host)

    def stop(self) -> None:
        """Stops handing out jobs."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _release(self, host: str) -> None:
        self._hosts[host].under_way -= 1
        self._list(host)
        self._changed.notify_all()

    def _bring_forward(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            _, _, host, job = heapq.heappop(self._later)
            self._hosts[host].jobs.appendleft(job)
            self._list(host)

    def _list(self, host: str) -> None:
        waiting = self._hosts[host]
        if waiting.jobs and not waiting.is_listed and waiting.under_way < self._per_host:
            waiting.is_listed = True
            heapq.heappush(self._listed, (self._opens_at(host), next(self._numbers), host))
