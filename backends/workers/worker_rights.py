"""What a worker process gives up before it gets the first file: the user's files, starting programs, and the network.

Landlock (Linux 5.13 and later) forbids writing except below one folder, and reading except there and in Python's own
folders; the parent hands the files of the items over as open descriptors. seccomp (Linux on x86-64 and aarch64) forbids
sockets and programs. Where the kernel lacks one of them, the worker runs without it. A worker for URLs reads what its
driver needs, such as certificates: its reading is not limited.
"""

import contextlib
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from backends.workers.handed_files import item_location

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITING = 0b1_1111_1111_0011  # execute, write, and make or remove anything: the rights of Landlock's first version
_LATER = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # by version: link across folders, truncate, control devices
_EXECUTE, _READ_FILE, _READ_FOLDER = 1, 1 << 2, 1 << 3
_PROJECT = Path(__file__).parents[2]
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


class WorkerRights(NamedTuple):
    """What a worker may do: read the code of its function, in these folders, write below a folder (None: nowhere), and
    open sockets. `inode` is that of the folder: a folder that was removed and made again is another one to the kernel.
    """

    writable: str | None = None
    has_network: bool = False
    inode: int = 0
    code: tuple[str, ...] = ()


def limit_rights(work: Callable[..., Any], writable: Path | None, has_network: bool) -> WorkerRights:
    """Returns the rights to import the function, to write below an existing folder, if any, and to connect. Raises
    OSError without it."""
    package = sys.modules.get(str(getattr(getattr(work, "func", work), "__module__", "")).partition(".")[0])
    code = tuple(map(str, getattr(package, "__path__", ())))
    if writable is None:
        return WorkerRights(None, has_network, 0, code)
    return WorkerRights(str(writable), has_network, writable.stat().st_ino, code)


def drop_rights(rights: WorkerRights) -> None:
    """Gives up all but these rights, for good, as far as the kernel can enforce it."""
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
    """Yields what a worker may read, and whether files or names alone: an import lists the folder of its package."""
    installed = {sys.prefix, sys.base_prefix, sys.exec_prefix, *(path for path in sys.path if "-packages" in path)}
    for path in (*installed, *_READABLE, str(_PROJECT / "backends"), str(_PROJECT / "builders"), *code):
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


def needs_network(item: Any) -> bool:
    """Is the item, or its `location`, a URL?"""
    location = item_location(item) or ""
    return "://" in location and not location.startswith("/")
