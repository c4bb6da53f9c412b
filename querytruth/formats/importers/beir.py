"""BEIR: corpus.jsonl ({_id, title, text, metadata}), queries.jsonl ({_id, text, metadata}) and qrels/{split}.tsv.

Layout: beir-cellar/beir ef83d29, beir/datasets/data_loader.py (`GenericDataLoader`). A document represents an image:
its `text`, else its id, is the file name. Our own exports have more columns in `metadata`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from querytruth.backends.files import text_files
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.files.text_formats import detect_language
from querytruth.formats.importers import ImportedTables, build_judgment_table, list_grades
from querytruth.formats.set_images import ImageStore
from querytruth.records import IMAGES_SCHEMA, QUERIES_SCHEMA, are_own_ids


class BeirDocument(msgspec.Struct):
    """A line of the corpus or of the queries."""

    _id: str | int
    text: str = ""
    title: str = ""
    metadata: dict[str, Any] | None = None


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split, by default `test`, without the queries that another split judges. One that none judges waits for
    its first judgment."""
    corpus, queries = (text_files.find_file(source, [name], name) for name in ("corpus.jsonl", "queries.jsonl"))
    has_splits = split is not None or any((source / "qrels").glob("*.tsv"))
    name = f"qrels/{split or 'test'}.tsv"
    qrels = [text_files.find_file(source, [name], name)] if has_splits else []
    others = [path for path in sorted((source / "qrels").glob("*.tsv")) if path not in qrels]
    scores = [score for path in qrels for score in _scores(path)]
    documents, texts = (
        [line for _, line in text_files.iterate_json_lines(path, BeirDocument)] for path in (corpus, queries)
    )
    if not documents or not texts:
        raise text_files.import_error(queries if documents else corpus, "is empty")
    is_own_export = are_own_ids((str(line._id) for line in documents), (str(line._id) for line in texts))
    images = pd.DataFrame([_image(line, is_own_export) for line in documents])
    query_frame = pd.DataFrame([_query(line, is_own_export) for line in texts])
    elsewhere = {query for path in others for query, _, _ in _scores(path)} - {query for query, _, _ in scores}
    query_frame = query_frame[~query_frame["query"].isin(elsewhere)]
    return ImportedTables(
        queries=query_frame,
        images=images.assign(place=None),
        qrels=build_judgment_table(scores, "publisher"),
        files=[corpus, queries, *qrels],
        grades=list_grades((relevance for _, _, relevance in scores), "score"),
        title=f"{source.resolve().name}, {split or 'test'}",
        keeps_ids=is_own_export,
    )


def _scores(path: Path) -> Iterator[tuple[str, str, int]]:
    for place, row in iterate_rows(path, ["query-id", "corpus-id", "score"]):
        try:
            yield row["query-id"], row["corpus-id"], int(row["score"])
        except ValueError:
            raise text_files.import_error(place, f"score {row['score']!r} is not a whole number") from None


def _image(line: BeirDocument, is_own_export: bool) -> dict[str, Any]:
    metadata = _known_metadata(line, IMAGES_SCHEMA.names) if is_own_export else {}
    return {"width": 0, "height": 0, "file_name": line.text or str(line._id), **metadata, "image": str(line._id)}


def _query(line: BeirDocument, is_own_export: bool) -> dict[str, Any]:
    metadata = _known_metadata(line, QUERIES_SCHEMA.names) if is_own_export else {}
    detected = detect_language(line.text)
    fields = {"language": detected, "style": "query", "level": 1, "labels": None, **metadata}
    return {**fields, "query": str(line._id), "text": line.text}


def _known_metadata(line: BeirDocument, names: list[str]) -> dict[str, Any]:
    """Return the metadata that are columns of a set."""
    metadata = line.metadata or {}
    return {name: metadata[name] for name in names if name in metadata and name not in ("path", "text")}
