"""What a stage came to, row by row, as CSV to look at in a spreadsheet: nothing in it is run as a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors
from backends.sets.review_csv import escape_formula


def write_stage_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """UTF-8 with BOM, CRLF; None is an empty cell, and a NUL, which no spreadsheet keeps, a replacement character."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    with translate_write_errors("write table", path):
        write_atomically(path, text.getvalue().encode("utf-8-sig", "replace"))


def _cell(value: object) -> str:
    return "" if value is None else escape_formula(str(value).replace("\x00", "\N{REPLACEMENT CHARACTER}"))
