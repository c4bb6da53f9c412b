"""The folder of an audit, beside the versions of its set, and the keys and columns that are checked when it is read.

<set>/audits/<name>/pool.parquet    query_id, image_id, relevance (the set's, -1 without), best_rank, judge, reason,
                                        stratum
                    ranks.parquet   system, query_id, image_id, rank
                    sample.parquet  query_id, image_id, stratum, probability, order
                    cards.jsonl     in its place, of an audit until a goal: a line per round of cards, with the
                                        probability of a hit that was forecast; kept before anybody sees one
                    claims.json     which reviewer has which card at the moment
                    audit.json      the manifest, with the digests of the tables and its own
                    report.json     the last report, if one was made; report.html its page

The others are written once: in a folder of its own, which one rename puts in place.
"""

import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypedDict

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from querytruth.audit.pool import JsonRecord
from querytruth.backends.files import durable_files
from querytruth.backends.files.parquet_files import read_stated_table
from querytruth.backends.files.safe_paths import contained_path, read_regular
from querytruth.backends.files.text_formats import parse_bounded_json
from querytruth.errors import UserError, translate_read_errors, translate_write_errors
from querytruth.sets.benchmark_set import canonical_json, manifest_digest
from querytruth.sets.manifest import Digest
from querytruth.sets.manifest_notes import Count
from querytruth.sets.published_files import AUDITS_FOLDER

AUDIT_COLUMNS = {
    "pool": {"query_id": "text", "image_id": "text", "relevance": "number", "best_rank": "number", "stratum": "text"},
    "ranks": {"system": "text", "query_id": "text", "image_id": "text", "rank": "number"},
    "sample": {
        "query_id": "text",
        "image_id": "text",
        "stratum": "text",
        "probability": "number",
        "order": "number",
    },
}
REPORT_FILE, REPORT_PAGE_FILE = "report.json", "report.html"
CARDS_FILE, _CLAIMS_FILE = "cards.jsonl", "claims.json"
CARDS_UNIT: Final = "cards"  # `unit` of an audit until a goal
_MANIFEST_FILE = "audit.json"
_TABLES = ("pool", "ranks", "sample")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_STAGE = "read audit"


class AuditedSet(TypedDict):
    """`set`."""

    name: str
    version: Count
    content_digest: Digest


class AuditTable(TypedDict):
    """One of `files`."""

    rows: Count
    sha256: Digest


class AuditedSystem(TypedDict):
    """One of `systems`."""

    name: str
    digest: str


class OutsidePairs(TypedDict):
    """`outside`."""

    pairs: Count
    drawn: Count


class JudgeRecord(TypedDict):
    """`judge`: who judged with what. `prompts`: digests by file; `render`: how the images were; `digest`: of all these;
    `replies`: of its answers."""

    name: str
    revision: str
    parameters: dict[str, Any]
    prompts: dict[str, str]
    grades: list[int]
    form: NotRequired[Literal["grade", "yes", "pair"]]
    samples: NotRequired[Count]
    render: NotRequired[Any]
    digest: str
    replies: NotRequired[str]
    without_grade: NotRequired[Count]


class Stratum(TypedDict):
    """One of `strata`: a part of the pool."""

    stratum: str
    pairs: Count
    drawn: Count


class DrawnAudit(TypedDict):
    """The content that the id of an audit covers, besides the drawn pairs."""

    schema_version: Count
    name: str
    set: AuditedSet
    systems: list[AuditedSystem]
    judge: JudgeRecord | None
    depth: Count
    seed: int
    unit: Literal["pairs", "cards"]
    queries: Count
    strata: list[Stratum]
    outside: OutsidePairs
    goal: NotRequired[float]
    people: NotRequired[Count]


class AuditManifest(DrawnAudit):
    """audit.json. `files` and `manifest_digest` are stated where it is written."""

    audit_id: str
    files: dict[str, AuditTable]
    manifest_digest: str


@dataclass(frozen=True, slots=True)
class StoredAudit:
    """An audit on disk: its folder, manifest and tables."""

    path: Path
    manifest: AuditManifest
    pool: pd.DataFrame
    ranks: pd.DataFrame
    sample: pd.DataFrame


def audit_folder(set_folder: Path, name: str) -> Path:
    """Return the folder of an audit of the set at `set_folder`; it may be missing. Raises UserError for a name that no
    audit may have."""
    if not _NAME.fullmatch(name):
        raise UserError(
            "name audit", name, "is not a valid audit name", "use lower-case letters, digits, '.', '_', '-'"
        )
    return contained_path(set_folder, f"{AUDITS_FOLDER}/{name}", _STAGE)


def write_audit(folder: Path, manifest: AuditManifest, tables: dict[str, pd.DataFrame]) -> AuditManifest:
    """Write a new audit, whole or not at all; return its manifest with files and digest. `tables`: pool, ranks and
    sample. Raises UserError where it cannot be written."""
    staging = folder.with_name(f".start-{folder.name}")
    with translate_write_errors("start audit", folder):
        shutil.rmtree(staging, ignore_errors=True)
        durable_files.make_durable_folder(staging)
        try:
            whole = _write_tables(staging, manifest, tables)
            durable_files.sync_folder(staging)
            staging.rename(folder)
            durable_files.sync_folder(folder.parent)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    return whole


def _write_tables(folder: Path, manifest: AuditManifest, tables: dict[str, pd.DataFrame]) -> AuditManifest:
    """Write the tables, then the manifest that names them; return it."""
    files: dict[str, AuditTable] = {}
    for name in _TABLES:
        path = folder / f"{name}.parquet"
        durable_files.write_atomically(path, _encode(tables[name]))
        files[path.name] = {"rows": len(tables[name]), "sha256": durable_files.file_sha256(path)[0]}
    whole: AuditManifest = {**manifest, "files": files}
    whole["manifest_digest"] = manifest_digest(whole)
    durable_files.write_atomically(folder / _MANIFEST_FILE, canonical_json(whole))
    return whole


def read_audit(folder: Path) -> StoredAudit:
    """Read an audit. Raises UserError where it does not exist, or a file changed since it was written."""
    manifest = read_audit_manifest(folder)
    tables = {}
    for name in _TABLES:
        path = contained_path(folder, f"{name}.parquet", _STAGE)
        restore = "restore the file, or start another audit"
        if path.name not in manifest["files"]:
            raise UserError(_STAGE, path, "is not listed in the audit's manifest", restore)
        sha256 = manifest["files"][path.name]["sha256"]
        tables[name] = read_stated_table(folder, path.name, sha256, _STAGE, restore).to_pandas()
        if missing := _find_wrong_column(tables[name], AUDIT_COLUMNS[name]):
            raise UserError(_STAGE, path, f"is missing columns that an audit needs: {missing}", restore)
    if manifest["unit"] == CARDS_UNIT:
        tables["sample"] = read_cards(folder)
    return StoredAudit(folder, manifest, **tables)


def read_cards(folder: Path, *, lock: bool = True) -> pd.DataFrame:
    """Return the cards of an audit with a goal (the columns of a sample, and `forecast`), in the order in which they
    were planned. Without `lock`, the caller holds the lock. Raises UserError for a damaged file."""
    path = contained_path(folder, CARDS_FILE, _STAGE)
    restore = "restore the file, or start another audit"
    with translate_read_errors(_STAGE, path, restore, also=(ValueError, KeyError, TypeError)):
        lines = durable_files.read_lines(path, lock=lock)[0] if path.is_file() else []
        cards = [card for line in lines if line for card in parse_bounded_json(line)["cards"]]
        table = pd.DataFrame(cards, columns=[*AUDIT_COLUMNS["sample"], "forecast"])
        numbers = dict.fromkeys(("probability", "forecast"), "float64") | {"order": "int64"}
        return table.astype(dict.fromkeys(("query_id", "image_id", "stratum"), "str") | numbers)


@contextmanager
def lock_cards(folder: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Lock the cards of an audit for this process, and yield a function that appends a round of them: the round is on
    disk when it returns. Raises UserError where they cannot be written."""
    path = contained_path(folder, CARDS_FILE, "next cards")
    with translate_write_errors("next cards", path), durable_files.open_log(path, wait=True) as handle:
        yield lambda cards: durable_files.append_lines(
            handle, [json.dumps({"cards": cards.round(12).to_dict("records")})]
        )


def read_claims(folder: Path) -> dict[str, list[Any]]:
    """Return by pair which reviewer has its card, and since when; nothing where that was not kept."""
    try:
        return dict(parse_bounded_json(read_regular(folder / _CLAIMS_FILE)))
    except (OSError, ValueError, TypeError):
        return {}


def write_claims(folder: Path, claims: dict[str, list[Any]]) -> None:
    """Replace the claims."""
    durable_files.write_atomically(folder / _CLAIMS_FILE, canonical_json(claims))


def _find_wrong_column(table: pd.DataFrame, columns: dict[str, str]) -> str | None:
    """Return a column that is missing or of another type; None where all are there."""
    for name, kind in columns.items():
        if name not in table:
            return name
        column = table[name]
        if kind == "number" and column.dtype.kind not in "iuf":
            return name
        if kind == "text" and not column.map(lambda value: isinstance(value, str)).all():
            return name
    return None


def read_audit_manifest(folder: Path) -> AuditManifest:
    """Read the manifest of an audit. Raises UserError where it does not exist, or changed since it was written."""
    path = contained_path(folder, _MANIFEST_FILE, _STAGE)
    if not path.is_file():
        known = ", ".join(list_audits(folder.parent.parent)) or "none yet"
        reason = f"unknown audit of this set; known audits: {known}"
        raise UserError(_STAGE, folder.name, reason, "querytruth audit start SET --run RUN")
    with translate_read_errors(_STAGE, path, "restore the file", also=(ValueError, KeyError, TypeError)):
        manifest: AuditManifest = parse_bounded_json(read_regular(path))
        is_whole = manifest["manifest_digest"] == manifest_digest(manifest)
    if not is_whole:
        raise UserError(_STAGE, path, "changed since it was written", "restore the file, or start another audit")
    try:
        msgspec.convert(manifest, AuditManifest)
    except msgspec.ValidationError as error:
        reason = f"does not have the expected form: {str(error).replace('`$.', '`')[:300]}"
        raise UserError(_STAGE, path, reason, "request the audit again, or start another one") from None
    return manifest


def list_audits(set_folder: Path) -> list[str]:
    """Return the names of the audits of the set at `set_folder`, sorted."""
    return sorted(file.parent.name for file in (set_folder / AUDITS_FOLDER).glob(f"[!.]*/{_MANIFEST_FILE}"))


def write_audit_report(folder: Path, report: JsonRecord) -> Path:
    """Replace the report of an audit and return its file. Raises UserError where it cannot be written."""
    path = contained_path(folder, REPORT_FILE, "write report")
    with translate_write_errors("write report", path):
        durable_files.write_atomically(path, canonical_json(report))
        durable_files.sync_folder(folder)
    return path


def _encode(table: pd.DataFrame) -> bytes:
    texts = {name: pa.string() for name in table.columns if table[name].dtype.kind not in "iuf"}
    arrow = pa.table({name: pa.array(table[name], texts.get(name)) for name in table.columns})
    sink = io.BytesIO()
    pq.write_table(arrow, sink, compression="zstd")
    return sink.getvalue()
