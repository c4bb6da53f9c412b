"""How the steps of a build are called: as functions in this process, or as tasks of a Prefect flow.

A build is a function that calls steps. How they run is set from outside (`active_run`), so both ways do the same. Steps
get tables by reference; only the parts of `map_parts` go to other processes, as paths to files.

The parts of a step run on threads of this process or on the workers of a Dask cluster. A worker imports what
its part needs and nothing else: Prefect, which takes seconds and a server, stays in the process of the build.
"""

import functools
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from querytruth.backends import environment
from querytruth.backends.files.bucket_urls import BucketFolder
from querytruth.backends.web.offline import forbid_connections
from querytruth.defaults import hold_value
from querytruth.errors import UserError, suggest_choice

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Advance = Callable[[int], None]
PartWork: TypeAlias = Callable[[T, Advance], R]
_RUNNERS = ("threads", "dask")
_START_SECONDS = 20  # for a cluster's answer
_LOST = {"KilledWorker", "FutureCancelledError", "CommClosedError"}  # of Dask, by name: it need not be installed


class Reporter(Protocol):
    """The interface for reporting the progress of a build."""

    def log(self, text: str) -> None:
        """Report one line of text."""

    def bar(self, title: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """Return a progress bar for a step; the yielded function advances it by a count, from any thread."""


class SilentReporter:
    """Reports nothing."""

    def log(self, text: str) -> None:
        """Do nothing."""

    def bar(self, title: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """Return a bar that shows nothing."""
        return nullcontext(lambda _count: None)


_SILENT = SilentReporter()
# Where transfers report, within a run or not: chosen once, by the command line.
transfer_reporter: ContextVar[Reporter] = ContextVar("transfer_reporter", default=_SILENT)


def open_transfer_bar(title: str, total: int) -> AbstractContextManager[Advance]:
    """Return the progress bar of a transfer of `total` bytes, from any depth."""
    return transfer_reporter.get().bar(title, total, "bytes")


@dataclass(slots=True)
class BuildRun:
    """The settings of one build. `rescan`: read images again that were read before; `offline`: connect only to
    `engine_hosts`; `retry_failures`: repeat failed questions to chat models; `accept_loss`: continue if a decision log
    lost decisions; `durations`: the seconds of each step; `cluster`: its workers run the parts; `work`: the set's
    folder in a bucket for the workers' results, None: they write to folders of this machine; `run_url`: the page of its
    Prefect run, or ""."""

    reporter: Reporter = field(default_factory=SilentReporter)
    workers: int = 2
    rescan: bool = False
    offline: bool = False
    retry_failures: bool = False
    accept_loss: bool = False
    durations: dict[str, float] = field(default_factory=dict)
    engine_hosts: tuple[str, ...] = ()
    cluster: Executor | None = None
    work: BucketFolder | None = None
    run_url: str = ""

    def run_step(self, title: str, work: Callable[[], R]) -> R:
        """Run one step in this thread, and add its seconds to `durations`."""
        start = time.monotonic()
        try:
            return work()
        finally:
            self.durations[title] = round(self.durations.get(title, 0.0) + time.monotonic() - start, 3)

    def run_parts(self, title: str, work: PartWork[T, R], parts: Sequence[T], advance: Advance) -> Iterator[R]:
        """Do the work for every part on `workers` threads or on the cluster; results come in the parts' order."""
        if self.cluster is not None:
            # After an error, parts that were not waited for end with the cluster's block.
            for future in [submit_part(self.cluster, work, part) for part in parts]:
                yield finish_part(future, advance)
            return
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            yield from pool.map(lambda part: copy_context().run(work, part, advance), parts)


def submit_part(cluster: Executor, work: PartWork[T, Any], part: T) -> Future[Any]:
    """Let a worker of the cluster do the work for a part. `finish_part` takes what this returns."""
    return cluster.submit(_count_and_work, work, part)


def finish_part(future: Future[Any], advance: Advance) -> Any:
    """Wait for a part, advance the bar by its units, and return its result. Raises the error of the part, and UserError
    where the cluster lost it."""
    try:
        result = future.result()
    except (Exception, CancelledError) as error:
        raise describe_lost_part(error) or error from None
    counted, answer = result
    if isinstance(counted, UserError):
        raise counted from answer
    advance(counted)
    return answer


def _count_and_work(work: PartWork[T, R], part: T) -> tuple[int, R] | tuple[UserError, OSError | None]:
    """Return the number of units in the part, for the progress bar, and its result; or a user error and the system's
    error behind it, which decides about a retry. A raised error would make the worker log a traceback."""
    counts: list[int] = []
    try:
        result = work(part, counts.append)
    except UserError as error:
        cause = error.__cause__ or error.__context__
        return error, cause if isinstance(cause, OSError) else None
    return sum(counts), result


_current: ContextVar[BuildRun | None] = ContextVar("run", default=None)


def current_run() -> BuildRun:
    """Return the active run; outside of a build a new, silent one."""
    return _current.get() or BuildRun()


def describe_environment(packages: Sequence[str], **versions: str) -> dict[str, Any]:
    """Return time, host, versions of the installed packages and step durations of the run; no digest covers them.
    `versions`: versions of libraries that are not Python packages."""
    installed = {name: found for name in packages if (found := environment.find_installed_version(name))}
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "durations": current_run().durations,
        "versions": {"python": sys.version.split()[0], **versions, **installed},
    }


@contextmanager
def active_run(run: BuildRun) -> Iterator[BuildRun]:
    """Run the steps of this context by `run`; where it is offline, nothing in this process connects."""
    offline = forbid_connections(run.engine_hosts) if run.offline else nullcontext()
    with hold_value(_current, run), offline:
        yield run


def use_run(run: BuildRun) -> AbstractContextManager[None]:
    """Run the steps of this context by a changed copy of the active run."""
    return hold_value(_current, run)


def keep_work_at(folder: BucketFolder | None) -> AbstractContextManager[None]:
    """Have the steps of this context keep their work in a folder of a bucket; None: on this machine."""
    return use_run(replace(current_run(), work=folder))


def step(title: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function a step of a build: timed, and a task where Prefect runs the build. `title` is for people."""

    def named(work: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(work)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return current_run().run_step(title, lambda: work(*args, **kwargs))

        return call

    return named


def map_parts(title: str, work: PartWork[T, R], parts: Sequence[T], total: int, unit: str) -> list[R]:
    """Do the work for every part, with a progress bar of `total` units; results in the parts' order.

    A part is large enough for a task: a thousand images or more. `work` calls `advance` with the number of units done;
    it and its parts must pickle, for they may run on another machine.
    """
    run = current_run()
    with run.reporter.bar(title, total, unit) as advance:
        return list(run.run_parts(title, work, parts, advance))


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
    if kind not in _RUNNERS or (kind == "threads" and address):
        raise UserError("run", runner, "unknown runner", suggest_choice(kind, list(_RUNNERS)))
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
            raise UserError("run", runner, reason, "check the address and that the cluster is running") from None
        with client:
            yield client.get_executor(pure=False)


def describe_lost_part(error: BaseException) -> UserError | None:
    """Return the error of a part whose workers died one after the other, or whose cluster is gone; None for others."""
    if isinstance(error, CancelledError) or type(error).__name__ in _LOST:
        reason = f"lost the workers of a part, or the whole cluster ({type(error).__name__})"
        return UserError("run", "dask", reason, "check the workers' logs, then run again: finished parts are kept")
    return None
