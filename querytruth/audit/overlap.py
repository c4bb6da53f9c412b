"""What a set shares with other collections: pairs with evidence, and per query leaked or clean."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.audit import overlap_pairs, overlap_sources
from querytruth.backends.files import text_formats
from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.table_rows import TABLE_SUFFIXES
from querytruth.errors import UserError, translate_write_errors
from querytruth.sets import decision_log, leaked_queries
from querytruth.sets.benchmark_set import canonical_json, get_render_options
from querytruth.sets.decision_records import MAX_TEXT_CHARS, QueryDecision
from querytruth.sets.set_files import StoredSet, find_set, read_set

_NOT_SEARCHED = [
    "images that are cropped by more than about 5% an edge, rotated or drawn over",
    "paraphrases and translations of texts",
]


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
        """`pairs` and `queries` by name."""
        return {"pairs": self.pairs, "queries": self.queries}


def find_overlap(stored: StoredSet, against: Sequence[str], out: Path) -> OverlapResult:
    """Compares a set with other collections. Raises UserError for a collection that cannot be read."""
    tables, hashed = stored.tables, overlap_sources.hash_set_images(stored)
    images = overlap_pairs.ImageOverlap(hashed, overlap_sources.hash_set_crops(stored))
    texts = overlap_pairs.TextOverlap(dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True)))
    found = [pairs for one in against for pairs in _find_pairs(images, texts, one, out)]
    pairs = pd.concat(found, ignore_index=True)[["kind", "set_item", "against", *overlap_pairs.PAIR_COLUMNS[1:]]]
    pairs["distance"] = pd.to_numeric(pairs["distance"])  # a part without pairs has objects
    leaked = {kind: set(pairs.loc[pairs["kind"] == kind, "set_item"]) for kind in ("image", "text")}
    queries = leaked_queries.classify_queries(tables.queries, tables.qrels, leaked["image"], leaked["text"])
    mode = get_render_options(stored.manifest).get("mode")
    alone = overlap_pairs.count_bytes_alone(tables.images, hashed, mode)
    return OverlapResult(pairs, queries, images.count, alone)


def _find_pairs(
    images: overlap_pairs.ImageOverlap, texts: overlap_pairs.TextOverlap, against: str, out: Path
) -> Iterator[pd.DataFrame]:
    """Yields the pairs with one collection, of images and of texts. Raises UserError for one that has neither."""
    hashed, named = _open_collection(against, out)
    if hashed is not None:
        yield images.find_pairs(hashed).assign(kind="image", against=against)
    if named is not None:
        found = texts.find_pairs(named)
        yield pd.DataFrame(found, columns=overlap_pairs.PAIR_COLUMNS).assign(kind="text", against=against)


def _open_collection(against: str, out: Path) -> tuple[Iterable[pd.DataFrame] | None, Iterable[tuple[str, str]] | None]:
    """Returns the tables of images and the texts of a collection, None for what it has not. Raises UserError."""
    path = Path(against)
    if overlap_sources.is_set(against):
        other = read_set(find_set(against, out))
        queries = zip(other.tables.queries["query_id"], other.tables.queries["text"], strict=True)
        return [overlap_sources.hash_set_images(other)], queries
    if path.is_dir() or path.suffix in (".txt", ".lst"):
        return overlap_sources.hash_images(against), None
    if path.suffix not in TABLE_SUFFIXES:
        next_step = f"give one, or a file with one of {', '.join((*TABLE_SUFFIXES, '.txt'))}"
        raise UserError(overlap_sources.STAGE, against, "is no folder, set, table or list", next_step)
    if (column := overlap_sources.find_text_column(path)) is None:
        return overlap_sources.hash_images(against), None
    return None, overlap_sources.read_texts(path, column)


def summarize_overlap(stored: StoredSet, against: Sequence[str], result: OverlapResult) -> dict[str, Any]:
    """Returns the counts, for JSON."""
    pairs, queries = result.pairs, result.queries
    return {
        "schema_version": 1,
        "set": str(stored.path),
        "content_digest": stored.manifest["content_digest"],
        "against": list(against),
        "pairs": {name: int(count) for name, count in pairs["evidence"].value_counts().sort_index().items()},
        "queries": len(queries),
        "leaked": int((queries["overlap"] == "leaked").sum()),
        "leaked_by_image": int(queries["by_image"].sum()),
        "leaked_by_text": int(queries["by_text"].sum()),
        "images": len(stored.tables.images),
        "images_compared": result.images_compared,
        "by_bytes_alone": result.by_bytes_alone,
        "not_searched": _NOT_SEARCHED,
        "leaked_queries": queries.loc[queries["overlap"] == "leaked", "query_id"].tolist(),
    }


def write_overlap(folder: Path, tables: dict[str, pd.DataFrame], summary: dict[str, Any]) -> None:
    """Writes pairs.csv, queries.csv and overlap.json. Raises UserError."""
    for name, table in tables.items():
        text_formats.write_csv(folder / f"{name}.csv", table.columns, table.itertuples(index=False))
    with translate_write_errors("write overlap", folder):
        write_atomically(folder / leaked_queries.OVERLAP_FILE, canonical_json(summary))


def drop_leaked_queries(stored: StoredSet, queries: pd.DataFrame, against: Sequence[str], reviewer: str) -> int:
    """Appends a decision to drop each leaked query that none drops yet; returns how many. Raises UserError."""
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
