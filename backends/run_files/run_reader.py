"""Reader for run files in four formats, by suffix."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from backends.file_errors import translate_read_errors
from backends.run_files.run_table_builder import RunTableBuilder
from backends.run_files.table_runs import read_csv_run, read_parquet_run
from backends.run_files.trec_files import RUN_FILE_STAGE, read_trec_run
from builders.errors import UserError


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


_FORMS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".trec": read_trec_run,
    ".run": read_trec_run,
    ".txt": read_trec_run,
    ".json": _read_json,
    ".parquet": read_parquet_run,
    ".csv": read_csv_run,
    ".tsv": read_csv_run,
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
