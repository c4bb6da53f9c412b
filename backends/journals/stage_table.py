"""The rows of a stage as CSV for spreadsheets."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors
from backends.spreadsheet_csv import encode_csv


def write_stage_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Writes a table; None is an empty cell. Raises UserError where the file cannot be written."""
    with translate_write_errors("write table", path):
        write_atomically(path, encode_csv(columns, rows))
