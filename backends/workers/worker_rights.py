"""What a worker process gives up before it opens the first file: writing, starting programs, and the network.

Landlock (Linux 5.13 and later) forbids writing except below one folder; seccomp (Linux on x86-64 and aarch64) forbids
sockets and programs. Where the kernel lacks one of them, the worker runs without it. Reading is not limited.
"""

import ctypes
import os
import platform
import struct
from pathlib import Path
from typing import Any, NamedTuple

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITING = 0b1_1111_1111_0011  # execute, write, and make or remove anything: the rights of Landlock's first version
_LATER = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # by version: link across folders, truncate, control devices
_EXECUTE = 1
_ALLOW, _DENY = 0x7FFF0000, 0x00050000 | 13  # EACCES
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
# audit architecture; execve, execveat, ptrace, process_vm_writev, io_uring_setup; socket
_SYSCALLS = {
    "x86_64": (0xC000003E, (59, 322, 101, 311, 425), 41),
    "aarch64": (0xC00000B7, (221, 281, 117, 271, 425), 198),
}


class WorkerRights(NamedTuple):
    """What a worker may do besides reading: write below a folder (None: nowhere), and open sockets. `inode` is that of
    the folder: a folder that was removed and made again is another one to the kernel."""

    writable: str | None = None
    has_network: bool = False
    inode: int = 0


def limit_rights(writable: Path | None, has_network: bool) -> WorkerRights:
    """Returns the rights to write below an existing folder, if any, and to connect. Raises OSError without it."""
    if writable is None:
        return WorkerRights(None, has_network)
    return WorkerRights(str(writable), has_network, writable.stat().st_ino)


def drop_rights(rights: WorkerRights) -> None:
    """Gives up all but these rights, for good, as far as the kernel can enforce it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "prctl") or libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return
    _forbid_writing(libc, rights.writable)
    _forbid_syscalls(libc, rights.has_network)


def _forbid_writing(libc: ctypes.CDLL, writable: str | None) -> None:
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return
    handled = _WRITING | sum(right for since, right in _LATER.items() if version >= since)
    attributes = struct.pack("Q", handled)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return
    if writable is not None:
        folder = os.open(writable, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", handled & ~_EXECUTE, folder), 0)
        os.close(folder)
    libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


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
    location = str(getattr(item, "location", item))
    return "://" in location and not location.startswith("/")
