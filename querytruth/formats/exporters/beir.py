"""BEIR: corpus.jsonl, queries.jsonl and qrels/test.tsv. The `text` of an image is its path; metadata has the rest."""

import json
from pathlib import Path
from typing import Any

from querytruth.formats.set_description import FormatLimits, iterate_qrels, iterate_rows
from querytruth.sets.set_files import StoredSet

_FURTHER = {"family", "twin", "topic", "source_image_id", "source_id"}  # of queries that have them
LIMITS = FormatLimits(omissions=("images (the corpus names their paths)", "who judged and why"))


def export(stored: StoredSet, out: Path) -> None:
    """Writes the three files. Scores include grades and judged zeros; the images themselves are not exported."""
    tables = stored.tables
    with (out / "corpus.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for image in iterate_rows(tables.images):
            fields = {key: value for key, value in image.items() if value is not None and value == value}
            inside = str(fields.get("path", "")).startswith("images/")  # a path outside the set is private
            name = fields["path"] if inside else fields.get("file_name", "")
            metadata = {k: v for k, v in fields.items() if k not in ("image_id", "path")}
            file.write(_line({"_id": image["image_id"], "title": "", "text": str(name), "metadata": metadata}))
    with (out / "queries.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for query in iterate_rows(tables.queries):
            labels, others = query["labels"], _FURTHER & query.keys()
            metadata = {k: query[k] for k in ("language", "style", "level")}
            metadata["labels"] = list(labels) if labels is not None else None
            metadata |= {k: query[k] for k in sorted(others) if isinstance(query[k], str)}
            file.write(_line({"_id": query["query_id"], "text": query["text"], "metadata": metadata}))
    (out / "qrels").mkdir()
    rows = iterate_qrels(tables)
    with (out / "qrels" / "test.tsv").open("w", encoding="utf-8", newline="\n") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        file.writelines(f"{query}\t{image}\t{relevance}\n" for query, image, relevance in rows)


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
