"""Leases on questions in the reply store: of several builds that need the same reply, one asks for it.

A lease ends when its holder releases it, when its process is gone (seen on the same machine), or when it was not
renewed for a minute (seen from other machines, whose clocks must agree to some seconds).
"""

import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Float, MetaData, String, Table, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from builders.errors import UserError

LEASES = Table(
    "question_leases",
    MetaData(),
    Column("key", String(64), primary_key=True),
    Column("holder", String(200), nullable=False),  # machine, process, its start, one run in it
    Column("expires", Float, nullable=False),  # seconds since 1970
)
_SECONDS = 60.0
_AT_ONCE = 500  # keys in one statement


class QuestionLeases:
    """The leases of one run. `begin` opens a transaction on the database of the replies."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._begin = begin
        self._holder = f"{_machine()} {os.getpid()} {_process_start(os.getpid())} {uuid.uuid4().hex}"

    @contextmanager
    def hold(self, keys: Sequence[str]) -> Iterator[set[str]]:
        """Yields those of the keys that no other run holds; they are this run's, and are renewed, until the block ends.
        Raises UserError for errors of the database."""
        stopped = threading.Event()
        renewing = threading.Thread(target=self._renew_until, args=(stopped,), name="leases", daemon=True)
        try:
            held = {
                key for start in range(0, len(keys), _AT_ONCE) for key in self._take(keys[start : start + _AT_ONCE])
            }
            renewing.start()
            yield held
        finally:
            stopped.set()
            if renewing.ident is not None:
                renewing.join()
            with suppress(UserError), self._begin() as connection:  # without a release the lease expires
                connection.execute(delete(LEASES).where(LEASES.c.holder == self._holder))

    def _take(self, keys: Sequence[str]) -> list[str]:
        now = time.time()
        mine = {"holder": self._holder, "expires": now + _SECONDS}
        with self._begin() as connection:
            dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
            insert = dialect.insert(LEASES).on_conflict_do_nothing()
            connection.execute(insert, [{"key": key, **mine} for key in sorted(keys)])
            rows = connection.execute(select(LEASES).where(LEASES.c.key.in_(keys))).all()
            for row in rows:
                if row.holder != self._holder and (row.expires < now or _is_gone(row.holder)):
                    found = (LEASES.c.key == row.key) & (LEASES.c.holder == row.holder)
                    connection.execute(update(LEASES).where(found).values(**mine))
            held = select(LEASES.c.key).where(LEASES.c.key.in_(keys), LEASES.c.holder == self._holder)
            return list(connection.execute(held).scalars())

    def _renew_until(self, stopped: threading.Event) -> None:
        while not stopped.wait(_SECONDS / 4):
            with suppress(UserError), self._begin() as connection:
                renewed = update(LEASES).where(LEASES.c.holder == self._holder)
                connection.execute(renewed.values(expires=time.time() + _SECONDS))


def _is_gone(holder: str) -> bool:
    """Whether the holder was a process of this machine that has ended."""
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
