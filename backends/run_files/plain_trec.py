"""TREC runs as nearly all tools write them, read by Arrow: six fields with one blank, or one tab, between them."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv

from backends.regular_files import open_regular

_COLUMNS = ["query_id", "q0", "image_id", "rank", "score", "tag"]
_CODES = pa.dictionary(pa.int32(), pa.string())
_FIRST_LINE = re.compile(rb"[^\s#\xef]\S*([ \t])\S+(?:\1\S+){4}\r?\n")


def read_plain_trec(path: Path) -> pd.DataFrame | None:
    """Returns query_id and image_id (categories in order of first appearance), score and rank (float64). None for a
    file that holds anything else: a comment, other blanks, more fields, no number. What is wrong with it, the reader of
    lines says."""
    with open_regular(path) as file:
        if not (first := _FIRST_LINE.match(file.readline(4096))):
            return None
        file.seek(0)
        try:
            table = pa.csv.read_csv(
                file,
                pa.csv.ReadOptions(use_threads=False, column_names=_COLUMNS),
                pa.csv.ParseOptions(delimiter=first[1].decode(), quote_char=False, ignore_empty_lines=False),
                pa.csv.ConvertOptions(
                    column_types={name: pa.float64() if name in ("rank", "score") else _CODES for name in _COLUMNS},
                    include_columns=_COLUMNS[:5],
                ),
            )
        except pa.ArrowException:
            return None
    table = table.unify_dictionaries().combine_chunks()
    distinct: dict[str, list[Any]] = {name: table[name].chunk(0).dictionary.to_pylist() for name in _COLUMNS[:3]}
    is_plain = all(value.split() == [value] for values in distinct.values() for value in values)
    has_comment = any(value.startswith("#") for value in distinct["query_id"])
    if not is_plain or has_comment or any(table[name].null_count for name in table.column_names):
        return None
    frame: pd.DataFrame = table.select(["query_id", "image_id", "score", "rank"]).to_pandas()
    return frame if (frame["rank"] % 1 == 0).all() else None
