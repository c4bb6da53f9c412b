"""Runs a build's steps as tasks of a Prefect flow. The only file that imports Prefect: it costs seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from flows.definitions import PrecisionDefinition
from flows.precision_set import precision_set
from flows.steps import Reporter, Run, Silent, running

R = TypeVar("R")
T = TypeVar("T")


@dataclass(slots=True)
class PrefectRun(Run):
    """A run whose steps are tasks. They carry no parameters and keep no results: what is done is decided by our
    own files, and tables of millions of rows have no business in Prefect's cache."""

    def call(self, title: str, work: Callable[[], R]) -> R:
        """Do one step as a task."""
        done: R = task(lambda: Run.call(self, title, work), **_task_options(title))()
        return done

    def each(self, title: str, work: Callable[[T], R], items: list[T]) -> Iterator[R]:
        """A task per item on the flow's task runner."""
        numbered = task(lambda number: work(items[number]), **_task_options(f"{title}, part"))
        futures: list[PrefectFuture[Any]] = [numbered.submit(number) for number in range(len(items))]
        for future in futures:
            yield future.result()


def _task_options(title: str) -> dict[str, Any]:
    return {"name": title, "cache_policy": NO_CACHE, "persist_result": False}


def run_precision_set(definition: PrecisionDefinition, reporter: Reporter, workers: int) -> Any:
    """The precision build under Prefect, told to whoever waits at the terminal."""
    runner: Any = ThreadPoolTaskRunner(max_workers=workers)
    with running(PrefectRun(reporter, workers)):
        return precision_set_flow.with_options(task_runner=runner)(definition)


@flow(name="precision-set", flow_run_name="precision-{definition.name}", persist_result=False)
def precision_set_flow(definition: PrecisionDefinition) -> Any:
    """Build and publish a precision set."""
    from flows.steps import current

    run = current()
    if not isinstance(run, PrefectRun):  # started by a deployment: nobody waits at a terminal
        run = PrefectRun(Silent())
    with running(run):
        return precision_set(definition)
