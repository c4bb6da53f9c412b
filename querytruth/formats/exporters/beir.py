"""BEIR: corpus.jsonl, queries.jsonl and qrels/test.tsv. The `text` of an image is its path; metadata has the rest."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.formats.set_description import FormatLimits, iterate_qrels, iterate_rows, lost_columns
from querytruth.sets.set_files import StoredSet

_JUDGMENT = {"query_id", "image_id", "relevance"}
LIMITS = FormatLimits(omissions=("images (the corpus names their paths)", lost_columns("qrels", _JUDGMENT)))


def export(stored: StoredSet, out: Path) -> None:
    """Write the three files. Scores include grades and judged zeros; the images themselves are not exported."""
    tables = stored.tables
    with (out / "corpus.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for image in iterate_rows(tables.images):
            fields = _known(image)
            inside = str(fields.get("path", "")).startswith("images/")  # a path outside the set is private
            name = fields["path"] if inside else fields.get("file_name", "")
            metadata = {k: v for k, v in fields.items() if k not in ("image_id", "path")}
            file.write(_line({"_id": image["image_id"], "title": "", "text": str(name), "metadata": metadata}))
    with (out / "queries.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for query in iterate_rows(tables.queries):
            metadata = {k: v for k, v in _known(query).items() if k not in ("query_id", "text")}
            file.write(_line({"_id": query["query_id"], "text": query["text"], "metadata": metadata}))
    (out / "qrels").mkdir()
    rows = iterate_qrels(tables)
    with (out / "qrels" / "test.tsv").open("w", encoding="utf-8", newline="\n") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        file.writelines(f"{query}\t{image}\t{relevance}\n" for query, image, relevance in rows)


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    lists = {key: list(value) for key, value in fields.items() if hasattr(value, "__len__") and key == "labels"}
    return {key: value for key, value in fields.items() if pd.api.types.is_scalar(value) and pd.notna(value)} | lists


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
