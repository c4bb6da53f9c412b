"""The result of an overlap: its counts, its files beside the set, and decisions to drop leaked queries."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors
from backends.sets.decision_log import append_decisions, load_decisions
from backends.sets.overlap_files import OVERLAP_FILE
from backends.sets.set_files import StoredSet
from backends.spreadsheet_csv import write_csv
from builders.benchmark_set import canonical_json
from builders.decisions.records import MAX_TEXT_CHARS, QueryDecision
from builders.overlap.image_pairs import format_distance
from flows.overlap.overlap_search import OverlapResult
from flows.overlap.set_vectors import SetVectors


def summarize_overlap(stored: StoredSet, against: Sequence[str], result: OverlapResult) -> dict[str, Any]:
    """Returns the counts, for JSON."""
    pairs, queries, vectors = result.pairs, result.queries, result.vectors
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
        "embedder": None if vectors is None else vectors.describe(),
        "not_searched": _describe_limits(vectors),
        "leaked_queries": queries.loc[queries["overlap"] == "leaked", "query_id"].tolist(),
    }


def write_overlap(folder: Path, tables: dict[str, pd.DataFrame], summary: dict[str, Any]) -> None:
    """Writes pairs.csv, queries.csv and overlap.json. Raises UserError."""
    for name, table in tables.items():
        shown = table.assign(distance=table["distance"].map(format_distance)) if name == "pairs" else table
        write_csv(folder / f"{name}.csv", shown.columns, shown.itertuples(index=False))
    with translate_write_errors("write overlap", folder):
        write_atomically(folder / OVERLAP_FILE, canonical_json(summary))


def _describe_limits(vectors: SetVectors | None) -> list[str]:
    """Returns what no comparison looks for."""
    images, texts = (None, None) if vectors is None else (vectors.images, vectors.texts)
    cropped, rephrased = "images that are cropped by more than about 5% an edge, rotated or drawn over", "paraphrases"
    return [
        cropped if images is None else f"{cropped}, where the cosine is below {images.cut:g}",
        f"{rephrased} and translations of texts" + ("" if texts is None else f" with a cosine below {texts.cut:g}"),
    ]


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
