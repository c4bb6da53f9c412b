"""How the steps of a build are called: plainly in process, or as tasks of a Prefect flow.

A build is a plain function that calls steps. Which way they run is set around it (`running`), never inside, so
both ways do the same. Steps get tables by reference; between processes only paths to files would travel.
"""

from __future__ import annotations

import functools
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Advance = Callable[[int], None]
PartWork: TypeAlias = Callable[[T, Advance], R]


class Reporter(Protocol):
    """Where a build tells how far it is."""

    def log(self, text: str) -> None:
        """One line for the person who waits."""

    def bar(self, title: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """A progress bar for a step; the function given advances it, from any thread."""


class SilentReporter:
    """Tells nobody."""

    def log(self, text: str) -> None:
        """Say nothing."""

    def bar(self, title: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """Count nothing."""
        return nullcontext(lambda _count: None)


@dataclass(slots=True)
class BuildRun:
    """One build under way: whom to tell, how many workers, whether pictures are read again that were read before,
    whether chat models are asked at all (`offline`: no) and again about what they failed at, and what each step took
    (seconds)."""

    reporter: Reporter = field(default_factory=SilentReporter)
    workers: int = 2
    rescan: bool = False
    offline: bool = False
    retry_failures: bool = False
    durations: dict[str, float] = field(default_factory=dict)

    def run_step(self, title: str, work: Callable[[], R]) -> R:
        """Do one step here and now."""
        start = time.monotonic()
        try:
            return work()
        finally:
            self.durations[title] = round(self.durations.get(title, 0.0) + time.monotonic() - start, 3)

    def run_parts(self, title: str, work: PartWork[T, R], parts: Sequence[T], advance: Advance) -> Iterator[R]:
        """Do the same for every part on `workers` threads; results come in the parts' order."""
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            yield from pool.map(lambda part: copy_context().run(work, part, advance), parts)


_current: ContextVar[BuildRun | None] = ContextVar("run", default=None)


def current_run() -> BuildRun:
    """The build under way; outside of one, a silent run of its own."""
    return _current.get() or BuildRun()


def describe_environment(packages: Sequence[str], **versions: str) -> dict[str, Any]:
    """When, where and with which versions of packages the run worked, and the seconds of its steps: outside of all
    digests. `versions`: of libraries that are no packages."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "durations": current_run().durations,
        "versions": {"python": sys.version.split()[0], **versions, **{name: version(name) for name in packages}},
    }


@contextmanager
def active_run(run: BuildRun) -> Iterator[BuildRun]:
    """Make `run` the way in which steps are called."""
    token = _current.set(run)
    try:
        yield run
    finally:
        _current.reset(token)


def step(title: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A step of a build, named for people: logged, timed, and a task where Prefect runs the build."""

    def named(work: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(work)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return current_run().run_step(title, lambda: work(*args, **kwargs))

        return call

    return named


def map_parts(title: str, work: PartWork[T, R], parts: Sequence[T], total: int, unit: str) -> list[R]:
    """Work through the parts, with a progress bar of `total` units; results in the parts' order.

    A part is what is worth a task: a thousand pictures or more where there are as many. `work` tells `advance`
    how many units of its part are done; it and its parts must pickle, for they may run on another machine.
    """
    run = current_run()
    with run.reporter.bar(title, total, unit) as advance:
        return list(run.run_parts(title, work, parts, advance))
