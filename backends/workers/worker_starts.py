"""Starts worker processes, and keeps those that have answered everything for the next caller."""

import atexit
import contextlib
import os
from time import sleep

from backends.workers.worker_main import WorkerJob
from backends.workers.worker_process import WorkerFailure, WorkerLimits, WorkerProcess
from builders.errors import UserError, first_line

_STARTING = WorkerLimits(seconds=120.0)
_PAUSES = (0.0, 0.2, 1.0)  # seconds before each attempt to start one: memory may run short for a moment
_COSTS_ITEMS = 16  # so many failures in a row cost an item each; one more ends the build

# Workers between two callers. Append, pop and clear are atomic.
_idle: list[WorkerProcess] = []
_items_left = 0  # that a failure may cost: none until a worker has started


def start_worker(job: WorkerJob) -> WorkerProcess | WorkerFailure:
    """Returns a worker that has imported the functions, or why none starts. Raises UserError where no worker of this
    process has ever started or none starts any more, and what else the worker raises."""
    global _items_left
    failure = WorkerFailure("worker_crashed", "")
    for pause in _PAUSES:
        sleep(pause)
        started = _take_idle_worker(job) or _try_to_start(job)
        if isinstance(started, WorkerProcess):
            _items_left = _COSTS_ITEMS
            return started
        failure = started
    if not _items_left:
        raise _no_start_error(failure.detail)
    _items_left -= 1
    return failure


def _no_start_error(cause: str) -> UserError:
    next_step = "fix that, then run the same command: what was read is kept"
    return UserError("start workers", "worker process", f"does not start ({cause})", next_step)


def _take_idle_worker(job: WorkerJob) -> WorkerProcess | None:
    """Returns an idle worker for the job; ends those with other rights and skips those that ended."""
    with contextlib.suppress(IndexError):
        while True:
            idle = _idle.pop()
            if idle.rights != job.rights:
                idle.end()
            elif not isinstance(_prepare(idle, job), WorkerFailure):
                return idle
    return None


def _try_to_start(job: WorkerJob) -> WorkerProcess | WorkerFailure:
    try:
        worker = WorkerProcess(job.rights)
    except OSError as error:
        return WorkerFailure("worker_crashed", first_line(error))
    failure = _prepare(worker, job)
    return failure or worker


def _prepare(worker: WorkerProcess, job: WorkerJob) -> WorkerFailure | None:
    """Sends the job, and returns why the worker cannot take it. The worker is ended then."""
    try:
        worker.send(job)
        answer = worker.receive(_STARTING)
    except MemoryError:
        answer = WorkerFailure("worker_crashed", "MemoryError")
    except ImportError as error:  # no further attempt would have it
        worker.end()
        raise _no_start_error(f"{type(error).__name__}: {first_line(error)}") from None
    except BaseException:
        worker.end()
        raise
    if not isinstance(answer, WorkerFailure):
        return None
    printed = worker.last_error()
    worker.end()
    return answer._replace(detail=f"{answer.detail}: {printed}" if printed else answer.detail)


def keep_worker(worker: WorkerProcess) -> None:
    """Keeps a worker without open items for the next caller, or ends it where enough are idle."""
    if len(_idle) < (os.cpu_count() or 1):
        _idle.append(worker)
    else:
        worker.end()


def end_idle_workers() -> None:
    """Ends the workers that wait for a caller."""
    with contextlib.suppress(IndexError):
        while True:
            _idle.pop().end()


atexit.register(end_idle_workers)
os.register_at_fork(after_in_child=_idle.clear)  # not ended: they belong to the parent
