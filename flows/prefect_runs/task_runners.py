"""Task runners: threads of this process, or a cluster of Dask or Ray."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.parse import urlsplit

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from builders.errors import UserError, suggest_choice

RUNNERS = ("threads", "dask", "ray")


def is_remote_runner(name: str) -> bool:
    """Whether the runner's workers are other processes or machines."""
    return name != "threads"


def engine_hosts(runner: str) -> tuple[str, ...]:
    """The hosts that a run by Prefect talks to: this machine, the server, and the cluster of the runner."""
    addresses = (PREFECT_API_URL.value() or "", runner.partition(":")[2])
    named = (urlsplit(address if "//" in address else f"//{address}").hostname for address in addresses)
    return ("127.0.0.1", "::1", "localhost", *(host for host in named if host))


@contextmanager
def use_task_runner(name: str, workers: int) -> Iterator[None]:
    """Run the tasks of the current flow on threads, dask or ray, the latter two with `:ADDRESS` for a running cluster.
    Raises UserError for an unknown runner, one that is not installed, or a cluster that cannot reach the server."""
    runner = create_task_runner(name, workers)
    server = _share_server(by_address=":" in name) if is_remote_runner(name) else nullcontext()
    with server, _runner_of_this_flow(runner):
        yield


@contextmanager
def _runner_of_this_flow(runner: TaskRunner[Any]) -> Iterator[None]:
    """Replaces the task runner that the flow has started with."""
    context = FlowRunContext.get()
    if context is None:
        raise RuntimeError("tasks are run by a flow")
    with runner as started, context.model_copy(update={"task_runner": started}):
        yield


@contextmanager
def _share_server(by_address: bool) -> Iterator[None]:
    """Share the server of this process with the workers, each of which would else start its own."""
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


def create_task_runner(name: str, workers: int) -> TaskRunner[Any]:
    """The runner by its name, not started. Raises UserError where it is unknown or not installed."""
    kind, _, address = name.partition(":")
    if kind == "threads" and not address:
        runner: Any = ThreadPoolTaskRunner(max_workers=workers)
        return runner  # type: ignore[no-any-return]
    if kind not in RUNNERS[1:]:
        raise UserError("run", name, "is no runner", suggest_choice(kind, list(RUNNERS)))
    try:
        return _dask(address, workers) if kind == "dask" else _ray(address, workers)
    except ImportError:
        raise UserError("run", name, "is not installed", f"pip install -e '.[{kind}]'") from None


def _dask(address: str, workers: int) -> TaskRunner[Any]:
    from prefect_dask.task_runners import DaskTaskRunner

    # Dask always serves a dashboard; port 0 is any free one.
    local: dict[str, Any] = {
        "n_workers": workers,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "memory_limit": 0,
    }
    local["env"] = {"PREFECT_PLUGINS_ENABLED": "false"}  # they start in a loop of their own, which a worker has running
    runner: TaskRunner[Any] = DaskTaskRunner(address=address) if address else DaskTaskRunner(cluster_kwargs=local)
    return runner


def _ray(address: str, workers: int) -> TaskRunner[Any]:
    from prefect_ray.task_runners import RayTaskRunner

    local = {
        "num_cpus": workers,
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "object_store_memory": 100 << 20,  # only paths travel
    }
    runner: TaskRunner[Any] = RayTaskRunner(address=address) if address else RayTaskRunner(init_kwargs=local)
    return runner
