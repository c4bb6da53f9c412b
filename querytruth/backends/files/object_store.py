"""One store of named bytes: a database (a file of SQLite, PostgreSQL by its URL) or a folder of a bucket.

An object is created once, or replaced only if its bytes are still those that were read, atomically with respect to
other writers. It stores model replies and their leases, the rows of fetched pages, and this machine's cache of a
bucket. Errors are UserError, without passwords.
"""

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from querytruth.backends.files.bucket import BucketObjects, Stored
from querytruth.backends.files.bucket_urls import BucketFolder, is_object_url
from querytruth.backends.files.durable_files import make_durable_folder
from querytruth.errors import UserError

_BUSY_SECONDS = 60
_AT_ONCE = 500  # names in one statement
_LAST = "\U0010ffff"
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_OBJECTS = sa.Table(
    "querytruth_objects",
    sa.MetaData(),
    sa.Column(
        "name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), primary_key=True
    ),  # ordered by its bytes
    sa.Column("tag", sa.String(64), nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)


class DatabaseObjects:
    """Objects as rows of a database. Nothing is created before the first is stored; several threads, processes and,
    with PostgreSQL, machines may use one at a time."""

    def __init__(
        self,
        location: str | Path,
        stage: str = "reply store",
        next_step: str = "fix that, then run the same command: stored data remains",
    ) -> None:
        """`location` is a file or a SQLAlchemy URL; connects to nothing yet. Raises UserError for another URL."""
        self._url, self._stage, self._next_step = parse_database_url(location, stage), stage, next_step
        self._is_file = self._url.get_backend_name() == "sqlite"
        self._lock, self._writer = threading.Lock(), threading.Lock()
        self._engine: sa.Engine | None = None

    def url_of(self, name: str) -> str:
        """Return the location of an object, for messages."""
        return f"{redact_url(self._url)} {name}"

    def read(self, names: Sequence[str], max_bytes: int) -> dict[str, Stored]:
        """Return those of the objects that are there."""
        found: dict[str, Stored] = {}
        columns = (_OBJECTS.c.name, _OBJECTS.c.data, _OBJECTS.c.tag)
        with self._reading() as connection:
            for start in range(0, len(names) if connection else 0, _AT_ONCE):
                chosen = _OBJECTS.c.name.in_(names[start : start + _AT_ONCE])
                rows = connection.execute(sa.select(*columns).where(chosen)) if connection else ()
                found |= {name: Stored(bytes(data), tag) for name, data, tag in rows}
        if too_large := next((name for name, one in found.items() if len(one.data) > max_bytes), None):
            raise UserError(self._stage, self.url_of(too_large), f"is larger than {max_bytes:,} bytes", self._next_step)
        return found

    def list_below(self, prefix: str) -> list[str]:
        """Return the names that begin with the prefix, sorted."""
        chosen = (_OBJECTS.c.name >= prefix) & (_OBJECTS.c.name < prefix + _LAST)
        with self._reading() as connection:
            found = connection and connection.execute(
                sa.select(_OBJECTS.c.name).where(chosen).order_by(_OBJECTS.c.name)
            )
            return [name for (name,) in found or ()]

    def put(self, objects: Mapping[str, bytes]) -> None:
        """Store objects, whatever has their names; they are on disk when the call returns."""
        if objects:
            insert = self._insert()
            insert = insert.on_conflict_do_update(
                index_elements=["name"], set_={"tag": insert.excluded.tag, "data": insert.excluded.data}
            )
            with self._writing() as connection:
                connection.execute(insert, [_as_row(name, objects[name]) for name in sorted(objects)])

    def put_new(self, objects: Mapping[str, bytes]) -> set[str]:
        """Store those of the objects whose names are free, and return these names."""
        if not objects:
            return set()
        insert = self._insert().on_conflict_do_nothing().returning(_OBJECTS.c.name)
        with self._writing() as connection:  # in order: two writers of the same names do not wait for one another
            rows = [_as_row(name, objects[name]) for name in sorted(objects)]
            return {row["name"] for row in rows if connection.execute(insert, row).first() is not None}

    def put_changed(self, name: str, data: bytes, tag: str) -> bool:
        """Replace an object if its tag is unchanged. Return False if the tag differs or the object does not exist."""
        same = (_OBJECTS.c.name == name) & (_OBJECTS.c.tag == tag)
        with self._writing() as connection:
            return bool(connection.execute(sa.update(_OBJECTS).where(same).values(**_as_row(name, data))).rowcount)

    def remove(self, names: Sequence[str]) -> None:
        """Remove those of the objects that are there."""
        with self._writing() as connection:
            for start in range(0, len(names), _AT_ONCE):
                connection.execute(sa.delete(_OBJECTS).where(_OBJECTS.c.name.in_(names[start : start + _AT_ONCE])))

    def close(self) -> None:
        """Close the connections; the store may be used again."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _insert(self) -> Any:
        return (sqlite if self._is_file else postgresql).insert(_OBJECTS)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection | None]:
        with self._translated():
            if self._is_file and not Path(str(self._url.database)).exists():
                yield None
                return
            with self._opened().connect() as connection:
                yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        # SQLite has one writer at a time: the threads of a process take turns here, not by looking again and again.
        with self._translated(), self._writer if self._is_file else nullcontext(), self._opened().begin() as connection:
            yield connection

    def _opened(self) -> sa.Engine:
        with self._lock:
            if self._engine is None:
                self._engine = _connect(self._url, is_file=self._is_file)
            return self._engine

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise UserError, without the URL's password, in place of errors of the database."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            message = " ".join(str(error.orig).split())[:200]
            for secret in [self._url.password, *(v for values in self._url.normalized_query.values() for v in values)]:
                message = message.replace(str(secret), "[redacted]") if secret else message
            raise UserError(self._stage, redact_url(self._url), message, self._next_step) from None
        except ImportError as error:
            next_step = "pip install -e '.[postgres]'"
            raise UserError(self._stage, redact_url(self._url), f"needs {error.name}", next_step) from None
        except OSError as error:
            next_step = "fix that, or choose another"
            raise UserError(self._stage, redact_url(self._url), str(error.strerror), next_step) from None


def parse_database_url(location: str | Path, stage: str) -> sa.URL:
    """Parse a file's path or a SQLAlchemy URL. Raises UserError for a URL of an unsupported database."""
    if isinstance(location, Path) or "://" not in location:
        return sa.URL.create("sqlite", database=str(location))
    scheme, _, rest = location.partition("://")
    driver = _DRIVERS.get(scheme.split("+")[0])
    if driver is None:
        raise UserError(stage, scheme, "is not a supported database for replies", "give a file or a postgresql:// URL")
    try:
        return sa.make_url(f"{driver}://{rest}")
    except (sa.exc.ArgumentError, ValueError):  # their texts hold the password
        raise UserError(stage, scheme, "the URL is invalid", "fix its host, port or characters") from None


def redact_url(url: sa.URL) -> str:
    """Return the URL without user, password and options."""
    return sa.URL.create(url.drivername, host=url.host, port=url.port, database=url.database).render_as_string()


def _connect(url: sa.URL, *, is_file: bool) -> sa.Engine:
    """Return an engine, and create the table where it is missing."""
    if is_file:
        if url.database:
            make_durable_folder(Path(url.database).parent)
        engine = sa.create_engine(url, connect_args={"timeout": _BUSY_SECONDS})
        sa.event.listen(engine, "connect", _make_durable)
    else:
        engine = sa.create_engine(url, pool_pre_ping=True)
    for attempt in range(20):  # several processes may create it at once
        try:
            with engine.begin() as connection:
                connection.execute(sa.schema.CreateTable(_OBJECTS, if_not_exists=True))
            break
        except sa.exc.DBAPIError as error:
            message = str(error.orig)
            if attempt == 19 or not ("locked" in message or "already exists" in message or "duplicate key" in message):
                engine.dispose()  # or its connection stays open as long as anybody holds the error
                raise
            time.sleep(0.05 * (attempt + 1))
    return engine


def _make_durable(connection: Any, _record: Any) -> None:
    """Set SQLite so that readers do not wait for writers, and commits survive a power failure."""
    for pragma in (f"busy_timeout={_BUSY_SECONDS * 1000}", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _as_row(name: str, data: bytes) -> dict[str, Any]:
    return {"name": name, "tag": hashlib.sha256(data).hexdigest(), "data": data}


Objects = DatabaseObjects | BucketObjects


def open_objects(location: str | Path) -> Objects:
    """Return the store at a path, a SQLAlchemy URL or the URL of a folder in object storage. Connects to nothing yet.
    Raises UserError for another URL."""
    if isinstance(location, str) and is_object_url(location):
        return BucketObjects(BucketFolder.parse(location))
    return DatabaseObjects(location)
