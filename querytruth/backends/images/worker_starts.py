"""Starts worker processes, each with its pipes, and keeps those that have answered everything for the next caller."""

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from time import sleep
from typing import Any, NamedTuple

from querytruth.backends.environment import make_environment_fault
from querytruth.backends.images import worker_messages
from querytruth.backends.images.worker_main import ItemBatch, WorkerJob, WorkerRights, frame_message
from querytruth.errors import UserError, first_line

_RUN = "from querytruth.backends.images.worker_main import run_worker; run_worker()"
_START = f"import sys; sys.path[:] = sys.argv[3:]; {_RUN}"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# glibc: freed memory stays with the process, also below Dask, which sets a threshold of 64 KB. Else a worker asks the
# system again for the same arrays of every few images, a tenth of a scan. Both are as large as glibc lets them grow to.
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
_ARROW = {"ARROW_DEFAULT_MEMORY_POOL": "system"}  # another one reserves a gigabyte, which counts against the limit
_LONGEST_MESSAGE = 1 << 16  # bytes of the standard error of a process that does not start
_PAUSES = (0.0, 0.2, 1.0)  # seconds before each attempt to start one: memory may run short for a moment
_COSTS_ITEMS = 16  # so many failures in a row cost an item each; one more ends the build
_items_left = 0  # that a failure may cost: none until a worker has started


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


class WorkerProcess:
    """A process and the pipes to it. No method blocks for longer than its limit, whatever the worker does."""

    def __init__(self, rights: WorkerRights) -> None:
        self.rights = rights
        # What a process prints that does not start; in memory, and not read while it runs.
        self._errors = os.memfd_create("errors") if hasattr(os, "memfd_create") else subprocess.DEVNULL
        theirs, self._life = os.pipe()
        self._files, their_files = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", _START, *map(str, (theirs, their_files.fileno(), *sys.path))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                stderr=self._errors,
                pass_fds=[theirs, their_files.fileno()],  # all others are closed: no worker holds another's pipe open
                env=os.environ | _KEPT_MEMORY | _ONE_THREAD | _ARROW,
            )
        except BaseException:
            os.close(self._life)
            self._files.close()
            self._close_errors()
            raise
        finally:
            os.close(theirs)
            their_files.close()
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        self._poll = select.poll()
        self._poll.register(self._from, select.POLLIN)
        self._unsent, self._received = bytearray(), bytearray()
        self.served = 0

    def send(self, message: object) -> None:
        """Send as much as the pipe takes; `receive` sends the rest."""
        self._unsent += frame_message(message)
        self._write()

    def send_items(self, items: list[Any], group_size: int) -> None:
        """Send items, and the opened files of those that have one."""
        self.send(ItemBatch(items, group_size, worker_messages.hand_over(items, self._files)))

    def receive(self, limits: WorkerLimits) -> Any:
        """Return the next result, or a WorkerFailure. Raises what the function raised."""
        try:
            answer = self._await_answer(limits.seconds)
        except worker_messages.InvalidAnswer as error:
            return WorkerFailure("worker_crashed", f"its answer is not valid data ({error})")
        if isinstance(answer, WorkerFailure):
            return answer
        self.served += 1
        kind, value = answer
        if kind == worker_messages.RAISED:
            if type(value) is ImportError:  # of a decoder; a start reports a module that is missing
                raise make_environment_fault("work in a process", "images", value)
            raise value
        if kind == worker_messages.OUT_OF_MEMORY:
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
        """Kill the process and close the pipes."""
        os.close(self._life)
        self._close_errors()
        self._process.kill()
        for pipe in (self._files, self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may hang in the kernel
            self._process.wait(2)

    def last_error(self) -> str:
        """Return the last line that the process printed while it started; "" for none."""
        printed = os.pread(self._errors, _LONGEST_MESSAGE, 0) if self._errors >= 0 else b""
        return next((line for line in reversed(printed.decode("utf-8", "replace").splitlines()) if line.strip()), "")

    def _close_errors(self) -> None:
        if self._errors >= 0:
            os.close(self._errors)

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
        end = worker_messages.LENGTH + int.from_bytes(self._received[: worker_messages.LENGTH], "little")
        if end > worker_messages.LONGEST_ANSWER:
            raise worker_messages.InvalidAnswer(f"it has {end} bytes")
        if len(self._received) < max(end, worker_messages.LENGTH + 1):
            return None
        answer = worker_messages.read_answer(memoryview(self._received)[worker_messages.LENGTH : end].tobytes())
        del self._received[:end]
        return answer

    def _exit_description(self) -> str:
        try:
            status = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"


_STARTING = WorkerLimits(seconds=120.0)

# Workers between two callers. Append, pop and clear are atomic.
_idle: list[WorkerProcess] = []


def start_worker(job: WorkerJob) -> WorkerProcess | WorkerFailure:
    """Return a worker that has imported the functions, or why none starts. Raises UserError where no worker of this
    process has ever started or none starts any more, and what else the worker raises."""
    global _items_left
    failure = WorkerFailure("worker_crashed", "")
    for pause in _PAUSES:
        sleep(pause)
        started = _take_idle_worker(job) or _try_to_start(job)
        if isinstance(started, WorkerProcess):
            _items_left = _COSTS_ITEMS
            return started
        failure = started
    if not _items_left:
        raise _no_start_error(failure.detail)
    _items_left -= 1
    return failure


def _no_start_error(cause: str) -> UserError:
    next_step = "fix that, then run the same command: results so far are kept"
    return UserError("start workers", "worker process", f"does not start ({cause})", next_step)


def _take_idle_worker(job: WorkerJob) -> WorkerProcess | None:
    """Return an idle worker for the job; ends those with other rights and skips those that ended."""
    with contextlib.suppress(IndexError):
        while True:
            idle = _idle.pop()
            if idle.rights != job.rights:
                idle.end()
            elif not isinstance(_prepare(idle, job), WorkerFailure):
                return idle
    return None


def _try_to_start(job: WorkerJob) -> WorkerProcess | WorkerFailure:
    try:
        worker = WorkerProcess(job.rights)
    except OSError as error:
        return WorkerFailure("worker_crashed", first_line(error))
    failure = _prepare(worker, job)
    return failure or worker


def _prepare(worker: WorkerProcess, job: WorkerJob) -> WorkerFailure | None:
    """Send the job, and return why the worker cannot take it. The worker is ended then."""
    try:
        worker.send(job)
        answer = worker.receive(_STARTING)
    except MemoryError:
        answer = WorkerFailure("worker_crashed", "MemoryError")
    except ImportError as error:  # no further attempt would have it
        worker.end()
        raise _no_start_error(f"{type(error).__name__}: {first_line(error)}") from None
    except BaseException:
        worker.end()
        raise
    if not isinstance(answer, WorkerFailure):
        return None
    printed = worker.last_error()
    worker.end()
    return answer._replace(detail=f"{answer.detail}: {printed}" if printed else answer.detail)


def keep_worker(worker: WorkerProcess) -> None:
    """Keep a worker without open items for the next caller, or end it where enough are idle."""
    if len(_idle) < (os.cpu_count() or 1):
        _idle.append(worker)
    else:
        worker.end()


def end_idle_workers() -> None:
    """End the workers that wait for a caller."""
    with contextlib.suppress(IndexError):
        while True:
            _idle.pop().end()


atexit.register(end_idle_workers)
os.register_at_fork(after_in_child=_idle.clear)  # not ended: they belong to the parent
