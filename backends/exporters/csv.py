"""CSV: queries.csv, images.csv, qrels.csv and duplicates.csv with the set's own columns, and the pictures beside them.

UTF-8 with a mark, CRLF. A cell that a spreadsheet would run as a formula has an apostrophe before it; an empty cell is
no value, a lone apostrophe an empty text; a list is JSON.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from backends.interchange.losses import records
from backends.interchange.set_description import unheld, write_description
from backends.interchange.set_pictures import has_pictures, pictures
from backends.sets.review_csv import escape
from backends.sets.set_files import StoredSet
from builders.errors import UserError
from builders.records import SCHEMAS

TABLES = ("queries", "images", "qrels", "duplicates")
EMPTY = "'"  # what `escape` never writes


def export(stored: StoredSet, out: Path, *, allow_loss: bool = False) -> list[str]:
    """Write all tables, and the pictures where they are at hand; everything is kept but the ledger."""
    places = _write_pictures(stored, out) if has_pictures(stored) else {}
    for name in TABLES:
        frame = getattr(stored.tables, name)
        if name == "images":
            frame = frame.assign(path=[places.get(image_id) for image_id in frame["image_id"]])
        _write_table(out / f"{name}.csv", name, frame)
    write_description(stored, out)
    return unheld(stored)


def _write_pictures(stored: StoredSet, out: Path) -> dict[str, str]:
    places = {}
    for picture in pictures(stored):
        if picture is not None:
            place = f"images/{picture.image_id[4:6]}/{picture.image_id}{picture.suffix}"
            (out / place).parent.mkdir(parents=True, exist_ok=True)
            (out / place).write_bytes(picture.data)
            places[picture.image_id] = place
    return places


def _write_table(path: Path, name: str, frame: pd.DataFrame) -> None:
    columns = SCHEMAS[name].names
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in _rows(frame, columns):
            if any("\x00" in cell for cell in row):
                reason = "holds a NUL character, which no CSV keeps"
                raise UserError("export", f"{path.name} {row[0]}", reason, "choose huggingface")
            writer.writerow(row)


def _rows(frame: pd.DataFrame, columns: list[str]) -> Iterator[list[str]]:
    for record in records(frame):
        yield [_cell(record.get(name)) for name in columns]


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return escape(value) or EMPTY
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if hasattr(value, "__len__"):
        return json.dumps(list(value), ensure_ascii=False)
    return repr(value) if isinstance(value, float) else str(value)
