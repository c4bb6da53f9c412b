"""TREC: qrels.txt (`query 0 picture grade`) and queries.tsv, as trec_eval, pytrec_eval and ir_measures read them."""

from __future__ import annotations

from pathlib import Path

from backends.exporters import require_queries
from backends.interchange.format_limits import WHITESPACE_IN_TEXTS, collapse_whitespace, describe_losses
from backends.sets.set_files import StoredSet


def export(stored: StoredSet, out: Path, *, allow_loss: bool = False) -> list[str]:
    """Write both files. Grades and judged zeros are kept; pictures, provenance and all but the text are not."""
    require_queries(stored)
    qrels = stored.tables.qrels
    rows = zip(qrels["query_id"].astype(str), qrels["image_id"].astype(str), qrels["relevance"], strict=True)
    with (out / "qrels.txt").open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{query} 0 {image} {relevance}\n" for query, image, relevance in rows)
    with (out / "queries.tsv").open("w", encoding="utf-8", newline="\n") as file:
        for row in stored.tables.queries.itertuples():
            file.write(f"{row.query_id}\t{collapse_whitespace(str(row.text))}\n")
    return [
        *describe_losses(stored, WHITESPACE_IN_TEXTS),
        "pictures, and those that no query was judged on",
        "languages, styles, levels and labels of queries",
        "who judged and why",
    ]
