"""TREC: qrels.txt (`query 0 image grade`) and queries.tsv, as trec_eval, pytrec_eval and ir_measures read them."""

from pathlib import Path

from querytruth.formats import set_description
from querytruth.sets.set_files import StoredSet

LIMITS = set_description.FormatLimits(
    omissions=(
        set_description.whitespace_in_texts,
        "images that no query was judged on",
        *set_description.NO_METADATA,
    )
)


def export(stored: StoredSet, out: Path) -> None:
    """Write both files, with grades and judged zeros, but without images, provenance and columns of queries."""
    rows = set_description.iterate_qrels(stored.tables)
    with (out / "qrels.txt").open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{query} 0 {image} {relevance}\n" for query, image, relevance in rows)
    with (out / "queries.tsv").open("w", encoding="utf-8", newline="\n") as file:
        for row in stored.tables.queries.itertuples():
            file.write(f"{row.query_id}\t{set_description.collapse_whitespace(str(row.text))}\n")
