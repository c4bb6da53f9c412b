"""CSV: queries.csv, images.csv, qrels.csv and duplicates.csv with the set's own columns, and the images.

UTF-8 with BOM, CRLF. A cell that a spreadsheet would run as a formula has an apostrophe before it. An empty cell means
no value, a single apostrophe an empty text; a list is JSON.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.backends.files.text_formats import escape_formula
from querytruth.errors import UserError
from querytruth.formats.set_description import NO_LEDGER, FormatLimits, iterate_rows, write_description
from querytruth.formats.set_images import list_images_with_sizes, write_images
from querytruth.records import TABLE_SCHEMAS
from querytruth.sets.set_files import StoredSet

EXPORTED_TABLES = ("queries", "images", "qrels", "duplicates")
EMPTY_TEXT_CELL = "'"  # `escape_formula` never returns it

LIMITS = FormatLimits(needs_queries=False, omissions=NO_LEDGER)


def export(stored: StoredSet, out: Path) -> None:
    """Write all tables, and the images that are available; leaves out the ledger only."""
    places = write_images(stored, out)
    for name in EXPORTED_TABLES:
        frame = getattr(stored.tables, name)
        if name == "images":
            frame = list_images_with_sizes(stored).assign(path=[places.get(image_id) for image_id in frame["image_id"]])
        _write_table(out / f"{name}.csv", name, frame)
    write_description(stored, out)


def _write_table(path: Path, name: str, frame: pd.DataFrame) -> None:
    columns = TABLE_SCHEMAS[name].names
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for record in iterate_rows(frame):
            row = [_cell(record.get(column)) for column in columns]
            if any("\x00" in cell for cell in row):
                reason = "contains a NUL character, which CSV cannot hold"
                raise UserError("export", f"{path.name} {row[0]}", reason, "choose huggingface")
            writer.writerow(row)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return escape_formula(value) or EMPTY_TEXT_CELL
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if hasattr(value, "__len__"):
        return json.dumps(list(value), ensure_ascii=False)
    return repr(value) if isinstance(value, float) else str(value)
