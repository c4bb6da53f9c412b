"""What a set shares with other collections: pairs with evidence, and per query leaked or clean."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors
from backends.sets.decision_log import append_decisions, load_decisions
from backends.sets.overlap_files import OVERLAP_FILE
from backends.sets.set_files import StoredSet, find_set, newest_version, read_set
from backends.sources.shard_files import find_shards
from backends.spreadsheet_csv import write_csv
from builders.benchmark_set import canonical_json
from builders.decisions.records import MAX_TEXT_CHARS, QueryDecision
from builders.errors import UserError
from builders.overlap.image_pairs import PAIR_COLUMNS, ImageOverlap
from builders.overlap.leaked_queries import classify_queries
from builders.overlap.text_pairs import TextOverlap
from flows.overlap_shards import ReadCounts, iterate_captions
from flows.overlap_sources import (
    STAGE,
    find_text_column,
    has_pdq,
    hash_images,
    hash_set_crops,
    hash_set_images,
    is_index,
    list_images,
    no_image_error,
    read_index,
    read_texts,
    report_skipped,
)

NOT_SEARCHED = [
    "images that are cropped by more than about 5% an edge, rotated or drawn over",
    "paraphrases and translations of texts",
]


def find_overlap(
    stored: StoredSet, against: Sequence[str], out: Path, with_pdq: bool
) -> tuple[dict[str, pd.DataFrame], int]:
    """Returns `pairs` (kind, set_item, against, other_item, evidence, distance) and `queries` (query_id, overlap,
    by_image, by_text), and how many images of the set could be read. Raises UserError for a collection that cannot, and
    for an index without PDQ hashes if these are wanted."""
    texts = TextOverlap(dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True)))
    indices = [Path(one) for one in against if Path(one).is_file() and is_index(Path(one))]
    lacking = next((file for file in indices if with_pdq and not has_pdq(file)), None)
    if lacking is not None:
        raise UserError(STAGE, lacking, "has no PDQ hashes", "leave out --hash pdq, or index the images with it")
    with_pdq = with_pdq or any(has_pdq(file) for file in indices)
    images = ImageOverlap(hash_set_images(stored, with_pdq), hash_set_crops(stored))
    found = [pairs for one in against for pairs in _find_pairs(images, texts, one, out, with_pdq)]
    pairs = pd.concat(found, ignore_index=True)[["kind", "set_item", "against", *PAIR_COLUMNS[1:]]]
    leaked = {kind: set(pairs.loc[pairs["kind"] == kind, "set_item"]) for kind in ("image", "text")}
    queries = classify_queries(stored.tables.queries, stored.tables.qrels, leaked["image"], leaked["text"])
    return {"pairs": pairs, "queries": queries}, images.count


def summarize_overlap(
    stored: StoredSet, against: Sequence[str], tables: dict[str, pd.DataFrame], compared: int
) -> dict[str, Any]:
    """Returns the counts, for JSON."""
    pairs, queries = tables["pairs"], tables["queries"]
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
        "images_compared": compared,
        "not_searched": NOT_SEARCHED,
        "leaked_queries": queries.loc[queries["overlap"] == "leaked", "query_id"].tolist(),
    }


def write_overlap(folder: Path, tables: dict[str, pd.DataFrame], summary: dict[str, Any]) -> None:
    """Writes pairs.csv, queries.csv and overlap.json. Raises UserError."""
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table.columns, table.itertuples(index=False))
    with translate_write_errors("write overlap", folder):
        write_atomically(folder / OVERLAP_FILE, canonical_json(summary))


def drop_leaked_queries(stored: StoredSet, queries: pd.DataFrame, against: Sequence[str], reviewer: str) -> int:
    """Appends a decision to drop each leaked query that none drops yet; returns how many. Raises UserError."""
    folder = stored.path.parent
    known = load_decisions(folder, QueryDecision)
    dropped = {name for (name, image), one in known.items() if image is None and one.decision == "drop"}
    texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
    leaked = [name for name in queries.loc[queries["overlap"] == "leaked", "query_id"] if name not in dropped]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    note = f"leaked: {', '.join(Path(one).name for one in against)}"[:MAX_TEXT_CHARS]
    append_decisions(
        folder,
        [
            QueryDecision(name, texts[name], "drop", note=note, reviewer=reviewer, view="overlap", at=at)
            for name in leaked
        ],
    )
    return len(leaked)


def _find_pairs(
    images: ImageOverlap, texts: TextOverlap, against: str, out: Path, with_pdq: bool
) -> Iterator[pd.DataFrame]:
    """Yields the pairs with one collection, of images and of texts. Raises UserError for one that has neither."""
    counts = ReadCounts()
    hashed, named = _open_collection(against, out, with_pdq, counts)
    if hashed is not None:
        yield images.find_pairs(hashed).assign(kind="image", against=against)
    if named is not None:
        found = pd.DataFrame(texts.find_pairs(named), columns=PAIR_COLUMNS)
        yield found.assign(kind="text", against=against)
    report_skipped(against, counts)


def _open_collection(
    against: str, out: Path, with_pdq: bool, counts: ReadCounts
) -> tuple[Iterable[pd.DataFrame] | None, Iterable[tuple[str, str]] | None]:
    """Returns the tables of images and the texts of a collection, None for what it has not. Raises UserError."""
    path = Path(against)
    if find_shards(STAGE, against):
        return _open_images(against, with_pdq, counts)
    if (path / "manifest.json").is_file() or newest_version(path) is not None or not path.exists():
        other = read_set(find_set(against, out))
        queries = zip(other.tables.queries["query_id"], other.tables.queries["text"], strict=True)
        return [hash_set_images(other, with_pdq)], queries
    if path.is_dir() or path.suffix in (".txt", ".lst"):
        return _open_images(against, with_pdq, counts)
    if is_index(path):
        return read_index(path), None
    if path.suffix not in (".csv", ".parquet"):
        reason = "is no folder, set, index, table, list or shard"
        raise UserError(STAGE, against, reason, "give one, or a .csv, .parquet, .txt or .tar file")
    if (column := find_text_column(path)) is None:
        return _open_images(against, with_pdq, counts)
    return None, read_texts(path, column)


def _open_images(
    against: str, with_pdq: bool, counts: ReadCounts
) -> tuple[Iterable[pd.DataFrame], Iterable[tuple[str, str]]]:
    """Returns the images of a folder, a list or shards, and the captions of its shards, to be read in this order."""
    listed = list_images(against)

    def captions() -> Iterator[tuple[str, str]]:
        yield from iterate_captions(listed.shards, STAGE, counts)
        if not counts.read:
            raise no_image_error(against)

    return hash_images(listed, with_pdq, counts), captions()
