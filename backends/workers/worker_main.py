"""The worker's side of `backends.workers.worker_processes`: processes items one by one and answers each.

It imports little besides the standard library, because every worker holds its imports in memory.
"""

import contextlib
import fcntl
import os
import pickle
import resource
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, NamedTuple

from backends.workers.handed_files import drop_file, offer_file, receive_files
from backends.workers.worker_answers import DONE, LENGTH, OUT_OF_MEMORY, RAISED, frame_answer, read_answer
from backends.workers.worker_rights import WorkerRights, drop_rights

_SOON = 0.25  # seconds after which finished results are sent without waiting for the rest of their group


class WorkerJob(NamedTuple):
    """The function for every item, then one for several results at once; `memory` is in bytes. A process has the rights
    of its first job."""

    work: Callable[[Any], Any]
    finish: Callable[[list[Any]], Iterable[Any]] | None
    memory: int
    rights: WorkerRights = WorkerRights()


class ItemBatch(NamedTuple):
    """Items, how many of their results are sent together, and for which of them the parent sends an open file."""

    items: list[Any]
    group_size: int
    has_file: list[bool]


def frame_message(message: Any) -> bytes:
    """Returns the length of the message's pickle, then the pickle: of what the parent sends, which a worker trusts."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(LENGTH, "little") + data


def run_worker() -> None:
    """Serves until the parent ends. The command line gives two descriptors: one end of a pipe whose other end only the
    parent holds, and one end of the socket over which it sends open files."""
    _die_with_the_parent(int(sys.argv[1]))
    channel = socket.socket(fileno=int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the parent ends its workers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800")  # where memory runs out, the system ends workers first
    requests, answers = _own_pipes()
    job: Any = None
    fresh = 0
    while request := _read(requests):
        try:
            message = pickle.loads(request)
            if isinstance(message, WorkerJob):
                if job is None:
                    fresh = _data_bytes()
                    drop_rights(message.rights)
                job = message
                _limit(fresh + job.memory)
                _write(answers, frame_answer(DONE))
                continue
        except Exception as error:
            _write(answers, _frame_error(error))
            continue
        for answer in _answers(job, message, channel):
            _write(answers, answer or frame_answer(OUT_OF_MEMORY))


def _answers(job: WorkerJob, batch: ItemBatch, channel: socket.socket) -> Iterator[bytes]:
    """Yields framed answers, those of a group together. The last is b"" where memory ran out: nothing is allocated
    before the memory of the item is free."""
    results: list[Any] = []
    files = deque(receive_files(sum(batch.has_file), channel))
    started = monotonic()
    for number, item in enumerate(batch.items):
        failure: bytes | None = None
        try:
            if batch.has_file[number] and files:
                offer_file(item, files.popleft())
            results.append(job.work(item))
        except MemoryError:
            results, failure = [], b""
        except Exception as error:
            failure = _frame_error(error)
        finally:
            drop_file()  # an idle worker keeps no disk busy
        if failure is not None:
            yield failure and _finish_answers(job, results) + failure
            return
        if len(results) >= batch.group_size or monotonic() - started > _SOON:
            yield _finish_answers(job, results)
            results, started = [], monotonic()
    if results:
        yield _finish_answers(job, results)


def _finish_answers(job: WorkerJob, results: list[Any]) -> bytes:
    try:
        finished = job.finish(results) if job.finish and results else results
        return b"".join(frame_answer(DONE, result) for result in finished)
    except MemoryError:
        return b""
    except Exception as error:
        return _frame_error(error)


def _die_with_the_parent(life: int) -> None:
    """Makes the kernel kill this process when the pipe's other end closes, even in C code. (PR_SET_PDEATHSIG of prctl
    would do so when the parent's *thread* ends.)"""
    if hasattr(fcntl, "F_SETSIG"):  # Linux; elsewhere a worker ends when it asks for the next item
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)


def _own_pipes() -> tuple[BinaryIO, int]:
    """Moves the two pipes to the parent to descriptors to which no library prints."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # C libraries print warnings about files
        os.dup2(nothing, stream)
    os.close(nothing)
    return requests, answers


def _limit(data: int) -> None:
    """Limits private writable memory. RLIMIT_AS would count libraries and thread stacks, too."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = data if hard == resource.RLIM_INFINITY else min(data, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def _read(requests: BinaryIO) -> bytes:
    length = requests.read(LENGTH)
    return requests.read(int.from_bytes(length, "little")) if len(length) == LENGTH else b""


def _write(answers: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(answers, left) :]
        except BrokenPipeError:
            sys.exit()


def _frame_error(error: Exception) -> bytes:
    """Returns the error with the traceback as a note, framed; a RuntimeError with its text where it is none of Python's
    own, or cannot be made again from its arguments."""
    note = f"In the worker process:\n{''.join(traceback.format_exception(error))}"
    error.add_note(note)
    try:
        framed = frame_answer(RAISED, error)
        read_answer(framed[LENGTH:])
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.add_note(note)
        return frame_answer(RAISED, plain)
    return framed
