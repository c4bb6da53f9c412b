"""Leases on questions in the reply store: of several builds that need the same reply, one asks for it.

A lease ends when its holder releases it, when its process is gone (seen on the same machine), or when it was not
renewed for a minute (seen from other machines, whose clocks must agree to some seconds).

The measured pace of models: a row per run of questions in the reply store, for plans. No build depends on it.

What a run spends on questions to chat models, against its budget.
"""

import math
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from sqlalchemy import Column, Float, Integer, MetaData, String, Table, Text, insert, select
from sqlalchemy.engine import Connection

from querytruth.backends.models.chat import ChatAnswer, ChatRequest, Reply
from querytruth.errors import UserError

_SECONDS = 60.0
PACES = Table(
    "question_paces",
    MetaData(),
    Column("pace_id", String(32), primary_key=True),
    Column("identity", Text, nullable=False),  # the model's, as canonical JSON
    Column("role", String(64), nullable=False),  # what was asked for: captions, descriptions, topics …
    Column("calls", Integer, nullable=False),
    Column("at_once", Integer, nullable=False),  # calls at a time, at most
    Column("seconds", Float, nullable=False),  # from the first question to the last answer
    Column("stored_at", String(32), nullable=False),
)


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


@dataclass(slots=True)
class QuestionPace:
    """The seconds of a run of questions, of which `at_once` are asked at a time, and its replies."""

    at_once: int
    replies: int = 0
    failures: int = 0
    seconds: float = 0.0

    def count(self, answers: Sequence[ChatAnswer]) -> None:
        """Counts answers that arrived."""
        replies = sum(isinstance(answer, Reply) for answer in answers)
        self.replies += replies
        self.failures += len(answers) - replies

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Adds the seconds of the block."""
        start = monotonic()
        try:
            yield
        finally:
            self.seconds += monotonic() - start

    def as_row(self, identity: str, role: str) -> dict[str, Any] | None:
        """Returns the row of the run; None where failures, which may come at once, are more than the replies."""
        if self.replies <= self.failures:
            return None
        fields = {"calls": self.replies + self.failures, "at_once": self.at_once, "seconds": self.seconds}
        stored_at = datetime.now(UTC).isoformat(timespec="seconds")
        return {"pace_id": uuid.uuid4().hex, "identity": identity, "role": role, "stored_at": stored_at, **fields}


def write_pace(connection: Connection, row: dict[str, Any]) -> None:
    """Stores the row of a run."""
    connection.execute(insert(PACES), row)


def count_turns(calls: int, at_once: int) -> int:
    """Returns how often `at_once` questions are asked side by side until all are answered."""
    return math.ceil(calls / max(1, min(at_once, calls))) if calls else 0


def read_turn_seconds(connection: Connection, identity: str, role: str) -> float | None:
    """Returns the mean seconds of a turn of this model: in this role, else in any; None where nothing was measured."""
    columns = (PACES.c.role, PACES.c.calls, PACES.c.at_once, PACES.c.seconds)
    rows = connection.execute(select(*columns).where(PACES.c.identity == identity)).all()
    return mean_turn_seconds([(row.role, row.calls, row.at_once, row.seconds) for row in rows], role)


def mean_turn_seconds(runs: Sequence[tuple[str, int, int, float]], role: str) -> float | None:
    """Returns the mean seconds of a turn in runs of a model, each its role, calls, calls at a time and seconds: in this
    role, else in any; None without a run."""
    chosen = [run for run in runs if run[0] == role] or runs
    turns = sum(count_turns(calls, at_once) for _, calls, at_once, _ in chosen)
    return sum(seconds for _, _, _, seconds in chosen) / turns if turns else None


@dataclass(slots=True)
class Spending:
    """The calls and tokens of a run so far, and its limits (None: no limit); `hours` count from its creation."""

    calls: int | None = None
    tokens: int | None = None
    hours: float | None = None
    spent_calls: int = 0
    spent_tokens: int = 0
    _start: float = field(default_factory=monotonic)

    @property
    def exhausted_limit(self) -> str:
        """Returns the limit that is reached, such as "calls"; "" for none."""
        if self.calls is not None and self.spent_calls >= self.calls:
            return "calls"
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            return "tokens"
        return "hours" if self.hours is not None and monotonic() - self._start >= self.hours * 3600 else ""

    def count_allowed(self, wanted: int) -> int:
        """Returns how many of the wanted questions may be asked now."""
        if self.exhausted_limit:
            return 0
        return wanted if self.calls is None else min(wanted, self.calls - self.spent_calls)

    def count(self, request: ChatRequest, answer: ChatAnswer) -> None:
        """Counts an answer that arrived; a failure is a call without tokens."""
        self.spent_calls += 1
        if isinstance(answer, Reply):
            self.spent_tokens += count_tokens(answer, "".join(message.text for message in request.messages))

    def describe_limit(self, limit: str) -> str:
        """Returns the limit in words, such as "100 calls"."""
        value = getattr(self, limit)
        return f"{value:,} {limit if value != 1 else limit.removesuffix('s')}"


def count_tokens(reply: Reply, asked: str) -> int:
    """Returns the tokens in and out as the model counts them, else one per three bytes (about a Chinese character or
    half an English word)."""
    parts = ((reply.prompt_tokens, asked), (reply.completion_tokens, reply.text))
    return sum(-(-len(text.encode("utf-8", "replace")) // 3) if count is None else count for count, text in parts)
