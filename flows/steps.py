"""How the steps of a build are called: plainly in process, or as tasks of a Prefect flow.

A build is a plain function that calls steps. Which way they run is set around it (`running`), never inside, so
both ways do the same. Steps get tables by reference; between processes only paths to files would travel.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Reporter(Protocol):
    """Where a build tells how far it is."""

    def say(self, text: str) -> None:
        """One line for the person who waits."""

    def bar(self, title: str, total: int, unit: str) -> AbstractContextManager[Callable[[int], None]]:
        """A progress bar for a step; the function given advances it, from any thread."""


class Silent:
    """Tells nobody."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def bar(self, title: str, total: int, unit: str) -> AbstractContextManager[Callable[[int], None]]:
        """Count nothing."""
        return nullcontext(lambda _count: None)


@dataclass(slots=True)
class Run:
    """One build under way: whom to tell, how many workers, what each step took (seconds)."""

    reporter: Reporter = field(default_factory=Silent)
    workers: int = 2
    durations: dict[str, float] = field(default_factory=dict)

    def call(self, title: str, work: Callable[[], R]) -> R:
        """Do one step here and now."""
        start = time.monotonic()
        try:
            return work()
        finally:
            self.durations[title] = round(self.durations.get(title, 0.0) + time.monotonic() - start, 3)

    def each(self, title: str, work: Callable[[T], R], items: list[T]) -> Iterator[R]:
        """Do the same for every item on `workers` threads; results come in the items' order."""
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            yield from pool.map(lambda item: copy_context().run(work, item), items)


_current: ContextVar[Run | None] = ContextVar("run", default=None)


def current() -> Run:
    """The build under way; outside of one, a silent run of its own."""
    return _current.get() or Run()


@contextmanager
def running(run: Run) -> Iterator[Run]:
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
            return current().call(title, lambda: work(*args, **kwargs))

        return call

    return named


def in_parts(items: Iterable[T], size: int) -> list[list[T]]:
    """Lists of at most `size` items: the unit that is worth a task."""
    whole = list(items)
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def each_part(title: str, work: Callable[[list[Any]], list[R]], items: list[Any], size: int, unit: str) -> list[R]:
    """Work through the items in parts, with a progress bar; results in the items' order."""
    run = current()
    parts = in_parts(items, size)
    done: list[R] = []
    with run.reporter.bar(title, len(items), unit) as advance:

        def one(part: list[Any]) -> list[R]:
            result = work(part)
            advance(len(part))
            return result

        for result in run.each(title, one, parts):
            done += result
    return done
