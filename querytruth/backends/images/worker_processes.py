"""Work in separate processes: an item that crashes, hangs or needs too much memory affects no other item.

A worker is a new process (never a fork), imports the function's module alone, and is reused by the next caller.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from querytruth.backends.images.worker_main import WorkerJob, limit_rights, needs_network
from querytruth.backends.images.worker_starts import (
    WorkerFailure,
    WorkerLimits,
    WorkerProcess,
    end_idle_workers,
    keep_worker,
    start_worker,
)

__all__ = [
    "WorkerFailure",
    "WorkerLimits",
    "end_idle_workers",
    "finish_in_workers",
    "map_in_parallel",
    "map_in_workers",
]

T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")

DEFAULT_LIMITS = WorkerLimits()
_MAX_IN_FLIGHT = 64  # items sent to a worker ahead, so that it never waits
_FINISH_BATCH = 32  # items finished and answered at once
_RETIRES_AFTER = 20_000  # items: the memory that a decoder leaks is freed with its worker


def map_in_workers(
    work: Callable[[T], R], items: Iterable[T], limits: WorkerLimits = DEFAULT_LIMITS, *, writable: Path | None = None
) -> Iterator[R | WorkerFailure]:
    """Yield the results in the order of the items. `work` is a function of a module (not of `__main__`), or a
    `partial` of one. It may write below the existing folder `writable` alone, and connect only where an item, or its
    `location`, is a URL (querytruth/backends/images/worker_main.py).

    Raises what `work` raises, with the worker's traceback as a note, and UserError where no worker starts. Items are
    consumed up to 64 ahead of the results. Any number of threads may call this; each has its own worker.
    """
    return _MappedItems(work, None, limits, writable).map(iter(items))


def finish_in_workers(
    work: Callable[[T], M],
    finish: Callable[[list[M]], Iterable[R]],
    items: Iterable[T],
    limits: WorkerLimits = DEFAULT_LIMITS,
) -> Iterator[R | WorkerFailure]:
    """Yield results in the order of the items, where `finish` turns the return values of `work` for up to 32 items into
    results, in the worker, too; where that fails, each item is repeated alone."""
    return _MappedItems(work, finish, limits, None).map(iter(items))


class _MappedItems:
    """A call of `map_in_workers`: its worker, if any, and the items that wait for a result; the first `alone` of them
    are answered one by one."""

    def __init__(self, work: Any, finish: Any, limits: WorkerLimits, writable: Path | None) -> None:
        self.work, self.finish, self.limits, self.writable = work, finish, limits, writable
        self.together = _FINISH_BATCH if finish else 1
        self.sent: deque[Any] = deque()
        self.alone = 0
        self.worker: WorkerProcess | None = None

    def map(self, upcoming: Iterator[Any]) -> Iterator[Any]:
        """Yield the results in order."""
        try:
            while True:
                batch = self._take_batch(upcoming)
                if not self.sent:
                    return
                failure = self._hand_over(batch)
                result = self.worker.receive(self.limits) if self.worker is not None else failure
                if self.worker is not None and isinstance(result, WorkerFailure):
                    self._end_worker()
                    if self.together > 1 and not self.alone:
                        self.alone = len(self.sent)
                        continue
                self.sent.popleft()
                self.alone = max(0, self.alone - 1)
                yield result
        finally:
            if self.worker is not None and not self.sent and not self._is_old():
                keep_worker(self.worker)
            else:
                self._end_worker()

    def _take_batch(self, upcoming: Iterator[Any]) -> list[Any]:
        """Return the items to send now: none while enough are on their way, or while an old worker has some."""
        waits = (self._is_old() and self.sent) or 2 * len(self.sent) > _MAX_IN_FLIGHT
        batch = [] if waits else list(islice(upcoming, _MAX_IN_FLIGHT - len(self.sent)))
        self.sent.extend(batch)
        return batch

    def _hand_over(self, batch: list[Any]) -> WorkerFailure | None:
        """Send the batch to the worker, or all items to another one where it is too old or has too few rights. Return
        why none starts."""
        if self.worker is not None and (
            (self._is_old() and batch) or (not self.worker.rights.has_network and any(map(needs_network, batch)))
        ):
            self._end_worker()
        if self.worker is None:
            return self._start_worker()
        if batch:
            self.worker.send_items(batch, self.together)
        return None

    def _start_worker(self) -> WorkerFailure | None:
        rights = limit_rights(self.work, self.writable, any(map(needs_network, self.sent)))
        started = start_worker(WorkerJob(self.work, self.finish, self.limits.memory, rights))
        if isinstance(started, WorkerFailure):
            return started
        self.worker = started
        started.send_items(list(islice(self.sent, self.alone)), 1)
        started.send_items(list(islice(self.sent, self.alone, None)), self.together)
        return None

    def _is_old(self) -> bool:
        return self.worker is not None and self.worker.served >= _RETIRES_AFTER

    def _end_worker(self) -> None:
        if self.worker is not None:
            self.worker.end()
            self.worker = None


def map_in_parallel(
    work: Callable[[T], R], items: Sequence[T], count: int, limits: WorkerLimits = DEFAULT_LIMITS
) -> list[R | WorkerFailure]:
    """Return the results in order. Each of `count` threads has a worker and takes every `count`-th item."""
    results: list[Any] = [None] * len(items)

    def work_on_share(first: int) -> None:
        results[first::count] = map_in_workers(work, items[first::count], limits)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work_on_share, range(count)))
    return results
