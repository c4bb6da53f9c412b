"""Run files in four forms, told apart by their suffix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from backends.file_errors import translate_read_errors
from backends.run_files.json_runs import read_json_run
from backends.run_files.table_runs import read_csv_run, read_parquet_run
from backends.run_files.trec_files import RUN_FILE_STAGE, read_trec_run
from builders.errors import UserError

_FORMS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".trec": read_trec_run,
    ".run": read_trec_run,
    ".txt": read_trec_run,
    ".json": read_json_run,
    ".parquet": read_parquet_run,
    ".csv": read_csv_run,
    ".tsv": read_csv_run,
}


def read_run(path: Path) -> pd.DataFrame:
    """The rows of a run file: query_id and image_id (categories), score (float64). An empty one is refused."""
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise UserError(RUN_FILE_STAGE, path, f"has the suffix {path.suffix!r}", f"choose from {', '.join(_FORMS)}")
    with translate_read_errors(RUN_FILE_STAGE, path):
        table = form(path)
    if not len(table):
        raise UserError(RUN_FILE_STAGE, path, "holds no rows", "give a run with results")
    return table
