"""What was fetched, kept: a row per address and the bodies by digest, on disk before anything is made of them.

A body lies in a file named after its sha256, so that the same picture at two addresses is there once. Rows are in
SQLite; those of many threads are written in one go. A row without its body, or with another one, counts for nothing.
Failures have rows, too: a final one stands, a transient one is tried again by the next run and replayed offline.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from backends.durable_files import write_atomically
from backends.web.fetch_database import FetchDatabase, Statement, translate_write_errors
from backends.web.web_records import STOPPED, FailedFetch, FetchedResource, WebRequest

FetchOutcome = Literal["kept", "final", "transient", "blocked"]
_AT_ONCE = 500  # keys in one statement
_TABLES = """
create table if not exists fetches(
    key text primary key, kind text not null, url text not null, referer text not null, outcome text not null,
    reason text not null, detail text not null, final_url text not null, status integer not null,
    headers text not null, sha256 text not null, size integer not null, fetched_at text not null) without rowid;
create table if not exists looks(sha256 text not null, reader text not null, facts text not null,
    primary key(sha256, reader)) without rowid;
"""
_KEEP = f"insert or replace into fetches values({','.join('?' * 13)})"
# A body that is there is not given up for a failure; whatever else there was is replaced.
_UNLESS_KEPT = " where not exists(select 1 from fetches where key = ?1 and outcome = 'kept')"
_KEEP_FAILURE = f"insert or replace into fetches select {','.join(f'?{n}' for n in range(1, 14))}{_UNLESS_KEPT}"
_SAVE_FACTS = "insert or ignore into looks values(?,?,?)"


@dataclass(frozen=True, slots=True)
class StoredFetch:
    """What is known of one address. `fetched_at` is ISO 8601 in UTC; without a body sha256 is empty."""

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
    def result(self) -> FetchedResource | FailedFetch:
        """The outcome as the fetch gave it."""
        if self.outcome == "kept":
            return FetchedResource(self.final_url, self.status, self.headers, self.sha256, self.size)
        return FailedFetch(self.reason, self.outcome, self.detail)


@dataclass(slots=True)
class IncomingBody:
    """A file for a body that is being fetched; gone when it is closed, unless it was kept."""

    path: Path
    file: BinaryIO
    is_stored: bool = False

    def close(self) -> None:
        """To be called in any case."""
        self.file.close()
        if not self.is_stored:
            self.path.unlink(missing_ok=True)


class FetchToStore(NamedTuple):
    """A fetch to be kept. `body` is its bytes, or a file, which is taken over; `image_facts` what a reader saw in it,
    after the reader's name."""

    request: WebRequest
    result: FetchedResource | FailedFetch
    body: IncomingBody | bytes | None = None
    image_facts: tuple[str, dict[str, Any]] | None = None


def make_stored_fetch(request: WebRequest, result: FetchedResource | FailedFetch) -> StoredFetch:
    """A fetch of now, as it is kept."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    request_fields = (request.key, request.kind, request.url, request.referer)
    if isinstance(result, FailedFetch):
        return StoredFetch(*request_fields, result.kind, result.reason, result.detail, fetched_at=now)
    result_fields = {name: getattr(result, name) for name in result.__slots__}
    return StoredFetch(*request_fields, "kept", **result_fields, fetched_at=now)


class PageStore:
    """A folder: `fetches.sqlite`, and `bodies/` by digest. Nothing is created before the first fetch is kept; several
    threads and processes may use one store at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._incoming = folder / "incoming"
        self._rows = FetchDatabase(folder / "fetches.sqlite", _TABLES)

    def find(self, requests: Sequence[WebRequest]) -> dict[str, StoredFetch]:
        """What is known, by key; a body that is gone or not what it was is as if it had never been fetched."""
        fetches: dict[str, StoredFetch] = {}
        keys = list({request.key for request in requests})
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            for row in self._rows.read(f"select * from fetches where key in ({marks})", some):
                fields = dict(zip(StoredFetch.__slots__, row, strict=True))
                one = StoredFetch(**fields | {"headers": json.loads(row[9])})
                if one.outcome != "kept" or self._is_whole(one):
                    fetches[one.key] = one
        return fetches

    def save(
        self, request: WebRequest, result: FetchedResource | FailedFetch, body: bytes | None = None
    ) -> StoredFetch:
        """Keep a fetch and the bytes of its body, and return when they are on disk."""
        return self.save_all([FetchToStore(request, result, body)])[0]

    def save_all(self, arrivals: Sequence[FetchToStore]) -> list[StoredFetch]:
        """Keep several, and return when they are on disk. A fetch that was stopped is returned, but not kept."""
        kept = [make_stored_fetch(arrival.request, arrival.result) for arrival in arrivals]
        statements: list[Statement] = []
        with translate_write_errors():
            for arrival, one in zip(arrivals, kept, strict=True):
                if one.reason == STOPPED:
                    continue
                if arrival.body is not None:
                    self._keep_body(arrival.body, one.sha256)
                fields = (*(getattr(one, name) for name in one.__slots__[:9]), json.dumps(one.headers))
                row = (*map(_writable, fields), one.sha256, one.size, one.fetched_at)
                statements.append((_KEEP if one.outcome == "kept" else _KEEP_FAILURE, row))
                if arrival.image_facts is not None:
                    statements.append(
                        (_SAVE_FACTS, (one.sha256, arrival.image_facts[0], json.dumps(arrival.image_facts[1])))
                    )
            self._rows.write(statements)
        return kept

    def body_path(self, sha256: str) -> Path:
        """Where the body of that digest lies, if there is one."""
        return self.folder / "bodies" / sha256[:2] / sha256

    def read_body(self, sha256: str) -> bytes:
        """The bytes."""
        return self.body_path(sha256).read_bytes()

    def open_incoming_body(self) -> IncomingBody:
        """A new file for a body, to be closed."""
        with translate_write_errors():
            if not self._incoming.exists():
                self._incoming.mkdir(parents=True, exist_ok=True)
            path = self._incoming / secrets.token_hex(8)
            return IncomingBody(path, path.open("x+b"))

    def read_image_facts(self, digests: Iterable[str], reader: str) -> dict[str, dict[str, Any]]:
        """What a picture reader saw in bodies, by digest; `reader` names its version."""
        facts_by_digest: dict[str, dict[str, Any]] = {}
        wanted = sorted(set(digests))
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"select sha256, facts from looks where reader = ? and sha256 in ({marks})"
            facts_by_digest |= {sha256: json.loads(facts) for sha256, facts in self._rows.read(query, [reader, *some])}
        return facts_by_digest

    def save_image_facts(self, sha256: str, reader: str, facts: dict[str, Any]) -> None:
        """Keep what a reader of another version saw in a body that was there."""
        with translate_write_errors():
            self._rows.write([(_SAVE_FACTS, (sha256, reader, json.dumps(facts)))])

    def close(self) -> None:
        """Let go of the database; the store may be used again."""
        self._rows.close()

    def _keep_body(self, body: IncomingBody | bytes, sha256: str) -> None:
        target = self.body_path(sha256)
        if isinstance(body, bytes):
            write_atomically(target, body)
            return
        body.file.flush()
        os.fsync(body.file.fileno())
        try:
            body.path.replace(target)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            body.path.replace(target)
        body.is_stored = True

    def _is_whole(self, one: StoredFetch) -> bool:
        try:
            with self.body_path(one.sha256).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == one.sha256
        except OSError:
            return False


def fetches_digest(fetches: Iterable[StoredFetch]) -> str:
    """The digest of what a build used, whatever the order: addresses and what came of them, but no times."""
    lines = {f"{one.key} {one.outcome} {one.reason} {one.sha256}" for one in fetches}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _writable(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
