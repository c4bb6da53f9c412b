"""Tables of other people, whatever their format: CSV, TSV, JSON lines, a JSON list of objects, Parquet, the first sheet
of an .xlsx file.

One reader for all rooms: the suffix decides, rows come one after the other, and what is not as it should be is one line
with file, row and reason. Nothing is guessed: a row of another length, a column that is there twice and a text in
another encoding are refused.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from querytruth.backends.files.parquet_files import iterate_parquet, read_parquet_schema
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.spreadsheet_rows import iterate_sheet_rows
from querytruth.backends.files.text_files import (
    FIX_FILE,
    MAX_LINE_BYTES,
    find_csv_delimiter,
    iterate_whole_lines,
    require_file,
)
from querytruth.backends.files.text_formats import refuse_repeated_columns, refuse_repeated_keys
from querytruth.errors import UserError, first_line, translate_read_errors

_BATCH_ROWS = 1 << 13
_IMPORT = "import"
OBJECT_SUFFIXES = (".jsonl", ".ndjson", ".json")  # of records that each have keys of their own
_Records = Iterator[tuple[str, Any]]


def read_columns(path: Path, stage: str = _IMPORT, encoding: str = "utf-8") -> list[str]:
    """Returns the names of a table's columns; of JSON lines, the keys of the first. Raises UserError."""
    with translate_read_errors(stage, path):
        if path.suffix.lower() == ".parquet":
            return list(_read_schema(path, stage).names)
        _, first = next(_find_reader(path, stage)(path, stage, encoding), ("", []))
        return list(first)


def find_usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Returns the column with the first of the usual names, whatever its capitals and the blanks around it."""
    known = {name.strip().casefold(): name for name in reversed(names)}
    return next((known[name] for name in usual if name in known), None)


def iterate_rows(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), stage: str = _IMPORT, encoding: str = "utf-8"
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place (file and line) and the cells of every row; the table must have the columns, and the optional
    ones come with them where it has them. Cells are texts, of JSON lines and Parquet what is there. Raises
    UserError."""
    with translate_read_errors(stage, path):
        if path.suffix.lower() == ".parquet":
            yield from _iterate_parquet_rows(path, columns, optional, stage)
            return
        records = _find_reader(path, stage)(path, stage, encoding)
        if path.suffix.lower() in OBJECT_SUFFIXES:
            for place, record in records:
                _require_columns(place, stage, columns, list(record))
                yield place, record
            return
        place, header = next(records, (f"{path} line 1", []))
        _require_columns(place, stage, columns, header)
        refuse_repeated_columns(stage, place, header, {*columns, *optional})
        for place, cells in records:
            if len(cells) != len(header):
                reason = f"has {len(cells)} cells, the header {len(header)}"
                raise UserError(stage, place, reason, FIX_FILE)
            yield place, dict(zip(header, cells, strict=True))


def _require_columns(place: str, stage: str, columns: Sequence[str], known: Sequence[str]) -> None:
    if missing := [name for name in columns if name not in known]:
        reason = f"has no column {missing[0]!r} (it has {', '.join(known) or 'none'})"
        raise UserError(stage, place, reason, FIX_FILE)


def _read_schema(path: Path, stage: str) -> pa.Schema:
    try:
        return read_parquet_schema(require_file(path, stage))
    except (OSError, pa.ArrowException) as error:
        raise _not_parquet(path, stage, error) from None


def _iterate_parquet_rows(path: Path, columns: Sequence[str], optional: Sequence[str], stage: str) -> _Records:
    names = _read_schema(path, stage).names
    _require_columns(str(path), stage, columns, names)
    refuse_repeated_columns(stage, path, names, {*columns, *optional})
    number = 0
    try:
        for batch in iterate_parquet(path, [*columns, *(set(optional) & set(names))], _BATCH_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield f"{path} row {number}", row
    except (OSError, pa.ArrowException) as error:
        raise _not_parquet(path, stage, error) from None


def _not_parquet(path: Path, stage: str, error: Exception) -> UserError:
    return UserError(stage, path, f"is no whole Parquet file ({first_line(error)[:150]})", FIX_FILE)


def _iterate_csv(path: Path, stage: str, encoding: str) -> _Records:
    """Yields the records, each with the number of its first line; a quoted cell may contain line ends."""
    at = 0

    def lines() -> Iterator[str]:
        nonlocal at
        for at, line in _iterate_texts(path, stage, encoding):  # noqa: B007 - the reader's position
            yield line

    reader = csv.reader(lines(), delimiter=find_csv_delimiter(require_file(path, stage)), strict=True)
    start = 1
    try:
        while (row := _next_row(reader)) is not None:
            if row:
                yield f"{path} line {start}", row
            start = at + 1
    except csv.Error as error:
        raise UserError(stage, f"{path} line {start}", f"is no CSV ({error})", FIX_FILE) from None


def _next_row(reader: Iterator[list[str]]) -> list[str] | None:
    # The limit is the whole process's: raised for one row, so that a table left half read leaves others their limit.
    limit = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


def _iterate_json_lines(path: Path, stage: str, encoding: str) -> _Records:
    for number, line in _iterate_texts(path, stage, encoding):
        if line.strip():
            try:
                record = msgspec.json.decode(line, type=dict[str, Any])
                refuse_repeated_keys(line)
            except (ValueError, RecursionError) as error:  # also what msgspec raises
                raise UserError(stage, f"{path} line {number}", f"is no JSON ({error})", FIX_FILE) from None
            yield f"{path} line {number}", record


def _iterate_json_list(path: Path, stage: str, encoding: str) -> _Records:
    text = "".join(line for _, line in _iterate_texts(path, stage, encoding))
    try:
        records = msgspec.json.decode(text, type=list[dict[str, Any]])
        refuse_repeated_keys(text)
    except (ValueError, RecursionError) as error:
        raise UserError(stage, path, f"is no JSON list of objects ({error})", FIX_FILE) from None
    yield from ((f"{path} record {number}", record) for number, record in enumerate(records, start=1))


def _iterate_texts(path: Path, stage: str, encoding: str) -> Iterator[tuple[int, str]]:
    """Yields number and text of every line, with its end. UTF-8 is read as a stream, anything else as a whole."""
    if encoding.lower().replace("-", "") in ("utf8", "utf8sig"):
        yield from iterate_whole_lines(path, stage)
        return
    try:
        text = read_regular(require_file(path, stage)).decode(encoding)
    except (UnicodeDecodeError, LookupError):
        raise UserError(stage, path, f"is not {encoding}", "give its encoding, such as gb18030") from None
    yield from enumerate(io.StringIO(text.removeprefix("\ufeff"), newline="\n"), start=1)


def _iterate_sheet(path: Path, stage: str, _encoding: str) -> _Records:
    """Yields the rows that are not empty, filled up: a sheet leaves out what is empty at the end of a row."""
    width = 0
    for number, cells in iterate_sheet_rows(require_file(path, stage), stage):
        if any(cells):
            width = width or len(cells)
            yield f"{path} row {number}", [*cells, *[""] * (width - len(cells))]


_READERS: dict[str, Callable[[Path, str, str], _Records]] = {
    ".csv": _iterate_csv, ".tsv": _iterate_csv, ".xlsx": _iterate_sheet,
    ".jsonl": _iterate_json_lines, ".ndjson": _iterate_json_lines, ".json": _iterate_json_list,
}  # fmt: skip
TABLE_SUFFIXES = (*_READERS, ".parquet")


def _find_reader(path: Path, stage: str) -> Callable[[Path, str, str], _Records]:
    if (reader := _READERS.get(path.suffix.lower())) is None:
        raise UserError(stage, path, "has none of the known suffixes", "name it " + ", ".join(sorted(TABLE_SUFFIXES)))
    return reader
