"""A set as CSV: queries.csv, images.csv, qrels.csv (and duplicates.csv) of our own export `csv`, and its pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from backends.exporters.csv import EMPTY, TABLES
from backends.importers import Imported
from backends.interchange.own_tables import read_own
from backends.interchange.picture_store import PictureStore
from backends.interchange.set_description import NAME, read_description
from backends.interchange.text_files import broken, csv_rows, need_file
from backends.sets.review_csv import unescape
from builders.records import SCHEMAS, empty


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read an export's folder; whatever the format holds comes back as it was."""
    tables = {name: _table(source / f"{name}.csv", name) for name in TABLES}
    places = [_place(source, path, unpack) for path in tables["images"].pop("path")]
    described = read_description(source)
    files = [source / f"{name}.csv" for name in TABLES if (source / f"{name}.csv").is_file()]
    return read_own(tables, places, [*files, source / NAME] if described else files, described)


def _table(path: Path, name: str) -> pd.DataFrame:
    if name == "duplicates" and not path.is_file():
        return empty(name)
    schema = SCHEMAS[name]
    columns: dict[str, list[Any]] = {field.name: [] for field in schema}
    for number, row in csv_rows(path, [field.name for field in schema if not field.nullable]):
        for field in schema:
            cell = row.get(field.name, "")
            try:
                value = _reader(field.type)(cell) if cell else None
            except ValueError:
                reason = f"column {field.name!r} holds {cell[:60]!r}, which is no {field.type}"
                raise broken(f"{path} line {number}", reason) from None
            if value is None and not field.nullable:
                raise broken(f"{path} line {number}", f"column {field.name!r} is empty")
            columns[field.name].append(value)
    types = {
        field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema
    }
    arrays = {column: pa.array(values, types[column]) for column, values in columns.items()}
    frame: pd.DataFrame = pa.table(arrays).to_pandas()
    return frame


def _reader(kind: pa.DataType) -> Callable[[str], Any]:
    if pa.types.is_list(kind):
        return _list
    if pa.types.is_boolean(kind):
        return _flag
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        return lambda cell: _whole(cell, bits)
    return float if pa.types.is_floating(kind) else lambda cell: "" if cell == EMPTY else unescape(cell)


def _whole(cell: str, bits: int) -> int:
    number = int(cell.removesuffix(".0"))  # a column with gaps is one of fractions in pandas
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(cell)
    return number


def _flag(cell: str) -> bool:
    if cell not in ("True", "False"):
        raise ValueError(cell)
    return cell == "True"


def _list(cell: str) -> list[str]:
    found = json.loads(cell)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ValueError(cell)
    return found


def _place(source: Path, path: Any, unpack: PictureStore) -> str | None:
    """Take a picture over; the table may name files of the export's folder only."""
    if not isinstance(path, str):
        return None
    file = need_file(source / path).resolve()
    if not file.is_relative_to(source.resolve()):
        raise broken(source / "images.csv", f"names {path!r}, which is not in the folder")
    return unpack.put(file.read_bytes())
