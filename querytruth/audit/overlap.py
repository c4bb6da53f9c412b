"""What a set shares with other collections (folders, tables, other sets): pairs with evidence, and per query leaked or
clean.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from querytruth.audit import overlap_pairs
from querytruth.backends.files import text_formats
from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.table_rows import TABLE_SUFFIXES, iterate_rows, read_columns
from querytruth.backends.images import image_sources, worker_starts
from querytruth.backends.images.image_reading import read_image
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.steps import current_run
from querytruth.errors import UserError, translate_write_errors
from querytruth.sets import decision_log, leaked_queries
from querytruth.sets.benchmark_set import canonical_json, get_render_options
from querytruth.sets.decision_records import MAX_TEXT_CHARS, QueryDecision
from querytruth.sets.published_files import newest_version
from querytruth.sets.set_files import StoredSet, find_set, locate_images, read_set

_NOT_SEARCHED = [
    "small crops of images, and rotated ones",
    "paraphrases and translations of texts",
]
_STAGE = "find overlap"
_HASHES_SCHEMA = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        ("sha256", pa.string()),
        ("pixels", pa.string()),
        ("views", pa.binary()),
        ("thumbnail", pa.binary()),
        ("details", pa.binary()),
    ]
)
_DIGEST_SCHEMA = pa.schema([("item", pa.string()), ("sha256", pa.string())])
_BATCH = 5_000  # images of a folder whose hashes are compared at once
_TEXT_COLUMNS = ("text", "caption")


@dataclass(frozen=True, slots=True)
class OverlapResult:
    """`pairs` (kind, set_item, against, other_item, evidence, distance in bits) and `queries` (query_id, overlap,
    by_image, by_text); how many images of the set were compared, and how many by their bytes alone, by reason."""

    pairs: pd.DataFrame
    queries: pd.DataFrame
    images_compared: int
    by_bytes_alone: dict[str, int]

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Return `pairs` and `queries` by name."""
        return {"pairs": self.pairs, "queries": self.queries}


def find_overlap(stored: StoredSet, against: Sequence[str], out: Path) -> OverlapResult:
    """Compare a set with other collections. Raises UserError for a collection that cannot be read."""
    tables, hashed = stored.tables, hash_set_images(stored)
    images = overlap_pairs.ImageOverlap(hashed)
    texts = overlap_pairs.TextOverlap(dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True)))
    opened = {one: _open_collection(one, out) for one in against}
    found = [pairs for one, parts in opened.items() for pairs in _find_pairs(images, texts, one, *parts)]
    pairs = pd.concat(found, ignore_index=True)[["kind", "set_item", "against", *overlap_pairs.PAIR_COLUMNS[1:]]]
    pairs["distance"] = pd.to_numeric(pairs["distance"])  # a part without pairs has objects
    leaked = {kind: set(pairs.loc[pairs["kind"] == kind, "set_item"]) for kind in ("image", "text")}
    alone = overlap_pairs.find_bytes_alone(tables.images, hashed, get_render_options(stored.manifest).get("mode"))
    unseen = set(alone.index) if any(hashed is not None for hashed, _ in opened.values()) else set()
    queries = leaked_queries.classify_queries(tables.queries, tables.qrels, leaked["image"], leaked["text"], unseen)
    counts = {str(name): int(count) for name, count in alone.value_counts().sort_index().items()}
    return OverlapResult(pairs, queries, images.count, counts)


def _find_pairs(
    images: overlap_pairs.ImageOverlap,
    texts: overlap_pairs.TextOverlap,
    against: str,
    hashed: Iterable[pd.DataFrame] | None,
    named: Iterable[tuple[str, str]] | None,
) -> Iterator[pd.DataFrame]:
    """Yield the pairs with one collection, of images and of texts."""
    if hashed is not None:
        yield images.find_pairs(hashed).assign(kind="image", against=against)
    if named is not None:
        found = texts.find_pairs(named)
        yield pd.DataFrame(found, columns=overlap_pairs.PAIR_COLUMNS).assign(kind="text", against=against)


def _open_collection(against: str, out: Path) -> tuple[Iterable[pd.DataFrame] | None, Iterable[tuple[str, str]] | None]:
    """Return the table of images and the texts of a collection, each None where it has none. Raises UserError."""
    path = Path(against)
    if is_set(against):
        other = read_set(find_set(against, out))
        queries = zip(other.tables.queries["query_id"], other.tables.queries["text"], strict=True)
        return [hash_set_images(other)], queries
    if path.is_dir() or path.suffix in (".txt", ".lst"):
        return hash_images(against), None
    if path.suffix not in TABLE_SUFFIXES:
        next_step = f"give a folder of images, or a file with one of {', '.join((*TABLE_SUFFIXES, '.txt'))}"
        raise UserError(_STAGE, against, "is not a folder, a set, a table or a list", next_step)
    if (column := find_text_column(path)) is None:
        return hash_images(against), None
    return None, read_texts(path, column)


def summarize_overlap(stored: StoredSet, against: Sequence[str], result: OverlapResult) -> dict[str, Any]:
    """Return the counts, for JSON."""
    pairs, queries = result.pairs, result.queries
    return {
        "schema_version": 1,
        "set": str(stored.path),
        "content_digest": stored.manifest["content_digest"],
        "against": list(against),
        "pairs": {name: int(count) for name, count in pairs["evidence"].value_counts().sort_index().items()},
        "queries": len(queries),
        "leaked": int((queries["overlap"] == "leaked").sum()),
        "leaked_by_image": int((queries["images_shared"] > 0).sum()),
        "leaked_by_text": int(queries["by_text"].sum()),
        "images": len(stored.tables.images),
        "images_compared": result.images_compared,
        "by_bytes_alone": result.by_bytes_alone,
        "not_searched": _NOT_SEARCHED,
        "queries_by_overlap": {
            str(status): part["query_id"].tolist() for status, part in queries.groupby("overlap") if status != "clean"
        },
    }


def write_overlap(folder: Path, tables: dict[str, pd.DataFrame], summary: dict[str, Any]) -> None:
    """Write pairs.csv, queries.csv and overlap.json. Raises UserError."""
    for name, table in tables.items():
        text_formats.write_csv(folder / f"{name}.csv", table.columns, table.itertuples(index=False))
    with translate_write_errors("write overlap", folder):
        write_atomically(folder / leaked_queries.OVERLAP_FILE, canonical_json(summary))


def drop_leaked_queries(stored: StoredSet, queries: pd.DataFrame, against: Sequence[str], reviewer: str) -> int:
    """Append a decision to drop each leaked query that none drops yet; return how many. Raises UserError."""
    folder = stored.path.parent
    known = decision_log.load_decisions(folder, QueryDecision)
    dropped = {name for (name, image), one in known.items() if image is None and one.decision == "drop"}
    texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
    leaked = [name for name in queries.loc[queries["overlap"] == "leaked", "query_id"] if name not in dropped]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    note = f"leaked: {', '.join(Path(one).name for one in against)}"[:MAX_TEXT_CHARS]
    decision_log.append_decisions(
        folder,
        [
            QueryDecision(name, texts[name], "drop", note=note, reviewer=reviewer, view="overlap", at=at)
            for name in leaked
        ],
    )
    return len(leaked)


def is_set(against: str) -> bool:
    """Return whether a collection is a set: its folder, a version of it, or a name that is not a path."""
    path = Path(against)
    return (path / "manifest.json").is_file() or newest_version(path) is not None or not path.exists()


def hash_set_images(stored: StoredSet) -> pd.DataFrame:
    """Return _HASHES_SCHEMA of the images of a set that can be read; and a row with the sha256 alone for each source
    file that the set's own copy is not the same as: a rendered image has other bytes."""
    located = [(one.image_id, one.location) for one in locate_images(stored) if one.location is not None]
    hashed = _hash_files(located, Counter())
    images = stored.tables.images
    sources = _to_frame(pa.table({"item": images["image_id"], "sha256": images["sha256"]}).cast(_DIGEST_SCHEMA))
    sources = sources.dropna()
    is_new = ~pd.MultiIndex.from_frame(sources).isin(pd.MultiIndex.from_frame(hashed[_DIGEST_SCHEMA.names]))
    own = _to_frame(pa.Table.from_pylist(sources[is_new].to_dict("records"), _HASHES_SCHEMA))
    return pd.concat([hashed, own], ignore_index=True)


def list_images(images: str) -> list[tuple[str, str]]:
    """Return (item, place) of the images of a folder, a list or a table. Raises UserError for anything else."""
    source = image_sources.open_source(images)
    items = source.list_items().items.to_pylist()
    located = zip(items, source.locate_all(items), strict=True)
    return [(item, place) for item, place in located if isinstance(place, str)]


def hash_images(images: str) -> Iterator[pd.DataFrame]:
    """Yield _HASHES_SCHEMA of the images of a folder, a list or a table that can be read, in batches, and reports why
    others were not. Raises UserError where none can be read."""
    located, count, skipped = list_images(images), 0, Counter[str]()
    for start in range(0, len(located), _BATCH):
        table = _hash_files(located[start : start + _BATCH], skipped)
        count += len(table)
        yield table
    if not count:
        raise UserError(_STAGE, images, "contains no readable image", "give a folder of images")
    if skipped:
        reasons = ", ".join(f"{reason} {number:,}" for reason, number in sorted(skipped.items()))
        current_run().reporter.log(f"{images}: not compared: {reasons}")


def _hash_files(located: Sequence[tuple[str, str]], skipped: Counter[str]) -> pd.DataFrame:
    """Return _HASHES_SCHEMA of the files that can be read, and count in `skipped` why others are not."""
    scanned = map_in_workers(read_image, [location for _, location in located])
    rows = []
    for (item, _), one in zip(located, scanned, strict=True):
        if (
            isinstance(one, worker_starts.WorkerFailure) or one.sha256 is None
        ):  # a damaged JPEG has all that is compared
            skipped[str(one.reason)] += 1
            continue
        rows.append({name: getattr(one, name, item) for name in _HASHES_SCHEMA.names})
    return _to_frame(pa.Table.from_pylist(rows, _HASHES_SCHEMA))


def _to_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table of hashes as a frame; hashes that are missing stay whole numbers."""
    unsigned = {pa.uint64(): pd.UInt64Dtype()}
    return table.to_pandas(types_mapper=unsigned.get)


def find_text_column(file: Path) -> str | None:
    """Return the column of captions that a table has, or None."""
    columns = read_columns(file, _STAGE)
    text_formats.refuse_repeated_columns(_STAGE, file, columns, _TEXT_COLUMNS)
    return next((name for name in _TEXT_COLUMNS if name in columns), None)


def read_texts(file: Path, column: str) -> Iterator[tuple[str, str]]:
    """Yield (`row N`, text) of a table of captions; holds one batch of rows in memory. Raises UserError."""
    for number, (_, row) in enumerate(iterate_rows(file, [column], stage=_STAGE), start=1):
        if isinstance(row[column], str):
            yield f"row {number}", row[column]
