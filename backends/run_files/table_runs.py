"""Runs as tables with the columns query_id, image_id and score, and any others: Parquet, CSV, and CSV with tabs."""

import csv
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from backends.run_files.run_table_builder import RunTableBuilder
from backends.run_files.trec_files import RUN_FILE_STAGE, parse_number
from builders.errors import UserError, first_line

_COLUMNS = ("query_id", "image_id", "score")


def read_parquet_run(path: Path) -> pd.DataFrame:
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


def read_csv_run(path: Path) -> pd.DataFrame:
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
