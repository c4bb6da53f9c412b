"""Where the parts of a step are done: on threads of this process, or on the workers of a cluster of Dask or Ray.

A worker imports what its part needs and nothing else: Prefect, which takes seconds and a server, stays in the process
of the build.
"""

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from querytruth.errors import UserError, suggest_choice

RUNNERS = ("threads", "dask", "ray")
_START_SECONDS = 20  # for a cluster's answer
_QUIET_SETTINGS = {
    "DASK_LOGGING__DISTRIBUTED": "critical",  # a worker that ends with its cluster logs that it is gone
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # despite its name: a local Ray listens on loopback only
}


class PartFuture(Protocol):
    """A part that a cluster does."""

    def result(self) -> Any:
        """Wait for the result, or raise the error of the part."""


class Cluster(NamedTuple):
    """The workers of a cluster. `submit` calls a function with its arguments on one of them; all must pickle."""

    kind: str
    submit: Callable[..., PartFuture]


def cluster_hosts(runner: str) -> tuple[str, ...]:
    """Return the hosts that a build on this runner talks to: this machine, and the cluster's."""
    address = runner.partition(":")[2]
    host = urlsplit(address if "//" in address else f"//{address}").hostname
    return ("127.0.0.1", "::1", "localhost", *([host] if host else []))


def _check_runner(name: str) -> None:
    """Raise UserError for a runner that there is not."""
    kind, _, address = name.partition(":")
    if kind not in RUNNERS or (kind == "threads" and address):
        raise UserError("run", name, "is no runner", suggest_choice(kind, list(RUNNERS)))


@contextmanager
def use_cluster(runner: str, workers: int) -> Iterator[Cluster | None]:
    """Yield the cluster of a runner: dask or ray with `:ADDRESS` is one that is up, without it one of so many workers,
    for this build; None for threads. Raises UserError for an unknown runner, one that is not installed, and a cluster
    that does not answer."""
    _check_runner(runner)
    kind, _, address = runner.partition(":")
    for name, value in _QUIET_SETTINGS.items():
        os.environ.setdefault(name, value)
    with _OPENERS[kind](address, workers) as cluster:
        yield cluster


def describe_lost_part(cluster: Cluster, error: BaseException) -> UserError | None:
    """Return the error of a part whose workers died one after the other, or whose cluster is gone; None for others."""
    if isinstance(error, CancelledError) or type(error).__name__ in _LOST:
        reason = f"lost the workers of a part, or the cluster itself is gone ({type(error).__name__})"
        return UserError("run", cluster.kind, reason, "see the workers' logs, then run again: what is done is kept")
    return None


# Of both libraries, by name: neither need be installed.
_LOST = {
    *("KilledWorker", "FutureCancelledError", "CommClosedError"),
    *("WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "OutOfMemoryError", "ObjectLostError"),
}


@contextmanager
def _use_dask(address: str, workers: int) -> Iterator[Cluster]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise _not_installed("dask") from None
    # Dask always serves a dashboard; port 0 is any free one.
    options: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "memory_limit": 0, "silence_logs": logging.CRITICAL}
    local = nullcontext(address) if address else LocalCluster(n_workers=workers, threads_per_worker=1, **options)
    with local as scheduler:
        try:
            client = Client(scheduler, timeout=_START_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise _no_answer("dask", address, error) from None
        with client:
            executor = client.get_executor(pure=False)
            yield Cluster("dask", executor.submit)


@contextmanager
def _use_ray(address: str, workers: int) -> Iterator[Cluster]:
    try:
        import ray
    except ImportError:
        raise _not_installed("ray") from None
    local = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": 100 << 20}  # only paths travel
    options = {"address": address} if address else local
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_answer("ray", address, error) from None
    call = ray.remote(lambda work, *arguments: work(*arguments))
    try:
        yield Cluster("ray", lambda *given: _RayFuture(ray, call.remote(*given)))
    finally:
        ray.shutdown()


class _RayFuture(NamedTuple):
    ray: Any
    reference: Any

    def result(self) -> Any:
        return self.ray.get(self.reference)


def _not_installed(kind: str) -> UserError:
    return UserError("run", kind, "is not installed", f"pip install 'querytruth[{kind}]'")


def _no_answer(kind: str, address: str, error: Exception) -> UserError:
    reason = f"does not answer ({type(error).__name__})"
    return UserError("run", f"{kind}:{address}" if address else kind, reason, "check the address, and that it is up")


_OPENERS: dict[str, Callable[[str, int], AbstractContextManager[Cluster | None]]] = {
    "threads": lambda _address, _workers: nullcontext(None),
    "dask": _use_dask,
    "ray": _use_ray,
}
