"""The worker's side of `querytruth.backends.images.worker_processes`: gives up its rights, then answers item by item.

It imports little besides the standard library, because every worker holds its imports in memory.

Landlock (Linux 5.13 and later) forbids writing except below one folder, and reading except there and in Python's own
folders; the parent hands the files of the items over as open descriptors. seccomp (Linux on x86-64 and aarch64) forbids
sockets and programs. Where the kernel lacks one of them, the worker runs without it. A worker for URLs reads what its
driver needs, such as certificates: its reading is not limited.
"""

import contextlib
import ctypes
import fcntl
import os
import pickle
import platform
import resource
import signal
import socket
import struct
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, NamedTuple

from querytruth.backends.images import worker_messages

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITING = 0b1_1111_1111_0011  # execute, write, and make or remove anything: the rights of Landlock's first version
_LATER = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # by version: link across folders, truncate, control devices
_EXECUTE, _READ_FILE, _READ_FOLDER = 1, 1 << 2, 1 << 3
_PROJECT = Path(__file__).parents[3]
_READABLE = [  # shared libraries, and what they ask of the system
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store", "/etc/ld.so.cache", "/dev/null"),
    *("/dev/urandom", "/etc/localtime", "/usr/share/zoneinfo", "/sys/devices/system/cpu", "/proc/cpuinfo"),
]
_ALLOW, _DENY = 0x7FFF0000, 0x00050000 | 13  # EACCES
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
# audit architecture; execve, execveat, ptrace, process_vm_writev, io_uring_setup; socket
_SYSCALLS = {
    "x86_64": (0xC000003E, (59, 322, 101, 311, 425), 41),
    "aarch64": (0xC00000B7, (221, 281, 117, 271, 425), 198),
}
_SOON = 0.25  # seconds after which finished results are sent without waiting for the rest of their group


class WorkerRights(NamedTuple):
    """The rights of a worker: read the code of its function in these folders, write below a folder (None: nowhere), and
    open sockets. `inode` belongs to the folder: the kernel treats a recreated folder as another one.
    """

    writable: str | None = None
    has_network: bool = False
    inode: int = 0
    code: tuple[str, ...] = ()


def limit_rights(work: Callable[..., Any], writable: Path | None, has_network: bool) -> WorkerRights:
    """Return the rights to import the function, to write below an existing folder, if any, and to connect. Raises
    OSError without it."""
    package = sys.modules.get(str(getattr(getattr(work, "func", work), "__module__", "")).partition(".")[0])
    code = tuple(map(str, getattr(package, "__path__", ())))
    if writable is None:
        return WorkerRights(None, has_network, 0, code)
    return WorkerRights(str(writable), has_network, writable.stat().st_ino, code)


def drop_rights(rights: WorkerRights) -> None:
    """Give up all but these rights, for good, as far as the kernel can enforce it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "prctl") or libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return
    _limit_files(libc, rights)
    _forbid_syscalls(libc, rights.has_network)


def _limit_files(libc: ctypes.CDLL, rights: WorkerRights) -> None:
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return
    handled = _WRITING | sum(right for since, right in _LATER.items() if version >= since)
    if not rights.has_network:
        handled |= _READ_FILE | _READ_FOLDER
    attributes = struct.pack("Q", handled)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return
    if rights.writable is not None:
        _allow(libc, ruleset, rights.writable, handled & ~_EXECUTE)
    if not rights.has_network:
        for path, allowed in _readable(rights.code):
            with contextlib.suppress(OSError):  # not every system has each of them
                _allow(libc, ruleset, path, allowed if Path(path).is_dir() else _READ_FILE)
    libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _readable(code: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield what a worker may read, and whether files or names alone: an import lists the folder of its package."""
    installed = {sys.prefix, sys.base_prefix, sys.exec_prefix, *(path for path in sys.path if "-packages" in path)}
    for path in (*installed, *_READABLE, str(_PROJECT / "querytruth"), *code):
        yield path, _READ_FILE | _READ_FOLDER
    for path in {str(_PROJECT), *(str(Path(folder).parent) for folder in code)}:
        yield path, _READ_FOLDER


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, allowed: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", allowed, handle), 0)
    os.close(handle)


def _forbid_syscalls(libc: ctypes.CDLL, has_network: bool) -> None:
    if platform.machine() not in _SYSCALLS:
        return
    architecture, numbers, socket = _SYSCALLS[platform.machine()]
    denied = numbers if has_network else (*numbers, socket)
    end = len(denied) + 1  # instructions between the first check of a number and the denial
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 0, end + 2, architecture),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, end, 0, 0x40000000),  # the 32-bit names of the same calls
        *((_EQUAL, end - 1 - place, 0, number) for place, number in enumerate(denied)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DENY),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))
    described = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(described), 0, 0)


def needs_network(item: object) -> bool:
    """Return whether the item, or its `location`, is a URL."""
    location = worker_messages.item_location(item) or ""
    return "://" in location and not location.startswith("/")


class WorkerJob(NamedTuple):
    """The function for every item, then one for several results at once; `memory` is in bytes. A process has the rights
    of its first job."""

    work: Callable[[Any], Any]
    finish: Callable[[list[Any]], Iterable[Any]] | None
    memory: int
    rights: WorkerRights = WorkerRights()


class ItemBatch(NamedTuple):
    """Items, the number of results that are sent together, and the items for which the parent sends an open file."""

    items: list[Any]
    group_size: int
    has_file: list[bool]


def frame_message(message: object) -> bytes:
    """Return the length of the message's pickle, then the pickle. It is used for the parent's messages only, which a
    worker trusts."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(worker_messages.LENGTH, "little") + data


def run_worker() -> None:
    """Serve until the parent ends. The command line gives two descriptors: one end of a pipe whose other end only the
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
                _write(answers, worker_messages.frame_answer(worker_messages.DONE))
                continue
        except Exception as error:
            _write(answers, _frame_error(error))
            continue
        for answer in _answers(job, message, channel):
            _write(answers, answer or worker_messages.frame_answer(worker_messages.OUT_OF_MEMORY))


def _answers(job: WorkerJob, batch: ItemBatch, channel: socket.socket) -> Iterator[bytes]:
    """Yield framed answers, those of a group together. The last is b"" where memory ran out: nothing is allocated
    before the memory of the item is free."""
    results: list[Any] = []
    files = deque(worker_messages.receive_files(sum(batch.has_file), channel))
    started = monotonic()
    for number, item in enumerate(batch.items):
        failure: bytes | None = None
        try:
            if batch.has_file[number] and files:
                worker_messages.offer_file(item, files.popleft())
            results.append(job.work(item))
        except MemoryError:
            results, failure = [], b""
        except Exception as error:
            failure = _frame_error(error)
        finally:
            worker_messages.drop_file()  # an idle worker keeps no disk busy
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
        return b"".join(worker_messages.frame_answer(worker_messages.DONE, result) for result in finished)
    except MemoryError:
        return b""
    except Exception as error:
        return _frame_error(error)


def _die_with_the_parent(life: int) -> None:
    """Make the kernel kill this process when the pipe's other end closes, even in C code. (PR_SET_PDEATHSIG of prctl
    would do so when the parent's *thread* ends.)"""
    if hasattr(fcntl, "F_SETSIG"):  # Linux; elsewhere a worker ends when it asks for the next item
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)


def _own_pipes() -> tuple[BinaryIO, int]:
    """Move the two pipes to the parent to descriptors that no library prints to."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # C libraries print warnings about files
        os.dup2(nothing, stream)
    os.close(nothing)
    return requests, answers


def _limit(data: int) -> None:
    """Limit private writable memory. RLIMIT_AS would also count libraries and thread stacks."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = data if hard == resource.RLIM_INFINITY else min(data, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def _read(requests: BinaryIO) -> bytes:
    length = requests.read(worker_messages.LENGTH)
    return requests.read(int.from_bytes(length, "little")) if len(length) == worker_messages.LENGTH else b""


def _write(answers: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(answers, left) :]
        except BrokenPipeError:
            sys.exit()


def _frame_error(error: Exception) -> bytes:
    """Return the error, framed, with the traceback as a note; as a RuntimeError with its text if it is not a built-in
    exception or cannot be rebuilt from its arguments."""
    note = f"In the worker process:\n{''.join(traceback.format_exception(error))}"
    error.add_note(note)
    try:
        framed = worker_messages.frame_answer(worker_messages.RAISED, error)
        worker_messages.read_answer(framed[worker_messages.LENGTH :])
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.add_note(note)
        return worker_messages.frame_answer(worker_messages.RAISED, plain)
    return framed
