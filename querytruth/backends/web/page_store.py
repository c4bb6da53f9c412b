"""The store of fetches: a row per address and the bodies by digest, on disk before anything uses them.

A body is a file named by its sha256, so that the same image at two addresses is stored once. Rows are in SQLite; those
of many threads are written together. A row without its body, or with a changed one, is ignored. Failures have rows,
too: a final one stays, a transient one is tried again by the next run and replayed offline.

The store's SQLite database: durable, and with the writes of many threads in one transaction.
"""

import hashlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from querytruth.backends.files.durable_files import file_sha256, make_durable_folder, sync_folder, write_atomically
from querytruth.backends.web.web_records import (
    STOPPED,
    FailedFetch,
    FetchedResource,
    FetchResult,
    StoreWriteError,
    WebRequest,
)

Statement = tuple[str, tuple[Any, ...]]
_BUSY_SECONDS = 60
_AT_ONCE = 500  # keys in one statement
FetchOutcome = Literal["kept", "final", "transient", "blocked"]
_TABLES = """
create table if not exists fetches(
    key text primary key, kind text not null, url text not null, referer text not null, outcome text not null,
    reason text not null, detail text not null, final_url text not null, status integer not null,
    headers text not null, sha256 text not null, size integer not null, fetched_at text not null) without rowid;
create table if not exists looks(sha256 text not null, reader text not null, facts text not null,
    primary key(sha256, reader)) without rowid;
"""
_KEEP = f"insert or replace into fetches values({','.join('?' * 13)})"
# A failure replaces any row except one with a body.
_UNLESS_KEPT = " where not exists(select 1 from fetches where key = ?1 and outcome = 'kept')"
_KEEP_FAILURE = f"insert or replace into fetches select {','.join(f'?{n}' for n in range(1, 14))}{_UNLESS_KEPT}"
_SAVE_FACTS = "insert or ignore into looks values(?,?,?)"


class FetchDatabase:
    """One connection for all threads; `tables` is the SQL that creates the tables, before the first write."""

    def __init__(self, path: Path, tables: str) -> None:
        self._path, self._tables = path, tables
        self._lock, self._waiting_lock = threading.RLock(), threading.Lock()
        self._waiting: list[Statement] = []
        self._written, self._taken = 0, 0
        self._connection: sqlite3.Connection | None = None

    def read(self, query: str, keys: Sequence[str], *values: str) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of a query with `values`, which ends with a column `in` the keys; none where there is no
        database yet. Raises StoreWriteError."""
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            with self._lock:
                if self._connection is None and not self._path.exists():
                    return
                with translate_write_errors():
                    rows = self._opened().execute(f"{query} ({','.join('?' * len(some))})", [*values, *some]).fetchall()
            yield from rows

    def write(self, statements: Sequence[Statement]) -> None:
        """Writes the statements, together with those of waiting threads; they are on disk when the call returns."""
        with self._waiting_lock:
            self._waiting += statements
            self._taken += len(statements)
            mine = self._taken
        with self._lock:
            if self._written >= mine:
                return
            with self._waiting_lock:
                batch, self._waiting = self._waiting, []
            try:
                connection = self._opened()
                with connection:
                    connection.execute("begin immediate")
                    for statement, row in batch:
                        connection.execute(statement, row)
            except BaseException:
                with self._waiting_lock:  # the waiting threads try again and get the error, too
                    self._waiting[:0] = batch
                raise
            self._written += len(batch)

    def close(self) -> None:
        """Closes the connection; the next call opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            make_durable_folder(self._path.parent)
            options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
            self._connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, **options)
            for pragma in ("journal_mode=wal", "synchronous=full"):
                self._connection.execute(f"pragma {pragma}")
            self._connection.executescript(self._tables)
        return self._connection


@contextmanager
def translate_write_errors() -> Iterator[None]:
    """Raises StoreWriteError with the system's message for a full disk or a read-only folder."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreWriteError(str(error)) from error
    except OSError as error:
        raise StoreWriteError(error.strerror or str(error)) from error


@dataclass(frozen=True, slots=True)
class StoredFetch:
    """The stored row of one address. `fetched_at` is ISO 8601 in UTC; `sha256` is empty without a body."""

    key: str
    kind: str
    url: str
    referer: str
    outcome: FetchOutcome
    reason: str = ""
    detail: str = ""
    final_url: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    sha256: str = ""
    size: int = 0
    fetched_at: str = ""

    @property
    def result(self) -> FetchResult:
        """The result of the fetch."""
        if self.outcome == "kept":
            return FetchedResource(self.final_url, self.status, self.headers, self.sha256, self.size)
        return FailedFetch(self.reason, self.outcome, self.detail)


@dataclass(slots=True)
class IncomingBody:
    """A file for a body that is being fetched; removed by `close` unless it was stored."""

    path: Path
    file: BinaryIO
    is_stored: bool = False

    def close(self) -> None:
        """Closes the file; must be called in any case."""
        self.file.close()
        if not self.is_stored:
            self.path.unlink(missing_ok=True)


class FetchToStore(NamedTuple):
    """A fetch to store. `body` is its bytes, or a file, which the store takes over; `image_facts` is a reader's name
    and what it read."""

    request: WebRequest
    result: FetchResult
    body: IncomingBody | bytes | None = None
    image_facts: tuple[str, dict[str, Any]] | None = None


def make_stored_fetch(request: WebRequest, result: FetchResult) -> StoredFetch:
    """Returns the row of a fetch that ended now."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    request_fields = (request.key, request.kind, request.url, request.referer)
    if isinstance(result, FailedFetch):
        return StoredFetch(*request_fields, result.kind, result.reason, result.detail, fetched_at=now)
    result_fields = {name: getattr(result, name) for name in result.__slots__}
    return StoredFetch(*request_fields, "kept", **result_fields, fetched_at=now)


class PageStore:
    """A folder with `fetches.sqlite` and `bodies/` by digest. Nothing is created before the first fetch is stored;
    several threads and processes may use one store at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()  # worker processes, which outlive a change of directory, read the bodies
        self._incoming = self.folder / "incoming"
        self._rows = FetchDatabase(self.folder / "fetches.sqlite", _TABLES)

    def find(self, requests: Sequence[WebRequest]) -> dict[str, StoredFetch]:
        """Returns the stored fetches by key, without those whose body is missing or changed."""
        fetches: dict[str, StoredFetch] = {}
        for row in self._rows.read("select * from fetches where key in", list({request.key for request in requests})):
            fields = dict(zip(StoredFetch.__slots__, row, strict=True))
            one = StoredFetch(**fields | {"headers": json.loads(row[9])})
            if one.outcome != "kept" or self._is_whole(one):
                fetches[one.key] = one
        return fetches

    def save(self, request: WebRequest, result: FetchResult, body: bytes = b"") -> StoredFetch:
        """Stores a fetch, and the body of a successful one; both are on disk when the call returns. Raises
        StoreWriteError."""
        return self.save_all([FetchToStore(request, result, None if isinstance(result, FailedFetch) else body)])[0]

    def save_all(self, arrivals: Sequence[FetchToStore]) -> list[StoredFetch]:
        """Stores several, as `save` does. A fetch that was stopped is returned, but not stored."""
        kept = [make_stored_fetch(arrival.request, arrival.result) for arrival in arrivals]
        statements: list[Statement] = []
        changed_folders: set[Path] = set()
        with translate_write_errors():
            for arrival, one in zip(arrivals, kept, strict=True):
                if one.reason == STOPPED:
                    continue
                if arrival.body is not None:
                    changed_folders.add(self._keep_body(arrival.body, one.sha256))
                fields = asdict(one) | {"headers": json.dumps(one.headers)}
                row = tuple(map(_writable, fields.values()))
                statements.append((_KEEP if one.outcome == "kept" else _KEEP_FAILURE, row))
                if arrival.image_facts is not None:
                    reader, facts = arrival.image_facts
                    statements.append((_SAVE_FACTS, (one.sha256, reader, json.dumps(facts))))
            for folder in changed_folders:
                sync_folder(folder)
            self._rows.write(statements)
        return kept

    def find_stored_digests(self, digests: Sequence[str]) -> set[str]:
        """Returns those of the digests of bodies that a stored fetch names."""
        wanted, rows = set(digests), self._rows.read("select key, sha256 from fetches where outcome in", ["kept"])
        return {row[1] for row in rows} & wanted

    def body_path(self, sha256: str) -> Path:
        """Returns the path of the body with that digest, which may be missing."""
        return self.folder / "bodies" / sha256[:2] / sha256

    def read_body(self, sha256: str) -> bytes:
        """Returns the bytes of a body. Raises OSError where it is missing."""
        return self.body_path(sha256).read_bytes()

    def open_incoming_body(self) -> IncomingBody:
        """Returns a new file for a body, which the caller closes. Raises StoreWriteError."""
        with translate_write_errors():
            if not self._incoming.exists():
                self._incoming.mkdir(parents=True, exist_ok=True)
            path = self._incoming / secrets.token_hex(8)
            return IncomingBody(path, path.open("x+b"))

    def read_image_facts(self, digests: Iterable[str], reader: str) -> dict[str, dict[str, Any]]:
        """Returns the image facts of bodies by digest; `reader` names the reader's version."""
        query = "select sha256, facts from looks where reader = ? and sha256 in"
        rows = self._rows.read(query, sorted(set(digests)), reader)
        return {sha256: json.loads(facts) for sha256, facts in rows}

    def save_image_facts(self, sha256: str, reader: str, facts: dict[str, Any]) -> None:
        """Stores the image facts of a body. Raises StoreWriteError."""
        with translate_write_errors():
            self._rows.write([(_SAVE_FACTS, (sha256, reader, json.dumps(facts)))])

    def close(self) -> None:
        """Closes the database; the store may be used again."""
        self._rows.close()

    def _keep_body(self, body: IncomingBody | bytes, sha256: str) -> Path:
        """Stores the bytes of a body, and returns the folder that must be synced."""
        target = self.body_path(sha256)
        if isinstance(body, bytes):
            make_durable_folder(target.parent)
            write_atomically(target, body)
            return target.parent
        body.file.flush()
        os.fsync(body.file.fileno())
        try:
            body.path.replace(target)
        except FileNotFoundError:
            make_durable_folder(target.parent)
            body.path.replace(target)
        body.is_stored = True
        return target.parent

    def _is_whole(self, one: StoredFetch) -> bool:
        try:
            return file_sha256(self.body_path(one.sha256))[0] == one.sha256
        except OSError:
            return False


def fetches_digest(fetches: Iterable[StoredFetch]) -> str:
    """Returns the digest of fetches in any order: keys, outcomes, reasons and bodies, but no times."""
    lines = {f"{one.key} {one.outcome} {one.reason} {one.sha256}" for one in fetches}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _writable(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
