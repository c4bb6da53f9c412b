"""A build whose steps are Prefect tasks. Tasks store no results: the files of a build decide what is done already, and
tables of millions of rows do not belong in Prefect's cache.
"""

import errno
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture
from prefect.states import Failed
from prefect.tasks import Task, exponential_backoff

from querytruth.backends.steps import Advance, BuildRun, PartWork, finish_part, submit_part
from querytruth.errors import UserError

R = TypeVar("R")
T = TypeVar("T")

# Errors of a file system or a database behind a broken connection; never a full disk or bad input.
_TRANSIENT_ERRNOS = {errno.EAGAIN, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}
_FIRST_WAIT = 2.0  # seconds, doubled each time


@dataclass(slots=True)
class PrefectBuildRun(BuildRun):
    """`deadline`: the end of the run, by the monotonic clock."""

    deadline: float | None = None

    def run_step(self, title: str, work: Callable[[], R]) -> R:
        """Run one step as a task. Raises TimeoutError at the deadline."""
        left = None if self.deadline is None else max(self.deadline - time.monotonic(), 0.1)
        one: Any = task(**_task_options(title), timeout_seconds=left)(
            lambda: _return_user_error(lambda: BuildRun.run_step(self, title, work))
        )
        done: R = _unwrap_result(one())
        return done

    def run_parts(self, title: str, work: PartWork[T, R], parts: Sequence[T], advance: Advance) -> Iterator[R]:
        """Run a task per part, on a thread of the flow's task runner; with a cluster, the thread waits for it."""
        # Parts read files and write whole ones, so they may run again; a step, which changes the ledger, may not.
        retries = {"retries": 3, "retry_delay_seconds": exponential_backoff(_FIRST_WAIT), "retry_jitter_factor": 0.5}
        options = _task_options(f"{title}, part") | retries | {"retry_condition_fn": _should_retry}
        one: Any = task(
            lambda number: _return_user_error(lambda: self._run_part(work, parts[number], advance)), **options
        )
        futures: list[PrefectFuture[Any]] = [one.submit(number) for number in range(len(parts))]
        for future in futures:
            yield _unwrap_result(future.result(raise_on_failure=False))

    def _run_part(self, work: PartWork[T, R], part: T, advance: Advance) -> R:
        if self.cluster is None:
            return work(part, advance)
        done: R = finish_part(submit_part(self.cluster, work, part), advance)
        return done


def deadline_after(hours: float | None) -> float | None:
    """Return the time after so many hours, by the monotonic clock; None for None."""
    return None if hours is None else time.monotonic() + hours * 3600


def _return_user_error(work: Callable[[], R]) -> R | State[Any]:
    """Return the result of `work`, or a failed state for a UserError, without a traceback; a transient error is
    raised."""
    try:
        return work()
    except UserError as error:
        if is_transient(error):
            raise
        return Failed(message=str(error), data=error)


def _unwrap_result(done: object) -> Any:
    """Return the result of a task. Raises the error of a failed one."""
    if isinstance(done, State):
        done = done.result(raise_on_failure=False)
    if isinstance(done, BaseException):
        raise done
    return done


def _task_options(title: str) -> dict[str, Any]:
    return {"name": title, "cache_policy": NO_CACHE, "persist_result": False}


def _should_retry(_task: Task[Any, Any], _run: TaskRun, state: State[Any]) -> bool:
    return isinstance(state.data, BaseException) and is_transient(state.data)


def is_transient(error: BaseException | None) -> bool:
    """Return whether the error or one of its causes may be gone a few seconds later."""
    while error is not None:
        if isinstance(error, ConnectionError | TimeoutError):
            return True
        if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRNOS:
            return True
        error = error.__cause__ or error.__context__
    return False
