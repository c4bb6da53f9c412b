"""The measured pace of models: a row per run of questions in the reply store, for plans. No build depends on it."""

import math
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from sqlalchemy import Column, Float, Integer, MetaData, String, Table, Text, insert, select
from sqlalchemy.engine import Connection

from backends.chat import ChatAnswer, Reply

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
