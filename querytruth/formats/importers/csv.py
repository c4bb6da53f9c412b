"""A set as CSV: queries.csv, images.csv, qrels.csv (and duplicates.csv) of our own export `csv`, with the images."""

from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.files.text_files import import_error, require_file
from querytruth.backends.files.text_formats import unescape_formula
from querytruth.backends.images.image_reading import MAX_FILE_BYTES
from querytruth.formats import import_layouts, importers, parquet_shards, set_images
from querytruth.formats.exporters.csv import EMPTY_TEXT_CELL, EXPORTED_TABLES
from querytruth.records import TABLE_SCHEMAS, empty_frame


def read(source: Path, split: str | None, image_store: set_images.ImageStore) -> importers.ImportedTables:
    """Read the folder of an export; all columns of the format are restored."""
    if source.is_file():
        raise import_error(source, "is a file; csv imports the folder of an export", "for a table of pairs use pairs")
    tables = {name: _read_table(source / f"{name}.csv", name) for name in EXPORTED_TABLES}
    places = [_store_image(source, path, image_store) for path in tables["images"].pop("path")]
    files = [source / f"{name}.csv" for name in EXPORTED_TABLES if (source / f"{name}.csv").is_file()]
    return import_layouts.restore_tables(tables, places, source, files)


def _read_table(path: Path, name: str) -> pd.DataFrame:
    if name == "duplicates" and not path.is_file():
        return empty_frame(name)
    schema = TABLE_SCHEMAS[name]
    columns: dict[str, list[Any]] = {field.name: [] for field in schema}
    required, optional = ([one.name for one in schema if one.nullable == can_miss] for can_miss in (False, True))
    for place, row in iterate_rows(path, required, optional):
        for field in schema:
            cell = row.get(field.name, "")
            try:
                value = _parse_cell(field.type, cell) if cell else None
            except (ValueError, KeyError, OverflowError, pa.ArrowException):
                reason = f"column {field.name!r} holds {cell[:60]!r}, expected {field.type}"
                raise import_error(place, reason) from None
            if value is None and not field.nullable:
                raise import_error(place, f"column {field.name!r} is empty")
            columns[field.name].append(value)
    frame: pd.DataFrame = pa.table(columns, parquet_shards.schema_without_dictionaries(schema)).to_pandas()
    return frame


def _parse_cell(kind: pa.DataType, cell: str) -> Any:
    """Return the value of a cell. Raises ValueError, as msgspec does."""
    if pa.types.is_list(kind):
        return msgspec.json.decode(cell, type=list[str])
    if pa.types.is_boolean(kind):
        return {"True": True, "False": False}[cell]
    if pa.types.is_integer(kind):  # pandas writes a column with missing values as floats
        return pa.scalar(int(cell.removesuffix(".0")), kind).as_py()
    return float(cell) if pa.types.is_floating(kind) else "" if cell == EMPTY_TEXT_CELL else unescape_formula(cell)


def _store_image(source: Path, path: object, image_store: set_images.ImageStore) -> str | None:
    """Store an image and return its place. Raises UserError for a path outside the export's folder."""
    if not isinstance(path, str):
        return None
    file = require_file(source / path).resolve()
    if not file.is_relative_to(source.resolve()):
        raise import_error(source / "images.csv", f"names {path!r}, which is not in the folder")
    return image_store.put(read_regular(file, MAX_FILE_BYTES))
