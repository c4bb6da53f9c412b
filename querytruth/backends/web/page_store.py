"""The store of fetches: a row per address and the bodies by digest, on disk before anything uses them.

A body is a file named by its sha256, so that the same image at two addresses is stored once. Rows are objects in
SQLite. A row without its body, or with a changed one, is ignored. Failures have rows, too: a final one stays, a
transient one is tried again by the next run and replayed offline.

    kept/<key>, failed/<key>     the last fetch of each kind: a failure never takes the place of a body
    facts/<reader>/<sha256>      what a reader saw in an image
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from querytruth.backends.files.durable_files import file_sha256, make_durable_folder, sync_folder
from querytruth.backends.web import web_records
from querytruth.errors import UserError

_MAX_ROW_BYTES = 1 << 20
FetchOutcome = Literal["kept", "final", "transient", "blocked"]


@contextmanager
def translate_write_errors() -> Iterator[None]:
    """Raise StoreWriteError with the system's message for a full disk or a read-only folder."""
    try:
        yield
    except UserError as error:
        raise web_records.StoreWriteError(error.reason) from error
    except OSError as error:
        raise web_records.StoreWriteError(error.strerror or str(error)) from error


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
    def result(self) -> web_records.FetchResult:
        """Return the result of the fetch."""
        if self.outcome == "kept":
            return web_records.FetchedResource(self.final_url, self.status, self.headers, self.sha256, self.size)
        return web_records.FailedFetch(self.reason, self.outcome, self.detail)


@dataclass(slots=True)
class IncomingBody:
    """A file for a body that is being fetched; removed by `close` unless it was stored."""

    path: Path
    file: BinaryIO
    is_stored: bool = False

    def close(self) -> None:
        """Close the file; must be called in any case."""
        self.file.close()
        if not self.is_stored:
            self.path.unlink(missing_ok=True)


class FetchToStore(NamedTuple):
    """A fetch to store. `body`: a file that the store takes over; `image_facts`: a reader's name and its facts."""

    request: web_records.WebRequest
    result: web_records.FetchResult
    body: IncomingBody | None = None
    image_facts: tuple[str, dict[str, Any]] | None = None


def make_stored_fetch(request: web_records.WebRequest, result: web_records.FetchResult) -> StoredFetch:
    """Return the row of a fetch that ended now."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    request_fields = (request.key, request.kind, request.url, request.referer)
    if isinstance(result, web_records.FailedFetch):
        return StoredFetch(*request_fields, result.kind, result.reason, result.detail, fetched_at=now)
    result_fields = {name: getattr(result, name) for name in result.__slots__}
    return StoredFetch(*request_fields, "kept", **result_fields, fetched_at=now)


class PageStore:
    """A folder with `fetches.sqlite` and `bodies/` by digest. Nothing is created before the first fetch is stored;
    several threads and processes may use one store at a time."""

    def __init__(self, folder: Path) -> None:
        from querytruth.backends.files.object_store import DatabaseObjects  # most builds fetch nothing

        self.folder = folder.absolute()  # worker processes, which outlive a change of directory, read the bodies
        self._incoming = self.folder / "incoming"
        self._rows = DatabaseObjects(self.folder / "fetches.sqlite", "fetch")

    def find(self, requests: Sequence[web_records.WebRequest]) -> dict[str, StoredFetch]:
        """Return the stored fetches by key, without those whose body is missing or changed."""
        keys = list({request.key for request in requests})
        rows = self._read([f"{kind}/{key}" for key in keys for kind in ("kept", "failed")])
        found = (rows.get(f"kept/{key}") or rows.get(f"failed/{key}") for key in keys)
        fetches = [StoredFetch(**row) for row in found if row is not None]
        return {one.key: one for one in fetches if one.outcome != "kept" or self._is_whole(one)}

    def save(self, request: web_records.WebRequest, result: web_records.FetchResult, body: bytes = b"") -> StoredFetch:
        """Store a fetch, and the body of a successful one; both are on disk when the call returns. Raises
        StoreWriteError."""
        if isinstance(result, web_records.FailedFetch):
            return self.save_all([FetchToStore(request, result)])[0]
        incoming = self.open_incoming_body()
        try:
            with translate_write_errors():
                incoming.file.write(body)
            return self.save_all([FetchToStore(request, result, incoming)])[0]
        finally:
            incoming.close()

    def save_all(self, arrivals: Sequence[FetchToStore]) -> list[StoredFetch]:
        """Store several fetches like `save`. A stopped fetch is returned but not stored."""
        kept = [make_stored_fetch(arrival.request, arrival.result) for arrival in arrivals]
        rows: dict[str, bytes] = {}
        changed_folders: set[Path] = set()
        with translate_write_errors():
            for arrival, one in zip(arrivals, kept, strict=True):
                if one.reason == web_records.STOPPED:
                    continue
                if arrival.body is not None:
                    changed_folders.add(self._keep_body(arrival.body, one.sha256))
                kind = "kept" if one.outcome == "kept" else "failed"
                rows[f"{kind}/{one.key}"] = _as_json({name: _writable(value) for name, value in asdict(one).items()})
                if arrival.image_facts is not None:
                    reader, facts = arrival.image_facts
                    rows[f"facts/{reader}/{one.sha256}"] = _as_json(facts)
            for folder in changed_folders:
                sync_folder(folder)
            self._rows.put(rows)
        return kept

    def body_path(self, sha256: str) -> Path:
        """Return the path of the body with this digest; the file may be missing."""
        return self.folder / "bodies" / sha256[:2] / sha256

    def read_body(self, sha256: str) -> bytes:
        """Return the bytes of a body. Raises OSError where it is missing."""
        return self.body_path(sha256).read_bytes()

    def open_incoming_body(self) -> IncomingBody:
        """Return a new file for a body; the caller closes it. Raises StoreWriteError."""
        with translate_write_errors():
            make_durable_folder(self._incoming)
            path = self._incoming / secrets.token_hex(8)
            return IncomingBody(path, path.open("x+b"))

    def read_image_facts(self, digests: Iterable[str], reader: str) -> dict[str, dict[str, Any]]:
        """Return the image facts of bodies by digest; `reader` names the reader's version."""
        rows = self._read([f"facts/{reader}/{sha256}" for sha256 in sorted(set(digests))])
        return {name.rpartition("/")[2]: facts for name, facts in rows.items()}

    def save_image_facts(self, sha256: str, reader: str, facts: dict[str, Any]) -> None:
        """Store the image facts of a body. Raises StoreWriteError."""
        with translate_write_errors():
            self._rows.put({f"facts/{reader}/{sha256}": _as_json(facts)})

    def close(self) -> None:
        """Close the database; the store may be used again."""
        self._rows.close()

    def _read(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        with translate_write_errors():
            return {name: json.loads(one.data) for name, one in self._rows.read(names, _MAX_ROW_BYTES).items()}

    def _keep_body(self, body: IncomingBody, sha256: str) -> Path:
        """Store the bytes of a body, and return the folder that must be synced."""
        target = self.body_path(sha256)
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
    """Return the digest of fetches in any order: keys, outcomes, reasons and bodies, but no times."""
    lines = {f"{one.key} {one.outcome} {one.reason} {one.sha256}" for one in fetches}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _as_json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def _writable(value: object) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
