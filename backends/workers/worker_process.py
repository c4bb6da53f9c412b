"""One worker process and the pipes to it."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from backends.environment_faults import make_environment_fault
from backends.workers.handed_files import hand_over
from backends.workers.worker_answers import (
    LENGTH,
    LONGEST_ANSWER,
    OUT_OF_MEMORY,
    RAISED,
    InvalidAnswer,
    read_answer,
)
from backends.workers.worker_main import ItemBatch, frame_message
from backends.workers.worker_rights import WorkerRights

_START = "import sys; sys.path[:] = sys.argv[3:]; from backends.workers.worker_main import run_worker; run_worker()"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# glibc: freed memory stays with the process. By default a worker asks the system again for the same arrays of every few
# images, which takes a tenth of a scan. Both are as large as glibc itself lets them grow to.
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
_LONGEST_MESSAGE = 1 << 16  # bytes of the standard error of a process that does not start


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
                env=_KEPT_MEMORY | os.environ | _ONE_THREAD,
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

    def send(self, message: Any) -> None:
        """Sends as much as the pipe takes; `receive` sends the rest."""
        self._unsent += frame_message(message)
        self._write()

    def send_items(self, items: list[Any], group_size: int) -> None:
        """Sends items, and the opened files of those that have one."""
        self.send(ItemBatch(items, group_size, hand_over(items, self._files)))

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
            if type(value) is ImportError:  # of a decoder; a start reports a module that is missing
                raise make_environment_fault("work in a process", "images", value)
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
        self._close_errors()
        self._process.kill()
        for pipe in (self._files, self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may hang in the kernel
            self._process.wait(2)

    def last_error(self) -> str:
        """The last line that the process printed while it started; "" for none."""
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
