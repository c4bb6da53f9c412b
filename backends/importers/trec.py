"""TREC: qrels.txt (`query 0 picture grade`) and queries.tsv (`query<tab>text`), as trec_eval takes them.

Layout: usnistgov/trec_eval, README; our own export `trec` has the same. There is no list of pictures: the gallery is
what was judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from backends.importers import Imported, judgment_table, picture_table, query_table
from backends.interchange.own_tables import are_ours
from backends.interchange.picture_store import PictureStore
from backends.interchange.text_files import broken, language_of, one_of, split_id, text_lines


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read the folder. A grade under 0 counts as judged not relevant."""
    qrels = one_of(source, ["qrels.txt", f"qrels.{split or 'test'}.txt", "qrels"], "judgments")
    queries = one_of(source, ["queries.tsv", "topics.tsv", f"queries.{split or 'test'}.tsv"], "queries")
    judged = list(_judgments(qrels))
    asked = [split_id(line, queries, number) for number, line in text_lines(queries) if line.strip()]
    images = dict.fromkeys(image for _, image, _ in judged)
    return Imported(
        queries=query_table(((query, text, language_of(text)) for query, text in asked), "query"),
        images=picture_table((image, image, None) for image in images),
        qrels=judgment_table(judged, "publisher", None),
        files=[qrels, queries],
        grades={str(grade): f"grade {grade}" for grade in sorted({max(row[2], 0) for row in judged}, reverse=True)},
        title=source.resolve().name,
        faults=["The gallery holds the pictures that were judged: others that were searched in are not known."],
        keeps_ids=are_ours("image", images) and are_ours("query", (query for query, _ in asked)),
    )


def _judgments(path: Path) -> Iterator[tuple[str, str, int]]:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        cells = line.split()
        if len(cells) != 4:
            raise broken(f"{path} line {number}", f"has {len(cells)} columns, not 4 (query 0 picture grade)")
        try:
            yield cells[0], cells[2], int(cells[3])
        except ValueError:
            raise broken(f"{path} line {number}", f"grade {cells[3][:40]!r} is no whole number") from None
