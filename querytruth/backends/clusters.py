"""Where the parts of a step are done: on threads of this process, or on the workers of a cluster of Dask.

A worker imports what its part needs and nothing else: Prefect, which takes seconds and a server, stays in the process
of the build.
"""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.parse import urlsplit

from querytruth.errors import UserError, suggest_choice

RUNNERS = ("threads", "dask")
_START_SECONDS = 20  # for a cluster's answer
_LOST = {"KilledWorker", "FutureCancelledError", "CommClosedError"}  # of Dask, by name: it need not be installed


def cluster_hosts(runner: str) -> tuple[str, ...]:
    """Return the hosts that a build on this runner talks to: this machine, and the cluster's."""
    address = runner.partition(":")[2]
    host = urlsplit(address if "//" in address else f"//{address}").hostname
    return ("127.0.0.1", "::1", "localhost", *([host] if host else []))


@contextmanager
def use_cluster(runner: str, workers: int) -> Iterator[Executor | None]:
    """Yield the executor of a runner's cluster, whose functions and arguments must pickle: `dask:ADDRESS` is a cluster
    that is up, `dask` one of so many workers, for this build; None for threads. Raises UserError for an unknown runner,
    where Dask is not installed, and for a cluster that does not answer."""
    kind, _, address = runner.partition(":")
    if kind not in RUNNERS or (kind == "threads" and address):
        raise UserError("run", runner, "is no runner", suggest_choice(kind, list(RUNNERS)))
    if kind == "threads":
        yield None
        return
    # A worker that ends with its cluster logs that it is gone.
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise UserError("run", "dask", "is not installed", "pip install 'querytruth[dask]'") from None
    # Dask always serves a dashboard; port 0 is any free one.
    options: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "memory_limit": 0, "silence_logs": logging.CRITICAL}
    local = nullcontext(address) if address else LocalCluster(n_workers=workers, threads_per_worker=1, **options)
    with local as scheduler:
        try:
            client = Client(scheduler, timeout=_START_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = f"does not answer ({type(error).__name__})"
            raise UserError("run", runner, reason, "check the address, and that it is up") from None
        with client:
            yield client.get_executor(pure=False)


def describe_lost_part(error: BaseException) -> UserError | None:
    """Return the error of a part whose workers died one after the other, or whose cluster is gone; None for others."""
    if isinstance(error, CancelledError) or type(error).__name__ in _LOST:
        reason = f"lost the workers of a part, or the cluster itself is gone ({type(error).__name__})"
        return UserError("run", "dask", reason, "see the workers' logs, then run again: what is done is kept")
    return None
