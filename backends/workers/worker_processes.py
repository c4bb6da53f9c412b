"""Work in separate processes: an item that crashes, hangs or needs too much memory affects no other item.

A worker is a new process (never a fork), imports the function's module alone, and is reused by the next caller.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, overload

from backends.workers.worker_main import WorkerJob
from backends.workers.worker_process import WorkerFailure, WorkerLimits, WorkerProcess
from backends.workers.worker_rights import limit_rights, needs_network
from backends.workers.worker_starts import end_idle_workers, keep_worker, start_worker

__all__ = ["WorkerFailure", "WorkerLimits", "end_idle_workers", "map_in_parallel", "map_in_workers"]

T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")

DEFAULT_LIMITS = WorkerLimits()
_MAX_IN_FLIGHT = 32  # items sent to a worker ahead, so that it never waits
_FINISH_BATCH = 16  # items finished and answered at once
_RETIRES_AFTER = 20_000  # items: the memory that a decoder leaks is freed with its worker


@overload
def map_in_workers(
    work: Callable[[T], R], items: Iterable[T], limits: WorkerLimits = ..., *, writable: Path | None = None
) -> Iterator[R | WorkerFailure]: ...


@overload
def map_in_workers(
    work: Callable[[T], M], items: Iterable[T], limits: WorkerLimits = ..., *, finish: Callable[[list[M]], Iterable[R]]
) -> Iterator[R | WorkerFailure]: ...


def map_in_workers(
    work: Any,
    items: Iterable[Any],
    limits: WorkerLimits = DEFAULT_LIMITS,
    *,
    finish: Any = None,
    writable: Path | None = None,
) -> Iterator[Any]:
    """Yields the results in the order of the items. `work` is a function of a module (not of `__main__`), or a
    `partial` of one.

    `finish` also runs in the worker: it turns the return values of `work` for up to 16 items into results; where that
    fails, each item is repeated alone. The work may write below the existing folder `writable` alone, and connect only
    where an item, or its `location`, is a URL (backends/workers/worker_rights.py).

    Raises what `work` raises, with the worker's traceback as a note, and UserError where no worker starts. Items are
    consumed up to 32 ahead of the results. Any number of threads may call this; each has its own worker.
    """
    upcoming = iter(items)
    sent: deque[Any] = deque()  # items without a result
    alone = 0  # the first so many of them are answered one by one
    together = _FINISH_BATCH if finish else 1
    worker: WorkerProcess | None = None
    try:
        while True:
            is_old = worker is not None and worker.served >= _RETIRES_AFTER
            waits = (is_old and sent) or 2 * len(sent) > _MAX_IN_FLIGHT
            batch = [] if waits else list(islice(upcoming, _MAX_IN_FLIGHT - len(sent)))
            sent.extend(batch)
            if not sent:
                return
            if worker is not None and (
                (is_old and batch) or (not worker.rights.has_network and any(map(needs_network, batch)))
            ):
                worker.end()
                worker = None
            if worker is None:
                rights = limit_rights(work, writable, any(map(needs_network, sent)))
                job = WorkerJob(work, finish, limits.memory, rights)
                started = _start_with_items(job, sent, alone, together)
                worker = started if isinstance(started, WorkerProcess) else None
            elif batch:
                worker.send_items(batch, together)
            result = worker.receive(limits) if worker is not None else started
            if worker is not None and isinstance(result, WorkerFailure):
                worker.end()
                worker = None
                if together > 1 and not alone:
                    alone = len(sent)
                    continue
            sent.popleft()
            alone = max(0, alone - 1)
            yield result
    finally:
        if worker is not None and not sent and worker.served < _RETIRES_AFTER:
            keep_worker(worker)
        elif worker is not None:
            worker.end()


def _start_with_items(job: WorkerJob, sent: deque[Any], alone: int, together: int) -> WorkerProcess | WorkerFailure:
    """Returns a worker that has the items; the first `alone` of them are answered one by one."""
    started = start_worker(job)
    if isinstance(started, WorkerProcess):
        started.send_items(list(islice(sent, alone)), 1)
        started.send_items(list(islice(sent, alone, None)), together)
    return started


def map_in_parallel(
    work: Callable[[T], R], items: Sequence[T], count: int, limits: WorkerLimits = DEFAULT_LIMITS
) -> list[R | WorkerFailure]:
    """Returns the results in order. Each of `count` threads has a worker and takes every `count`-th item."""
    results: list[Any] = [None] * len(items)

    def work_on_share(first: int) -> None:
        results[first::count] = map_in_workers(work, items[first::count], limits)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work_on_share, range(count)))
    return results
