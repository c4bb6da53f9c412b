"""The database of the reply store: durable SQLite, or PostgreSQL; errors without passwords."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Table, create_engine, event
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.schema import CreateTable

from backends.durable_files import make_durable_folder
from builders.errors import UserError

_OPENING = "open reply store"
_BUSY_SECONDS = 60
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


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
