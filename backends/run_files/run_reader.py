"""Reader for run files in four formats, by suffix."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from backends.file_errors import translate_read_errors
from backends.run_files.run_table_builder import RunTableBuilder
from backends.run_files.trec_files import RUN_FILE_STAGE, parse_number, read_trec_run
from builders.errors import UserError, first_line

_COLUMNS = ("query_id", "image_id", "score")


def _read_json(path: Path) -> pd.DataFrame:
    """Reads {query: {image: score}}, as pytrec_eval and ranx write it. Raises UserError for repeated names, of which
    JSON would drop one."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=list)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(RUN_FILE_STAGE, path, f"is no JSON ({error})", "write it again") from None
    rows = RunTableBuilder()
    for query, images in _pairs(path, "file", whole):
        for image, score in _pairs(path, query, images):
            if isinstance(score, bool) or not isinstance(score, (int, float)):
                reason = f"query {query}, image {image}: the score is no number"
                raise UserError(RUN_FILE_STAGE, path, reason, "fix the entry")
            try:
                rows.add(query, image, float(score))
            except OverflowError:
                reason = f"query {query}, image {image}: too large a score"
                raise UserError(RUN_FILE_STAGE, path, reason, "fix it") from None
    return rows.build_table("score")


def _pairs(path: Path, name: str, value: Any) -> list[tuple[str, Any]]:
    """Returns the entries of a JSON object. Raises UserError for any other value and for repeated names."""
    if not isinstance(value, list) or not all(isinstance(pair, tuple) for pair in value):
        raise UserError(RUN_FILE_STAGE, path, f"{name} is no object", "write {query: {image: score}}")
    seen: set[str] = set()
    for key, _ in value:
        if key in seen:
            raise UserError(RUN_FILE_STAGE, path, f"{name} holds {key!r} twice", "keep one of them")
        seen.add(key)
    return value


def _read_parquet(path: Path) -> pd.DataFrame:
    """Returns a table query_id, image_id, score; numeric ids become text. Raises UserError."""
    try:
        file = pq.ParquetFile(path)
        _need_columns(path, file.schema_arrow.names)
        table = file.read(list(_COLUMNS))
        ids = [table[name].cast(pa.string()).dictionary_encode() for name in _COLUMNS[:2]]
        table = pa.table([*ids, table["score"].cast(pa.float64())], names=list(_COLUMNS))
    except pa.ArrowException as error:
        reason = f"cannot be read as a run ({first_line(error)})"
        raise UserError(RUN_FILE_STAGE, path, reason, "write ids as texts, scores as numbers") from None
    if nulls := [name for name in _COLUMNS if table[name].null_count]:
        raise UserError(RUN_FILE_STAGE, path, f"column {nulls[0]} has empty cells", "fill or leave out these rows")
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    """Returns the same table; the first line names the columns. Raises UserError."""
    rows = RunTableBuilder()
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        try:
            header = next(lines, [])
            _need_columns(path, header)
            places = [header.index(name) for name in _COLUMNS]
            for cells in lines:
                if len(cells) != len(header):
                    reason = f"has {len(cells)} cells, the header {len(header)}"
                    raise UserError(RUN_FILE_STAGE, f"{path} line {lines.line_num}", reason, "fix the line")
                query, image, score = (cells[place] for place in places)
                rows.add(query, image, parse_number(path, lines.line_num, score))
        except csv.Error as error:
            place = f"{path} line {lines.line_num}"
            raise UserError(RUN_FILE_STAGE, place, f"is no CSV ({error})", "fix the line") from None
    return rows.build_table("score")


def _need_columns(path: Path, names: list[str]) -> None:
    if missing := [name for name in _COLUMNS if name not in names]:
        reason = f"has no column {missing[0]} (it has {', '.join(names) or 'none'})"
        raise UserError(RUN_FILE_STAGE, path, reason, f"name them {', '.join(_COLUMNS)}")


_FORMS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".trec": read_trec_run,
    ".run": read_trec_run,
    ".txt": read_trec_run,
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".tsv": _read_csv,
}


def read_run(path: Path) -> pd.DataFrame:
    """Returns the rows of a run file: query_id and image_id (categories), score (float64). Raises UserError for a file
    that is empty or cannot be read."""
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise UserError(RUN_FILE_STAGE, path, f"has the suffix {path.suffix!r}", f"choose from {', '.join(_FORMS)}")
    with translate_read_errors(RUN_FILE_STAGE, path):
        table = form(path)
    if not len(table):
        raise UserError(RUN_FILE_STAGE, path, "holds no rows", "give a run with results")
    return table
