"""The reply store in a database: SQLite by default, PostgreSQL by its URL."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Integer, MetaData, String, Table, Text, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine

from backends.chat import ChatAnswer, ChatRequest
from backends.plugin_loader import ModelIdentity
from backends.replies import call_pace, earlier_replies, reply_database
from backends.replies.answer_rows import as_answer, describe_stored_answers
from backends.replies.database_leases import LEASES, DatabaseLeases
from backends.replies.question_leases import QuestionLeases
from backends.replies.reply_keys import canonical_json_text

_AT_ONCE = 500  # keys in one statement
_REPLIES = Table(
    "replies",
    MetaData(),
    Column("key", String(64), primary_key=True),
    Column("identity", Text, nullable=False),  # the model's, as canonical JSON
    Column("request", Text, nullable=False),  # messages, digests of images, parameters: canonical JSON
    Column("kind", String(16), nullable=False),  # reply, or the failure's
    Column("reason", Text, nullable=False),  # the finish reason, or the failure's
    Column("text", Text, nullable=False),  # the reply, or the failure's detail
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("raw", Text, nullable=False),
    Column("stored_at", String(32), nullable=False),
)
_EARLIER = earlier_replies.define_earlier_replies(_REPLIES)
_MAY_REPLACE = {  # by the new answer's kind; a reply is never replaced
    "reply": ("final", "blocked", "transient"),
    "final": ("final", "blocked", "transient"),
    "transient": ("blocked", "transient"),
    "blocked": ("blocked", "transient"),
}


class DatabaseReplyStore:
    """Answers by key. Nothing is created before the first answer is stored. Methods raise UserError for errors of the
    database."""

    def __init__(self, location: str | Path) -> None:
        """`location` is a file or a SQLAlchemy URL."""
        self._url = reply_database.parse_database_url(location)
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def find(self, keys: Sequence[str]) -> dict[str, ChatAnswer]:
        """Returns stored replies and final failures by key, without raw replies."""
        answers: dict[str, ChatAnswer] = {}
        with reply_database.translate_database_errors(self._url), self._reading() as connection:
            if connection is None:
                return {}
            moment = earlier_replies.current_moment()
            for start in range(0, len(keys), _AT_ONCE):
                part = keys[start : start + _AT_ONCE]
                answers |= _read(connection, part) | (_read_earlier(connection, part, moment) if moment else {})
        return answers

    def save(
        self, identity: ModelIdentity, answered: Sequence[tuple[str, ChatRequest, ChatAnswer]]
    ) -> dict[str, ChatAnswer]:
        """Stores answers and returns the valid ones by key when they are on disk: where another process stored a reply
        first, its reply. Failures that are neither final nor have a raw reply are not stored."""
        rows = describe_stored_answers(identity, answered)
        given = {key: answer for key, _, answer in answered}
        if not rows:
            return given
        with self._writing() as connection:
            for row in rows:
                connection.execute(self._insert(row["kind"]), row)
            return given | _read(connection, [row["key"] for row in rows])

    def create_leases(self) -> QuestionLeases:
        """Returns leases for one run that asks questions."""
        return QuestionLeases(DatabaseLeases(self._writing))

    def refresh(self, identities: Sequence[ModelIdentity], before: str | None = None) -> int:
        """Sets the answers of these models aside, those stored before an ISO time or all, so that they are asked for
        again; returns their number. `replies_as_of` still finds them."""
        texts = [canonical_json_text(identity.as_record()) for identity in identities]
        with self._writing() as connection:
            return earlier_replies.set_aside(connection, _REPLIES, _EARLIER, texts, before)

    def record_pace(self, identity: ModelIdentity, role: str, pace: call_pace.QuestionPace) -> None:
        """Stores the measured pace of a run of questions."""
        if row := pace.as_row(canonical_json_text(identity.as_record()), role):
            with self._writing() as connection:
                call_pace.write_pace(connection, row)

    def find_turn_seconds(self, identity: ModelIdentity, role: str) -> float | None:
        """Returns the measured seconds of a turn of calls side by side; None where nothing was measured."""
        with reply_database.translate_database_errors(self._url), self._reading() as connection:
            text = canonical_json_text(identity.as_record())
            return None if connection is None else call_pace.read_turn_seconds(connection, text, role)

    def find_mean_tokens(self, identity: ModelIdentity) -> tuple[float, float] | None:
        """Returns the mean tokens in and out of this model's replies; None where the endpoint counts none."""
        means = [func.avg(column) for column in (_REPLIES.c.prompt_tokens, _REPLIES.c.completion_tokens)]
        asked = _REPLIES.c.identity == canonical_json_text(identity.as_record())
        with reply_database.translate_database_errors(self._url), self._reading() as connection:
            row = connection and connection.execute(select(*means).where(asked, _REPLIES.c.kind == "reply")).first()
        return (float(row[0]), float(row[1])) if row and None not in row else None

    def raw(self, key: str) -> str | None:
        """Returns the raw reply of a key, also of a transient failure, up to MAX_RAW_CHARACTERS."""
        with reply_database.translate_database_errors(self._url), self._reading() as connection:
            row = connection and connection.execute(select(_REPLIES.c.raw).where(_REPLIES.c.key == key)).first()
            return str(row[0]) if row else None

    def identities(self) -> list[ModelIdentity]:
        """Returns the models with stored answers."""
        with reply_database.translate_database_errors(self._url), self._reading() as connection:
            rows = connection.execute(select(_REPLIES.c.identity).distinct()).all() if connection else []
        return [ModelIdentity(**json.loads(row[0])) for row in sorted(tuple(row) for row in rows)]

    def close(self) -> None:
        """Closes the connections; the store may be used again."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def __enter__(self) -> DatabaseReplyStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        path = self._url.database if self._url.get_backend_name() == "sqlite" else None
        if path is not None and not Path(path).exists():
            yield None
            return
        with self._opened().connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with reply_database.translate_database_errors(self._url), self._opened().begin() as connection:
            yield connection

    def _opened(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = reply_database.connect(self._url, _REPLIES, LEASES, call_pace.PACES, _EARLIER)
            return self._engine

    def _insert(self, kind: str) -> Any:
        dialect = postgresql if self._url.get_backend_name() == "postgresql" else sqlite
        statement: Any = dialect.insert(_REPLIES)
        changed = {c.name: statement.excluded[c.name] for c in _REPLIES.columns if c.name != "key"}
        return statement.on_conflict_do_update(
            index_elements=["key"], set_=changed, where=_REPLIES.c.kind.in_(_MAY_REPLACE[kind])
        )


def _read(connection: Connection, keys: Sequence[str]) -> dict[str, ChatAnswer]:
    return _read_answers(connection, _REPLIES, _REPLIES.c.key.in_(keys))


def _read_earlier(connection: Connection, keys: Sequence[str], moment: str) -> dict[str, ChatAnswer]:
    """Returns the answers that held at the moment and were set aside later."""
    held = (_EARLIER.c.stored_at <= moment) & (_EARLIER.c.refreshed_at > moment)
    return _read_answers(connection, _EARLIER, _EARLIER.c.key.in_(keys) & held)


def _read_answers(connection: Connection, table: Table, chosen: Any) -> dict[str, ChatAnswer]:
    names = ("key", "kind", "reason", "text", "prompt_tokens", "completion_tokens")
    known = table.c.kind.in_(("reply", "final"))
    rows = connection.execute(select(*(table.c[name] for name in names)).where(chosen, known)).all()
    return {row[0]: as_answer(*row[1:]) for row in rows}
