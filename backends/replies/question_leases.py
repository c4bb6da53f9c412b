"""Leases on questions in the reply store: of several builds that need the same reply, one asks for it.

A lease ends when its holder releases it, when its process is gone (seen on the same machine), or when it was not
renewed for a minute (seen from other machines, whose clocks must agree to some seconds).
"""

import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Protocol

from builders.errors import UserError

_SECONDS = 60.0


class LeaseTable(Protocol):
    """Where the leases of all runs are kept. Methods raise UserError for errors of the place."""

    def take(self, keys: Sequence[str], holder: str, expires: float) -> set[str]:
        """Gives those of the keys to the holder that no other one holds (seconds since 1970), and returns them."""

    def renew(self, holder: str, expires: float) -> None:
        """Prolongs all leases of the holder."""

    def release(self, holder: str) -> None:
        """Ends all leases of the holder."""


class QuestionLeases:
    """The leases of one run."""

    def __init__(self, table: LeaseTable) -> None:
        self._table = table
        self._holder = f"{_machine()} {os.getpid()} {_process_start(os.getpid())} {uuid.uuid4().hex}"

    @contextmanager
    def hold(self, keys: Sequence[str]) -> Iterator[set[str]]:
        """Yields those of the keys that no other run holds; they are this run's, and are renewed, until the block ends.
        Raises UserError for errors of the store."""
        stopped = threading.Event()
        renewing = threading.Thread(target=self._renew_until, args=(stopped,), name="leases", daemon=True)
        try:
            held = self._table.take(keys, self._holder, time.time() + _SECONDS)
            renewing.start()
            yield held
        finally:
            stopped.set()
            if renewing.ident is not None:
                renewing.join()
            with suppress(UserError):  # without a release the lease expires
                self._table.release(self._holder)

    def _renew_until(self, stopped: threading.Event) -> None:
        while not stopped.wait(_SECONDS / 4):
            with suppress(UserError):
                self._table.renew(self._holder, time.time() + _SECONDS)


def is_over(holder: str, expires: float) -> bool:
    """Whether a lease has expired, or its holder was a process of this machine that has ended."""
    if expires < time.time():
        return True
    machine, process, start, _ = holder.split(" ")
    return machine == _machine() and _process_start(int(process)) != start


@cache
def _machine() -> str:
    """Identifies the running kernel and the process numbers in it; elsewhere than on Linux the name of the host."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return platform.node().replace(" ", "_")


def _process_start(process: int) -> str:
    """Returns when a process started, in the kernel's ticks; "running" where that is unknown, "" for no process."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        return "running"
    return "running"
