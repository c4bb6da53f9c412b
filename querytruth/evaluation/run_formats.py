"""Forms of runs and texts that need a reader of their own: similarity matrices, usual TREC runs, tables of texts.

A matrix is a .npy file, and two lists of ids, one per line, for its rows and columns. TREC runs as nearly all tools
write them, six fields with one blank, or one tab, between them, are read by Arrow. Texts of images are for text-only
search.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from querytruth.backends.files.safe_paths import open_regular, read_regular
from querytruth.backends.files.table_rows import iterate_rows, read_columns
from querytruth.errors import UserError, first_line, translate_read_errors
from querytruth.evaluation.ground_truth import encode_ids

_COLUMNS = ["query_id", "q0", "image_id", "rank", "score", "tag"]
_TYPES = {"q0": pa.dictionary(pa.int32(), pa.string()), "rank": pa.float64(), "score": pa.float64()}
_FIRST_LINE = re.compile(rb"[^\s#\xef]\S*([ \t])\S+(?:\1\S+){4}\r?\n")
_LONG_NUMBER = re.compile(rb"[1-9](?:\.?\d){17}")  # more digits than a double has
_STAGE = "read similarities"
_MAGIC = b"\x93NUMPY"
_TEXTS_STAGE = "read texts"
_NAMES = ("image_id", "file_name")
_TEXTS = ("text", "caption", "description", "title")


def read_plain_trec(path: Path) -> pd.DataFrame | None:
    """Return query_id and image_id (categories in order of first appearance), score and rank (float64). None for a
    file with other content: a comment, other blanks, more fields, an invalid number; the reader of lines reports it."""
    with open_regular(path) as file:
        if not (first := _FIRST_LINE.match(line := file.readline(4096))) or _LONG_NUMBER.search(line):
            return None
        file.seek(0)
        try:
            table = pa.csv.read_csv(
                file,
                pa.csv.ReadOptions(use_threads=False, column_names=_COLUMNS),
                pa.csv.ParseOptions(delimiter=first[1].decode(), quote_char=False, ignore_empty_lines=False),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(_COLUMNS, pa.large_string()) | _TYPES, include_columns=_COLUMNS[:5]
                ),
            )
        except pa.ArrowException:
            return None
    ids = {name: encode_ids(table[name].combine_chunks()) for name in ("query_id", "image_id")}
    distinct = [known.to_pylist() for _, known in ids.values()]
    distinct.append(table["q0"].unify_dictionaries().chunk(0).dictionary.to_pylist())
    is_plain = all("\n".join(values).split() == values for values in distinct)  # no other blank is in one
    has_comment = any(value.startswith("#") for value in distinct[0])
    if not is_plain or has_comment or any(table[name].null_count for name in table.column_names):
        return None
    rank = table["rank"].to_numpy()
    names = {name: pd.Index(known.to_pandas(), dtype="str") for name, (_, known) in ids.items()}
    coded = {name: pd.Categorical.from_codes(codes, names[name]) for name, (codes, _) in ids.items()}
    is_whole = (np.isfinite(rank) & (np.rint(rank) == rank)).all()
    return pd.DataFrame(coded | {"score": table["score"].to_numpy(), "rank": rank}) if is_whole else None


def read_similarity_matrix(matrix: Path, row_ids: Path, column_ids: Path) -> tuple[NDArray[Any], list[str], list[str]]:
    """Return a matrix (rows, columns) of any number type, mapped from the file, and the ids of its rows and columns.
    Raises UserError for another shape than the lists' and for repeated ids."""
    next_step = "write it with numpy.save"
    with translate_read_errors(_STAGE, matrix), open_regular(matrix) as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise UserError(_STAGE, matrix, "is not a .npy file", next_step)
    try:
        values = np.load(matrix, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise UserError(_STAGE, matrix, f"cannot be read as .npy ({first_line(error)[:200]})", next_step) from None
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        reason = f"contains {values.ndim} axes of {values.dtype}"
        raise UserError(_STAGE, matrix, reason, "give one matrix of numbers")
    rows, columns = _ids(row_ids), _ids(column_ids)
    if values.shape != (len(rows), len(columns)):
        reason = f"is {values.shape[0]} x {values.shape[1]}, but the lists have {len(rows)} and {len(columns)} ids"
        raise UserError(_STAGE, matrix, reason, "give one id per row and per column, in their order")
    return values, rows, columns


def _ids(path: Path) -> list[str]:
    with translate_read_errors(_STAGE, path):
        ids = read_regular(path).decode("utf-8-sig").split("\n")
    ids = [name.removesuffix("\r") for name in (ids[:-1] if ids[-1] == "" else ids)]
    seen: set[str] = set()
    for line, name in enumerate(ids, start=1):
        if not name or name in seen:
            raise UserError(_STAGE, f"{path} line {line}", "is empty" if not name else f"repeats {name}", "fix it")
        seen.add(name)
    return ids


def read_image_texts(path: Path, images: pd.DataFrame) -> pd.DataFrame:
    """Read a table with a column image_id or file_name and a column text, caption, description or title. Return a
    table image_id, text; rows of other images are skipped. Raises UserError where none is left."""
    names = read_columns(path, _TEXTS_STAGE)
    by = next((name for name in _NAMES if name in names), None)
    text = next((name for name in _TEXTS if name in names), None)
    if by is None or text is None:
        reason = f"has the columns {', '.join(names) or 'none'}"
        raise UserError(_TEXTS_STAGE, path, reason, f"name the columns {' or '.join(_NAMES)} (images) and {_TEXTS[0]}")
    known = dict(zip(images[by], images["image_id"], strict=True))
    rows = [row for _, row in iterate_rows(path, (by, text), stage=_TEXTS_STAGE)]
    texts = [(known[row[by]], row[text]) for row in rows if row[by] in known and row[text]]
    if not texts:
        raise UserError(_TEXTS_STAGE, path, "names no image of this set", f"compare its {by} with that of the set")
    return pd.DataFrame(texts, columns=["image_id", "text"])
