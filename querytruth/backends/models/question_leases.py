"""State that builds share besides replies: leases on questions, the measured pace of models, and the rest of a budget.

If several builds need the same reply, one of them asks for it. A lease ends when its holder releases it, when its
process is gone (seen on the same machine), or when it was not renewed for a minute (seen from other machines, whose
clocks may differ by some seconds). The pace is for plans; no build depends on it.
"""

import math
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from querytruth.backends.environment import process_start, this_machine
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, Reply
from querytruth.backends.models.reply_objects import LEASES, PastRun
from querytruth.errors import UserError

if TYPE_CHECKING:
    from querytruth.backends.files.object_store import Objects

_SECONDS = 60.0
_CLOCKS_DIFFER = 30.0  # seconds, at most
_MAX_BYTES = 64 << 20
_ATTEMPTS = 40
_PAUSE_SECONDS = 0.4  # at most, between two attempts


class Lease(msgspec.Struct):
    """Questions that a run is asking, until when (seconds since 1970)."""

    expires: float
    keys: list[str]


class QuestionLeases:
    """The leases of one run. The leases of all runs are one object, which is replaced only if nobody else replaced it
    meanwhile. Methods raise UserError for errors of the store."""

    def __init__(self, objects: "Objects", holder: str = "") -> None:
        """`holder`: machine, process, its start and a name of the run; "" for this process."""
        self._objects = objects
        self._holder = holder or f"{this_machine()} {os.getpid()} {process_start(os.getpid())} {uuid.uuid4().hex}"

    @contextmanager
    def hold(self, keys: Sequence[str]) -> Iterator[set[str]]:
        """Yield those of the keys that no other run holds; they are this run's, and are renewed, until the block
        ends."""
        stopped, held = threading.Event(), set[str]()
        renewing = threading.Thread(target=self._renew_until, args=(stopped, held), name="leases", daemon=True)
        try:
            held |= self.take(keys)
            renewing.start()
            yield held
        finally:
            stopped.set()
            if renewing.ident is not None:
                renewing.join()
            with suppress(UserError):  # without a release the lease expires
                self._change(lambda leases: leases.pop(self._holder, None) is not None)

    def take(self, keys: Iterable[str]) -> set[str]:
        """Take those of the keys that no other run holds, or hold them for longer, and return them."""
        held: set[str] = set()

        def add(leases: dict[str, Lease]) -> bool:
            taken = {key for other, lease in leases.items() if other != self._holder for key in lease.keys}
            held.clear()
            held.update(key for key in keys if key not in taken)
            if held:
                leases[self._holder] = Lease(time.time() + _SECONDS, sorted(held))
            return bool(held)

        self._change(add)
        return held

    def _renew_until(self, stopped: threading.Event, held: set[str]) -> None:
        while not stopped.wait(_SECONDS / 4):
            with suppress(UserError):
                self.take(held)

    def _change(self, change: Callable[[dict[str, Lease]], bool]) -> None:
        """Let `change` change the leases that hold, and store them where it returns True."""
        for attempt in range(_ATTEMPTS):
            stored = self._objects.read([LEASES], _MAX_BYTES).get(LEASES)
            leases = {} if stored is None else self._parse(stored.data)
            holding = {one: lease for one, lease in leases.items() if not is_over(one, lease.expires)}
            if not change(holding):
                return
            data = msgspec.json.encode(holding)
            if stored is None and self._objects.put_new({LEASES: data}):
                return
            if stored is not None and self._objects.put_changed(LEASES, data, stored.tag):
                return
            time.sleep(random.uniform(0, min(_PAUSE_SECONDS, 0.02 * 2**attempt)))
        next_step = "run the same command"
        raise UserError("reply store", self._objects.url_of(LEASES), "other runs keep replacing it", next_step)

    def _parse(self, data: bytes) -> dict[str, Lease]:
        try:
            leases = msgspec.json.decode(data, type=dict[str, Lease])
            for holder in leases:
                _machine, process, _start, _run = holder.split(" ")
                if int(process) < 1:
                    raise ValueError("no process")
        except (ValueError, RecursionError):
            place, next_step = (
                self._objects.url_of(LEASES),
                "delete that object while no build runs: it holds no answers",
            )
            raise UserError("reply store", place, "is not a list of leases", next_step) from None
        return leases


def is_over(holder: str, expires: float) -> bool:
    """Return whether a lease has expired, ends later than any lease can (by a clock that is set wrong), or was held by
    a process of this machine that has ended."""
    if not 0 <= expires - time.time() <= _SECONDS + _CLOCKS_DIFFER:
        return True
    machine, process, start, _ = holder.split(" ")
    return machine == this_machine() and process_start(int(process)) != start


@dataclass(slots=True)
class QuestionPace:
    """The seconds and replies of a run of questions, with `at_once` questions at a time."""

    at_once: int
    replies: int = 0
    failures: int = 0
    seconds: float = 0.0
    tokens: tuple[int, int] = (0, 0)  # in and out, of the replies that count them
    counted: int = 0

    def count(self, answers: Sequence[ChatAnswer]) -> None:
        """Count answers that arrived."""
        for one in answers:
            if isinstance(one, Reply) and one.prompt_tokens is not None and one.completion_tokens is not None:
                self.tokens = self.tokens[0] + one.prompt_tokens, self.tokens[1] + one.completion_tokens
                self.counted += 1
        replies = sum(isinstance(answer, Reply) for answer in answers)
        self.replies += replies
        self.failures += len(answers) - replies

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Add the seconds of the block."""
        start = monotonic()
        try:
            yield
        finally:
            self.seconds += monotonic() - start

    def as_run(self, role: str) -> PastRun | None:
        """Return the run, or None if there are more failures than replies, since failures can be immediate."""
        if self.replies <= self.failures:
            return None
        calls, milliseconds = self.replies + self.failures, round(self.seconds * 1000)
        return PastRun(role, calls, self.at_once, milliseconds, *self.tokens, self.counted)


def count_turns(calls: int, at_once: int) -> int:
    """Return how often `at_once` questions are asked side by side until all are answered."""
    return math.ceil(calls / max(1, min(at_once, calls))) if calls else 0


def mean_turn_seconds(runs: Sequence[PastRun], role: str) -> float | None:
    """Return the mean seconds of a turn in runs of a model: in this role, else in any; None without a run."""
    chosen = [run for run in runs if run.role == role] or runs
    turns = sum(count_turns(run.calls, run.at_once) for run in chosen)
    return sum(run.milliseconds for run in chosen) / 1000 / turns if turns else None


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
        """Return the limit that is reached, such as "calls"; "" for none."""
        if self.calls is not None and self.spent_calls >= self.calls:
            return "calls"
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            return "tokens"
        return "hours" if self.hours is not None and monotonic() - self._start >= self.hours * 3600 else ""

    def count_allowed(self, wanted: int) -> int:
        """Return how many of the wanted questions may be asked now."""
        if self.exhausted_limit:
            return 0
        return wanted if self.calls is None else min(wanted, self.calls - self.spent_calls)

    def count(self, request: ChatRequest, answer: ChatAnswer) -> None:
        """Count an answer that arrived; a failure is a call without tokens."""
        self.spent_calls += 1
        if isinstance(answer, Reply):
            self.spent_tokens += count_tokens(answer, "".join(message.text for message in request.messages))

    def describe_limit(self, limit: str) -> str:
        """Return the limit in words, such as "100 calls"."""
        value = getattr(self, limit)
        return f"{value:,} {limit if value != 1 else limit.removesuffix('s')}"


def count_tokens(reply: Reply, asked: str) -> int:
    """Return the tokens in and out as the model counts them, else one per three bytes (about a Chinese character or
    half an English word)."""
    parts = ((reply.prompt_tokens, asked), (reply.completion_tokens, reply.text))
    return sum(-(-len(text.encode("utf-8", "replace")) // 3) if count is None else count for count, text in parts)
