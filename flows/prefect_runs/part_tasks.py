"""The task runner of a flow: a thread for each part that is done at a time, here or on a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL
from prefect.task_runners import ThreadPoolTaskRunner

from flows.clusters import cluster_hosts

WAITING_PARTS = 256  # that are given to a cluster at a time: it decides how many it does


def engine_hosts(runner: str) -> tuple[str, ...]:
    """The hosts that a run by Prefect talks to: this machine, the cluster of the runner, and the server."""
    server = urlsplit(PREFECT_API_URL.value() or "").hostname
    return (*cluster_hosts(runner), *([server] if server else []))


@contextmanager
def use_part_threads(count: int) -> Iterator[None]:
    """Run the tasks of the current flow on so many threads, in place of the task runner that it has started with."""
    context = FlowRunContext.get()
    if context is None:
        raise RuntimeError("tasks are run by a flow")
    threads: Any = ThreadPoolTaskRunner(max_workers=count)
    with threads as runner, context.model_copy(update={"task_runner": runner}):
        yield
