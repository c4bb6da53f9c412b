"""What a set shares with other collections: pairs with evidence, and per query leaked or clean."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors
from backends.sets.decision_log import append_decisions, load_decisions
from backends.sets.overlap_files import OVERLAP_FILE
from backends.sets.set_files import StoredSet, find_set, newest_version, read_set
from backends.spreadsheet_csv import write_csv
from builders.benchmark_set import canonical_json
from builders.decisions.records import MAX_TEXT_CHARS, QueryDecision
from builders.errors import UserError
from builders.overlap.image_pairs import PAIR_COLUMNS, find_image_pairs
from builders.overlap.leaked_queries import classify_queries
from builders.overlap.text_pairs import TextOverlap
from flows.overlap_sources import (
    STAGE,
    find_text_column,
    hash_set_crops,
    hash_set_images,
    hash_source_images,
    is_index,
    read_index,
    read_texts,
)

NOT_SEARCHED = [
    "images that are cropped by more than about 5% an edge, rotated or drawn over",
    "paraphrases and translations of texts",
]


def find_overlap(stored: StoredSet, against: Sequence[str], out: Path) -> tuple[dict[str, pd.DataFrame], int]:
    """Returns `pairs` (kind, set_item, against, other_item, evidence, distance) and `queries` (query_id, overlap,
    by_image, by_text), and how many images of the set could be read. Raises UserError for a collection that cannot."""
    texts = TextOverlap(dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True)))
    images = hash_set_images(stored), hash_set_crops(stored)
    found = [pairs for one in against for pairs in _find_pairs(*images, texts, one, out)]
    pairs = pd.concat(found, ignore_index=True)[["kind", "set_item", "against", *PAIR_COLUMNS[1:]]]
    leaked = {kind: set(pairs.loc[pairs["kind"] == kind, "set_item"]) for kind in ("image", "text")}
    queries = classify_queries(stored.tables.queries, stored.tables.qrels, leaked["image"], leaked["text"])
    return {"pairs": pairs, "queries": queries}, len(images[0])


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
    images: pd.DataFrame, crops: pd.DataFrame, texts: TextOverlap, against: str, out: Path
) -> list[pd.DataFrame]:
    path = Path(against)
    if (path / "manifest.json").is_file() or newest_version(path) is not None or not path.exists():
        other = read_set(find_set(against, out))
        queries = other.tables.queries
        named = zip(queries["query_id"], queries["text"], strict=True)
        pairs = [_label(find_image_pairs(images, hash_set_images(other), crops), "image", against)]
        return [*pairs, _label(pd.DataFrame(texts.find_pairs(named), columns=PAIR_COLUMNS), "text", against)]
    if path.is_dir():
        return [_label(find_image_pairs(images, hash_source_images(against), crops), "image", against)]
    if is_index(path):
        return [_label(find_image_pairs(images, read_index(path), crops), "image", against)]
    if path.suffix not in (".csv", ".parquet"):
        raise UserError(STAGE, against, "is no folder, set, index or table", "give one, or a .csv or .parquet file")
    if (column := find_text_column(path)) is None:
        return [_label(find_image_pairs(images, hash_source_images(against), crops), "image", against)]
    found = texts.find_pairs(read_texts(path, column))
    return [_label(pd.DataFrame(found, columns=PAIR_COLUMNS), "text", against)]


def _label(pairs: pd.DataFrame, kind: str, against: str) -> pd.DataFrame:
    return pairs.assign(kind=kind, against=against)
