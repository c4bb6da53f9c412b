"""Work in separate processes: an item that crashes, hangs or needs too much memory affects no other item.

A worker is a new process (never a fork), imports the function's module alone, and is reused by the next caller.
"""

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

from backends.workers.worker_answers import LONGEST_ANSWER, InvalidAnswer, read_answer
from backends.workers.worker_main import LENGTH, OUT_OF_MEMORY, RAISED, ItemBatch, WorkerJob, frame_message
from backends.workers.worker_rights import WorkerRights, limit_rights, needs_network

T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Limits for one item; `memory` is in bytes, above what the worker holds when it is ready."""

    seconds: float = 60.0
    memory: int = 1 << 30


class WorkerFailure(NamedTuple):
    """An item without a result: `worker_crashed` (detail: the signal or exit status), `took_too_long` or
    `out_of_memory`."""

    reason: str
    detail: str


DEFAULT_LIMITS = WorkerLimits()
_MAX_IN_FLIGHT = 32  # items sent to a worker ahead, so that it never waits
_FINISH_BATCH = 16  # items finished and answered at once
_RETIRES_AFTER = 20_000  # items: the memory that a decoder leaks is freed with its worker
_STARTING = WorkerLimits(seconds=120.0)
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from backends.workers.worker_main import run_worker; run_worker(int(sys.argv[1]))"
)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@overload
def map_in_workers(
    work: Callable[[T], R], items: Iterable[T], limits: WorkerLimits = ..., *, writable: Path | None = None
) -> Iterator[R | WorkerFailure]: ...


@overload
def map_in_workers(
    work: Callable[[T], M], items: Iterable[T], limits: WorkerLimits = ..., *, finish: Callable[[list[M]], Iterable[R]]
) -> Iterator[R | WorkerFailure]: ...


def map_in_workers(
    work: Any,
    items: Iterable[Any],
    limits: WorkerLimits = DEFAULT_LIMITS,
    *,
    finish: Any = None,
    writable: Path | None = None,
) -> Iterator[Any]:
    """Yields the results in the order of the items. `work` is a function of a module (not of `__main__`), or a
    `partial` of one.

    `finish` also runs in the worker: it turns the return values of `work` for up to 16 items into results; where that
    fails, each item is repeated alone. The work may write below the existing folder `writable` alone, and connect only
    where an item, or its `location`, is a URL (backends/workers/worker_rights.py).

    Raises what `work` raises, with the worker's traceback as a note. Items are consumed up to 32 ahead of the results.
    Any number of threads may call this; each has its own worker.
    """
    upcoming = iter(items)
    sent: deque[Any] = deque()  # items without a result
    alone = 0  # the first so many of them are answered one by one
    together = _FINISH_BATCH if finish else 1
    worker: _Worker | None = None
    try:
        while True:
            is_old = worker is not None and worker.served >= _RETIRES_AFTER
            waits = (is_old and sent) or 2 * len(sent) > _MAX_IN_FLIGHT
            batch = [] if waits else list(islice(upcoming, _MAX_IN_FLIGHT - len(sent)))
            sent.extend(batch)
            if not sent:
                return
            if worker is not None and (
                (is_old and batch) or (not worker.rights.has_network and any(map(needs_network, batch)))
            ):
                worker.end()
                worker = None
            if worker is None:
                job = WorkerJob(work, finish, limits.memory, limit_rights(writable, any(map(needs_network, sent))))
                worker = _start_worker(job)
                worker.send(ItemBatch(list(islice(sent, alone)), 1))
                worker.send(ItemBatch(list(islice(sent, alone, None)), together))
            elif batch:
                worker.send(ItemBatch(batch, together))
            result = worker.receive(limits)
            if isinstance(result, WorkerFailure):
                worker.end()
                worker = None
                if together > 1 and not alone:
                    alone = len(sent)
                    continue
            sent.popleft()
            alone = max(0, alone - 1)
            yield result
    finally:
        if worker is not None:
            _release(worker, is_idle=not sent)


def map_in_parallel(
    work: Callable[[T], R], items: Sequence[T], count: int, limits: WorkerLimits = DEFAULT_LIMITS
) -> list[R | WorkerFailure]:
    """Returns the results in order. Each of `count` threads has a worker and takes every `count`-th item."""
    results: list[Any] = [None] * len(items)

    def work_on_share(first: int) -> None:
        results[first::count] = map_in_workers(work, items[first::count], limits)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work_on_share, range(count)))
    return results


class _Worker:
    """A process and the pipes to it. No method blocks for longer than its limit, whatever the worker does."""

    def __init__(self, rights: WorkerRights) -> None:
        self.rights = rights
        theirs, self._life = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", _START, str(theirs), *map(str, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=[theirs],  # all others are closed: no worker holds another's pipe open
                env=os.environ | _ONE_THREAD,
            )
        except BaseException:
            os.close(self._life)
            raise
        finally:
            os.close(theirs)
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        self._poll = select.poll()
        self._poll.register(self._from, select.POLLIN)
        self._unsent, self._received = bytearray(), bytearray()
        self.served = 0

    def send(self, message: Any) -> None:
        """Sends as much as the pipe takes; `receive` sends the rest."""
        self._unsent += frame_message(message)
        self._write()

    def receive(self, limits: WorkerLimits) -> Any:
        """Returns the next result, or a WorkerFailure. Raises what the function raised."""
        try:
            answer = self._await_answer(limits.seconds)
        except InvalidAnswer as error:
            return WorkerFailure("worker_crashed", f"its answer is no data ({error})")
        if isinstance(answer, WorkerFailure):
            return answer
        self.served += 1
        kind, value = answer
        if kind == RAISED:
            raise value
        if kind == OUT_OF_MEMORY:
            return WorkerFailure("out_of_memory", f"more than {limits.memory >> 20} MiB")
        return value

    def _await_answer(self, seconds: float) -> tuple[int, Any] | WorkerFailure:
        left = seconds
        while (answer := self._next_answer()) is None:
            # Counted in short turns, not by the clock: a build that was suspended (Ctrl-Z) goes on.
            turn = min(left, 1.0)
            if not (ready := self._poll.poll(turn * 1000)):
                left -= turn
                if left <= 0:
                    return WorkerFailure("took_too_long", f"more than {seconds:g} s")
            for pipe, _ in ready:
                if pipe == self._to:
                    self._write()
                elif not self._read():
                    return WorkerFailure("worker_crashed", self._exit_description())
        return answer

    def end(self) -> None:
        """Kills the process and closes the pipes."""
        os.close(self._life)
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may hang in the kernel
            self._process.wait(2)

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._to, self._unsent)]
        except BlockingIOError:
            self._poll.register(self._to, select.POLLOUT)
            return
        except BrokenPipeError:  # it has ended; its earlier answers are still to be read
            self._unsent.clear()
        with contextlib.suppress(KeyError):
            self._poll.unregister(self._to)

    def _read(self) -> bool:
        data = os.read(self._from, 1 << 16)
        self._received += data
        return bool(data)

    def _next_answer(self) -> tuple[int, Any] | None:
        end = LENGTH + int.from_bytes(self._received[:LENGTH], "little")
        if end > LONGEST_ANSWER:
            raise InvalidAnswer(f"it has {end} bytes")
        if len(self._received) < max(end, LENGTH + 1):
            return None
        answer = read_answer(memoryview(self._received)[LENGTH:end].tobytes())
        del self._received[:end]
        return answer

    def _exit_description(self) -> str:
        try:
            status = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"


# Workers between two callers, which have answered everything. Append, pop and clear are atomic.
_idle: list[_Worker] = []


def end_idle_workers() -> None:
    """Ends the workers that wait for a caller."""
    with contextlib.suppress(IndexError):
        while True:
            _idle.pop().end()


atexit.register(end_idle_workers)
os.register_at_fork(after_in_child=_idle.clear)  # not ended: they belong to the parent


def _start_worker(job: WorkerJob) -> _Worker:
    """Returns a worker that has imported the functions; one that ended while idle is skipped."""
    while True:
        idle = None
        with contextlib.suppress(IndexError):
            idle = _idle.pop()
        if idle is not None and idle.rights != job.rights:
            idle.end()
            continue
        worker = idle or _Worker(job.rights)
        try:
            worker.send(job)
            answer = worker.receive(_STARTING)
        except BaseException:
            worker.end()
            raise
        if not isinstance(answer, WorkerFailure):
            return worker
        worker.end()
        if idle is None:
            raise RuntimeError(f"a worker process did not start: {answer.reason}, {answer.detail}")


def _release(worker: _Worker, is_idle: bool) -> None:
    """Keeps a worker without open items for the next call, as long as it may serve; ends it otherwise."""
    if is_idle and len(_idle) < (os.cpu_count() or 1) and worker.served < _RETIRES_AFTER:
        _idle.append(worker)
    else:
        worker.end()
