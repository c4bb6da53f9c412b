"""BEIR: corpus.jsonl ({_id, title, text, metadata}), queries.jsonl ({_id, text, metadata}) and qrels/{split}.tsv.

Layout: beir-cellar/beir ef83d29, beir/datasets/data_loader.py (`GenericDataLoader`). A document stands for a picture:
its `text` is the picture's file name, or else its id is. Our own exports tell more in `metadata`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from backends.importers import Imported, judgment_table
from backends.interchange.own_tables import are_ours
from backends.interchange.picture_store import PictureStore
from backends.interchange.text_files import broken, csv_rows, json_lines, language_of, one_of
from builders.records import IMAGES, QUERIES


class Document(msgspec.Struct):
    """A line of the corpus or of the queries."""

    _id: str | int
    text: str = ""
    title: str = ""
    metadata: dict[str, Any] | None = None


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a split, `test` unless said otherwise. Queries that it does not judge are of other splits and left out,
    unless the folder is an export of ours."""
    names = ("corpus.jsonl", "queries.jsonl", f"qrels/{split or 'test'}.tsv")
    corpus, queries, qrels = (one_of(source, [name], name) for name in names)
    scores = list(_scores(qrels))
    documents, texts = ([line for _, line in json_lines(path, Document)] for path in (corpus, queries))
    if not documents or not texts:
        raise broken(queries if documents else corpus, "is empty")
    ours = are_ours("image", (str(line._id) for line in documents))
    ours = ours and are_ours("query", (str(line._id) for line in texts))
    images = pd.DataFrame([_picture(line, ours) for line in documents])
    asked = pd.DataFrame([_query(line, ours) for line in texts])
    if not ours:
        asked = asked[asked["query"].isin({query for query, _, _ in scores})]
    return Imported(
        queries=asked,
        images=images.assign(place=None),
        qrels=judgment_table(scores, "publisher", None),
        files=[corpus, queries, qrels],
        grades={str(grade): f"score {grade}" for grade in sorted({max(row[2], 0) for row in scores}, reverse=True)},
        title=f"{source.resolve().name}, {split or 'test'}",
        keeps_ids=ours,
    )


def _scores(path: Path) -> Iterator[tuple[str, str, int]]:
    for number, row in csv_rows(path, ["query-id", "corpus-id", "score"], delimiter="\t"):
        try:
            yield row["query-id"], row["corpus-id"], int(row["score"])
        except ValueError:
            raise broken(f"{path} line {number}", f"score {row['score']!r} is no whole number") from None


def _picture(line: Document, ours: bool) -> dict[str, Any]:
    told = _told(line, IMAGES.names) if ours else {}
    return {"width": 0, "height": 0, "file_name": line.text or str(line._id), **told, "image": str(line._id)}


def _query(line: Document, ours: bool) -> dict[str, Any]:
    told = _told(line, QUERIES.names) if ours else {}
    said = {"language": language_of(line.text), "style": "query", "level": 1, **told}
    return {**said, "query": str(line._id), "text": line.text}


def _told(line: Document, names: list[str]) -> dict[str, Any]:
    """What the metadata says under names that a set knows."""
    metadata = line.metadata or {}
    return {name: metadata[name] for name in names if name in metadata and name not in ("path", "text")}
