"""The reply store in a database: SQLite by default, PostgreSQL by its URL.

The database of the reply store: durable SQLite, or PostgreSQL; errors without passwords.

Leases on questions as rows of a database.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.schema import CreateTable

from querytruth.backends.files.durable_files import make_durable_folder
from querytruth.backends.models import question_leases, stored_answers
from querytruth.backends.models.chat import ChatAnswer, ChatRequest
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError

_OPENING = "open reply store"
_BUSY_SECONDS = 60
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
LEASES = Table(
    "question_leases",
    MetaData(),
    Column("key", String(64), primary_key=True),
    Column("holder", String(200), nullable=False),  # machine, process, its start, one run in it
    Column("expires", Float, nullable=False),  # seconds since 1970
)
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
_EARLIER = stored_answers.define_earlier_replies(_REPLIES)
_MAY_REPLACE = {  # by the new answer's kind; a reply is never replaced
    "reply": ("final", "blocked", "transient"),
    "final": ("final", "blocked", "transient"),
    "transient": ("blocked", "transient"),
    "blocked": ("blocked", "transient"),
}


@contextmanager
def translate_database_errors(url: URL) -> Iterator[None]:
    """Raises UserError, without the URL's password, in place of errors of the database."""
    try:
        yield
    except DBAPIError as error:
        raise _database_error(url, error) from None
    except ImportError as error:
        raise UserError(_OPENING, redact_url(url), f"needs {error.name}", "pip install -e '.[postgres]'") from None
    except OSError as error:
        raise UserError(_OPENING, redact_url(url), str(error.strerror), "fix that or choose another") from None


def parse_database_url(location: str | Path) -> URL:
    """Parses a file's path or a SQLAlchemy URL. Raises UserError for a URL that is none of a supported database."""
    if isinstance(location, Path) or "://" not in location:
        return URL.create("sqlite", database=str(location))
    scheme, _, rest = location.partition("://")
    driver = _DRIVERS.get(scheme.split("+")[0])
    if driver is None:
        raise UserError(_OPENING, scheme, "is no database for replies", "give a file or a postgresql:// URL")
    try:
        return make_url(f"{driver}://{rest}")
    except (ArgumentError, ValueError):  # their texts hold the password
        raise UserError(_OPENING, scheme, "the URL cannot be read", "fix its host, port or characters") from None


def redact_url(url: URL) -> str:
    """Returns the URL without user, password and options."""
    return URL.create(url.drivername, host=url.host, port=url.port, database=url.database).render_as_string()


def _database_error(url: URL, error: DBAPIError) -> UserError:
    message = " ".join(str(error.orig).split())[:200]
    for secret in [url.password, *(v for values in url.normalized_query.values() for v in values)]:
        message = message.replace(str(secret), "[redacted]") if secret else message
    next_step = "fix that, then run the same command: stored replies remain"
    return UserError("reply store", redact_url(url), message, next_step)


def connect(url: URL, *tables: Table) -> Engine:
    """Returns an engine, and creates the tables where they are missing."""
    if url.get_backend_name() != "sqlite":
        engine = create_engine(url, pool_pre_ping=True)
    else:
        if url.database:
            make_durable_folder(Path(url.database).parent)
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})
        event.listen(engine, "connect", _durable)
    for table in tables:
        _create_table(engine, table)
    return engine


def _durable(connection: Any, _record: Any) -> None:
    """Sets SQLite so that readers do not wait for writers, and commits survive a power failure."""
    for pragma in (f"busy_timeout={_BUSY_SECONDS * 1000}", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _create_table(engine: Engine, table: Table) -> None:
    """Creates the table; several processes may do so at once."""
    for attempt in range(20):
        try:
            with engine.begin() as connection:
                connection.execute(CreateTable(table, if_not_exists=True))
            return
        except DBAPIError as error:
            message = str(error.orig)
            if attempt == 19 or not ("locked" in message or "already exists" in message or "duplicate key" in message):
                raise
            time.sleep(0.05 * (attempt + 1))


class DatabaseLeases:
    """The leases of all runs. `begin` opens a transaction on the database of the replies."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._begin = begin

    def take(self, keys: Sequence[str], holder: str, expires: float) -> set[str]:
        """Gives those of the keys to the holder that no other one holds (seconds since 1970), and returns them."""
        parts = (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))
        return {key for part in parts for key in self._take(part, {"holder": holder, "expires": expires})}

    def renew(self, holder: str, expires: float) -> None:
        """Prolongs all leases of the holder."""
        with self._begin() as connection:
            connection.execute(update(LEASES).where(LEASES.c.holder == holder).values(expires=expires))

    def release(self, holder: str) -> None:
        """Ends all leases of the holder."""
        with self._begin() as connection:
            connection.execute(delete(LEASES).where(LEASES.c.holder == holder))

    def _take(self, keys: Sequence[str], mine: dict[str, Any]) -> list[str]:
        with self._begin() as connection:
            dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
            insert = dialect.insert(LEASES).on_conflict_do_nothing()
            connection.execute(insert, [{"key": key, **mine} for key in sorted(keys)])
            rows = connection.execute(select(LEASES).where(LEASES.c.key.in_(keys))).all()
            for row in rows:
                if row.holder != mine["holder"] and question_leases.is_over(row.holder, row.expires):
                    found = (LEASES.c.key == row.key) & (LEASES.c.holder == row.holder)
                    connection.execute(update(LEASES).where(found).values(**mine))
            held = select(LEASES.c.key).where(LEASES.c.key.in_(keys), LEASES.c.holder == mine["holder"])
            return list(connection.execute(held).scalars())


class DatabaseReplyStore:
    """Answers by key. Nothing is created before the first answer is stored. Methods raise UserError for errors of the
    database."""

    def __init__(self, location: str | Path) -> None:
        """`location` is a file or a SQLAlchemy URL."""
        self._url = parse_database_url(location)
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def find(self, keys: Sequence[str]) -> dict[str, ChatAnswer]:
        """Returns stored replies and final failures by key, without raw replies."""
        answers: dict[str, ChatAnswer] = {}
        with translate_database_errors(self._url), self._reading() as connection:
            if connection is None:
                return {}
            moment = stored_answers.current_moment()
            for start in range(0, len(keys), _AT_ONCE):
                part = keys[start : start + _AT_ONCE]
                answers |= _read(connection, part) | (_read_earlier(connection, part, moment) if moment else {})
        return answers

    def save(
        self, identity: ModelIdentity, answered: Sequence[tuple[str, ChatRequest, ChatAnswer]]
    ) -> dict[str, ChatAnswer]:
        """Stores answers and returns the valid ones by key when they are on disk: where another process stored a reply
        first, its reply. Failures that are neither final nor have a raw reply are not stored."""
        rows = stored_answers.describe_stored_answers(identity, answered)
        given = {key: answer for key, _, answer in answered}
        if not rows:
            return given
        with self._writing() as connection:
            for row in rows:
                connection.execute(self._insert(row["kind"]), row)
            return given | _read(connection, [row["key"] for row in rows])

    def create_leases(self) -> question_leases.QuestionLeases:
        """Returns leases for one run that asks questions."""
        return question_leases.QuestionLeases(DatabaseLeases(self._writing))

    def refresh(self, identities: Sequence[ModelIdentity], before: str | None = None) -> int:
        """Sets the answers of these models aside, those stored before an ISO time or all, so that they are asked for
        again; returns their number. `replies_as_of` still finds them."""
        texts = [stored_answers.canonical_json_text(identity.as_record()) for identity in identities]
        with self._writing() as connection:
            return stored_answers.set_aside(connection, _REPLIES, _EARLIER, texts, before)

    def record_pace(self, identity: ModelIdentity, role: str, pace: question_leases.QuestionPace) -> None:
        """Stores the measured pace of a run of questions."""
        if row := pace.as_row(stored_answers.canonical_json_text(identity.as_record()), role):
            with self._writing() as connection:
                question_leases.write_pace(connection, row)

    def find_turn_seconds(self, identity: ModelIdentity, role: str) -> float | None:
        """Returns the measured seconds of a turn of calls side by side; None where nothing was measured."""
        with translate_database_errors(self._url), self._reading() as connection:
            text = stored_answers.canonical_json_text(identity.as_record())
            return None if connection is None else question_leases.read_turn_seconds(connection, text, role)

    def find_mean_tokens(self, identity: ModelIdentity) -> tuple[float, float] | None:
        """Returns the mean tokens in and out of this model's replies; None where the endpoint counts none."""
        means = [func.avg(column) for column in (_REPLIES.c.prompt_tokens, _REPLIES.c.completion_tokens)]
        asked = _REPLIES.c.identity == stored_answers.canonical_json_text(identity.as_record())
        with translate_database_errors(self._url), self._reading() as connection:
            row = connection and connection.execute(select(*means).where(asked, _REPLIES.c.kind == "reply")).first()
        return (float(row[0]), float(row[1])) if row and None not in row else None

    def raw(self, key: str) -> str | None:
        """Returns the raw reply of a key, also of a transient failure, up to MAX_RAW_CHARACTERS."""
        with translate_database_errors(self._url), self._reading() as connection:
            row = connection and connection.execute(select(_REPLIES.c.raw).where(_REPLIES.c.key == key)).first()
            return str(row[0]) if row else None

    def identities(self) -> list[ModelIdentity]:
        """Returns the models with stored answers."""
        with translate_database_errors(self._url), self._reading() as connection:
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
        with translate_database_errors(self._url), self._opened().begin() as connection:
            yield connection

    def _opened(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = connect(self._url, _REPLIES, LEASES, question_leases.PACES, _EARLIER)
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
    return {row[0]: stored_answers.as_answer(*row[1:]) for row in rows}
