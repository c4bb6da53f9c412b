"""A build whose steps are Prefect tasks. They carry no tables and keep no results: what is done is decided by our own
files, and tables of millions of rows have no business in Prefect's cache."""

from __future__ import annotations

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

from builders.errors import UserError
from flows.steps import Advance, BuildRun, PartWork

R = TypeVar("R")
T = TypeVar("T")

# What passes by itself: a file system or a database behind a network that hung up. Never a full disk or bad input.
_TRANSIENT_ERRNOS = {errno.EAGAIN, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}
_RETRIES = 3
_FIRST_WAIT, _JITTER = 2.0, 0.5  # seconds, doubled each time, and spread by half so that parts do not come back at once


@dataclass(slots=True)
class PrefectBuildRun(BuildRun):
    """`is_remote`: the task runner's workers are other processes or machines; `deadline`: when the run has to be over,
    by the monotonic clock."""

    is_remote: bool = False
    deadline: float | None = None

    def run_step(self, title: str, work: Callable[[], R]) -> R:
        """Do one step as a task."""
        left = None if self.deadline is None else max(self.deadline - time.monotonic(), 0.1)
        one: Any = task(**_task_options(title), timeout_seconds=left)(
            lambda: _return_user_error(lambda: BuildRun.run_step(self, title, work))
        )
        done: R = _unwrap_result(one())
        return done

    def run_parts(self, title: str, work: PartWork[T, R], parts: Sequence[T], advance: Advance) -> Iterator[R]:
        """A task per part on the flow's task runner; elsewhere nobody sees the bar, so a part counts as a whole."""
        options = _task_options(f"{title}, part") | _retry_options()
        if self.is_remote:
            one: Task[..., Any] = task(_count_and_work, **options)
            futures: list[PrefectFuture[Any]] = [one.submit(work, part) for part in parts]
        else:
            numbered: Any = task(lambda number: _return_user_error(lambda: work(parts[number], advance)), **options)
            futures = [numbered.submit(number) for number in range(len(parts))]
        for future in futures:
            result = _unwrap_result(future.result(raise_on_failure=False))
            if self.is_remote:
                counted, result = result
                advance(counted)
            yield result


def _return_user_error(work: Callable[[], R]) -> R | State[Any]:
    """What the user can mend is a failed task's message, and no traceback; what may pass by itself is tried again."""
    try:
        return work()
    except UserError as error:
        if is_transient(error):
            raise
        return Failed(message=str(error), data=error)


def _count_and_work(work: PartWork[T, R], part: T) -> tuple[int, R] | State[Any]:
    """The part's result and how many units it held: what the bar shows of work done elsewhere."""
    counts: list[int] = []

    def counted() -> tuple[int, R]:
        result = work(part, counts.append)
        return sum(counts), result

    return _return_user_error(counted)


def _unwrap_result(done: Any) -> Any:
    """What a task gave; a failed one's error is raised, in whichever form it comes."""
    if isinstance(done, State):
        done = done.result(raise_on_failure=False)
    if isinstance(done, BaseException):
        raise done
    return done


def _task_options(title: str) -> dict[str, Any]:
    return {"name": title, "cache_policy": NO_CACHE, "persist_result": False}


def _retry_options() -> dict[str, Any]:
    """A part may be done again: it reads files, and writes whole ones. A step, which books what it did, may not."""
    return {
        "retries": _RETRIES,
        "retry_delay_seconds": exponential_backoff(_FIRST_WAIT),
        "retry_jitter_factor": _JITTER,
        "retry_condition_fn": _should_retry,
    }


def _should_retry(_task: Task[Any, Any], _run: TaskRun, state: State[Any]) -> bool:
    error = state.data
    return isinstance(error, BaseException) and is_transient(error)


def is_transient(error: BaseException | None) -> bool:
    """Whether the fault, or the one that it was made of, may be gone a few seconds later."""
    while error is not None:
        if isinstance(error, ConnectionError | TimeoutError):
            return True
        if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRNOS:
            return True
        error = error.__cause__ or error.__context__
    return False
