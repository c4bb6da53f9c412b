"""Runs a build's steps as tasks of a Prefect flow. The only file that imports Prefect: it costs seconds."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from builders.errors import UserError, nearest
from flows.builds import build_set
from flows.definitions import GalleryDefinition, PrecisionDefinition, RecallDefinition, SetDefinition
from flows.steps import Advance, PartWork, Run, current, running

R = TypeVar("R")
T = TypeVar("T")
RUNNERS = ("threads", "dask", "ray")


@dataclass(slots=True)
class PrefectRun(Run):
    """A run whose steps are tasks. They carry no tables and keep no results: what is done is decided by our own
    files, and tables of millions of rows have no business in Prefect's cache."""

    elsewhere: bool = False  # the task runner's workers are other processes or machines

    def call(self, title: str, work: Callable[[], R]) -> R:
        """Do one step as a task."""
        done: R = task(lambda: Run.call(self, title, work), **_task_options(title))()
        return done

    def each(self, title: str, work: PartWork[T, R], parts: Sequence[T], advance: Advance) -> Iterator[R]:
        """A task per part on the flow's task runner; elsewhere nobody sees the bar, so a part counts as a whole."""
        options = _task_options(f"{title}, part")
        if self.elsewhere:
            one = task(_count_and_work, **options)
            futures: list[PrefectFuture[Any]] = [one.submit(work, part) for part in parts]
        else:
            numbered = task(lambda number: work(parts[number], advance), **options)
            futures = [numbered.submit(number) for number in range(len(parts))]
        for future in futures:
            result = future.result()
            if self.elsewhere:
                counted, result = result
                advance(counted)
            yield result


def _count_and_work(work: PartWork[T, R], part: T) -> tuple[int, R]:
    """The part's result and how many units it held: what the bar shows of work done elsewhere."""
    counts: list[int] = []
    result = work(part, counts.append)
    return sum(counts), result


def _task_options(title: str) -> dict[str, Any]:
    return {"name": title, "cache_policy": NO_CACHE, "persist_result": False}


def run_build(definition: SetDefinition, run: Run, runner: str) -> Any:
    """A build under Prefect, told to whoever waits at the terminal. `runner`: threads, dask or ray, the latter two
    with `:ADDRESS` for a cluster that is up already."""
    task_runner, elsewhere = _task_runner(runner, run.workers)
    whole = FLOWS[definition.kind].with_options(task_runner=task_runner)
    given = {field.name: getattr(run, field.name) for field in fields(Run)}
    with running(PrefectRun(**given, elsewhere=elsewhere)):
        if not elsewhere:
            return whole(definition)
        with _one_server(by_address=":" in runner):
            return whole(definition)


@contextmanager
def _one_server(by_address: bool) -> Iterator[None]:
    """The server of this process for its workers, too: each of them would else start one of its own."""
    with get_client(sync_client=True) as client:
        address = str(client.api_url).rstrip("/")
    if by_address and not os.environ.get("PREFECT_API_URL"):
        reason = "has workers that cannot reach a server of this process alone"
        raise UserError("run", "the cluster", reason, "set PREFECT_API_URL to a server that they reach")
    before = os.environ.get("PREFECT_API_URL")
    os.environ["PREFECT_API_URL"] = address
    try:
        with temporary_settings({PREFECT_API_URL: address}):
            yield
    finally:
        os.environ.pop("PREFECT_API_URL") if before is None else os.environ.update(PREFECT_API_URL=before)


def _task_runner(name: str, workers: int) -> tuple[TaskRunner[Any], bool]:
    kind, _, address = name.partition(":")
    if kind == "threads" and not address:
        runner: Any = ThreadPoolTaskRunner(max_workers=workers)
        return runner, False
    if kind not in RUNNERS[1:]:
        raise UserError("run", name, "is no runner", nearest(kind, list(RUNNERS)))
    try:
        if kind == "dask":
            return _dask(address, workers), True
        return _ray(address, workers), True
    except ImportError:
        raise UserError("run", name, "is not installed", f"pip install -e '.[{kind}]'") from None


def _dask(address: str, workers: int) -> Any:
    from prefect_dask.task_runners import DaskTaskRunner

    # Port 0: Dask serves a page in any case; at least it takes no port that somebody else wants.
    local = {
        "n_workers": workers,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "memory_limit": 0,
    }
    return DaskTaskRunner(address=address) if address else DaskTaskRunner(cluster_kwargs=local)


def _ray(address: str, workers: int) -> Any:
    from prefect_ray.task_runners import RayTaskRunner

    local = {
        "num_cpus": workers,
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "object_store_memory": 100 << 20,  # only paths travel
    }
    return RayTaskRunner(address=address) if address else RayTaskRunner(init_kwargs=local)


def _build(definition: SetDefinition) -> Any:
    run = current()
    if not isinstance(run, PrefectRun):  # started by a deployment: nobody waits at a terminal
        run = PrefectRun()
    with running(run):
        return build_set(definition)


@flow(name="gallery-set", flow_run_name="gallery-{definition.name}", persist_result=False)
def gallery_set_flow(definition: GalleryDefinition) -> Any:
    """Build and publish a gallery."""
    return _build(definition)


@flow(name="precision-set", flow_run_name="precision-{definition.name}", persist_result=False)
def precision_set_flow(definition: PrecisionDefinition) -> Any:
    """Build and publish a precision set."""
    return _build(definition)


@flow(name="recall-set", flow_run_name="recall-{definition.name}", persist_result=False)
def recall_set_flow(definition: RecallDefinition) -> Any:
    """Build and publish a recall set, and the smaller ones within it."""
    return _build(definition)


FLOWS: dict[str, Any] = {
    "gallery": gallery_set_flow,
    "precision": precision_set_flow,
    "recall": recall_set_flow,
}
