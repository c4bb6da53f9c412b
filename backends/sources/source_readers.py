"""Readers for the four kinds of source: a folder tree, a folder at a URL, a list file, a table."""

import csv
import io
import math
import os
import stat
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, BinaryIO

import pyarrow as pa

from backends.bounded_parquet import iterate_parquet, read_parquet_schema
from backends.file_formats import refuse_repeated_columns
from backends.sources.source_listing import CARRIED_COLUMNS, NUMBER_COLUMNS, ListingBuilder
from backends.sources.source_names import encode_item, parse_list_entry
from builders.errors import UserError

LISTING_STAGE = "list pictures"
_LONGEST_LINE = 1 << 15  # bytes; a path has 4,096 at most
_WIDEST = {"latitude": 90, "longitude": 180}


def list_folder(root: str, skip: str | None) -> ListingBuilder:
    """Lists every regular file below a folder, except in `skip`. Raises UserError where the folder cannot be read."""
    top = os.path.realpath(os.fsencode(root))
    skipped = os.path.relpath(os.path.realpath(os.fsencode(skip)), top) if skip else None
    entries, folders = ListingBuilder(), [b""]
    while folders:
        inside = folders.pop()
        try:
            with os.scandir(os.path.join(top, inside)) as scan:  # noqa: PTH118 - names are bytes here
                for entry in scan:
                    name = inside + entry.name
                    if entry.is_file(follow_symlinks=False):
                        entries.accept(encode_item(name))
                    elif entry.is_symlink():
                        _list_link(entry.path, name, top, entries)
                    elif not entry.is_dir(follow_symlinks=False):
                        entries.refuse(encode_item(name), "not_a_regular_file")
                    elif name != skipped:
                        folders.append(name + b"/")
        except OSError as error:
            if not inside:
                raise UserError(LISTING_STAGE, root, f"cannot be read ({error.strerror})", "allow reading it") from None
            entries.refuse(encode_item(inside), "unreadable_folder", error.strerror)
    return entries


def _list_link(path: bytes, name: bytes, top: bytes, entries: ListingBuilder) -> None:
    """Accepts a link to a file inside; links to folders are not followed, because they may form loops."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - bytes
    except OSError as error:
        entries.refuse(encode_item(name), "missing", error.strerror)
        return
    if stat.S_ISDIR(mode):
        entries.refuse(encode_item(name), "link_to_folder")
    elif not is_inside(os.path.realpath(path), top):
        entries.refuse(encode_item(name), "link_out_of_folder")
    elif not stat.S_ISREG(mode):
        entries.refuse(encode_item(name), "not_a_regular_file")
    else:
        entries.accept(encode_item(name))


def is_inside(path: bytes, folder: bytes) -> bool:
    """Whether a real path is a real folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def list_url(filesystem: Any, root: str) -> ListingBuilder:
    """Lists every file below a folder of an fsspec file system."""
    entries = ListingBuilder()

    def unreadable(error: OSError) -> None:
        entries.refuse(error.filename or root, "unreadable_folder", str(error))

    top = root.strip("/")
    for folder, _, files in filesystem.walk(root, detail=True, on_error=unreadable):
        inside = folder.strip("/")[len(top) :].strip("/")
        for name, info in files.items():
            item = encode_item(f"{inside}/{name}".lstrip("/").encode("utf-8", "surrogateescape"))
            if info["type"] != "file" or not name:
                entries.refuse(item, "not_a_regular_file")
            elif "::" in item or "://" in item:
                entries.refuse(item, "not_a_relative_name", "would be read as a URL")
            else:
                entries.accept(item)
    return entries


def list_lines(file: BinaryIO, *, remote: bool) -> ListingBuilder:
    """Lists a path or URL per line; empty lines and comments (#) are skipped."""
    entries, first = ListingBuilder(), True
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            entries.refuse(encode_item(line[:80]) + "…", "not_a_relative_name", "a line of more than 32 KiB")
            while line and not line.endswith(b"\n"):
                line = file.readline(_LONGEST_LINE)
            continue
        line = line.removeprefix(b"\xef\xbb\xbf") if first else line
        first = False
        line = line.rstrip(b"\r\n")
        if line.strip() and not line.startswith(b"#"):
            _add_entry(line, (), entries, remote)
    return entries


def _add_entry(entry: bytes, values: Any, entries: ListingBuilder, remote: bool) -> None:
    item, reason = parse_list_entry(entry, remote=remote)
    if reason:
        entries.refuse(item, reason)
    else:
        entries.accept(item, values)


def list_table(file: BinaryIO, name: str, *, remote: bool) -> ListingBuilder:
    """Lists the column `path` of a CSV or Parquet table, with its columns of CARRIED_COLUMNS. Raises UserError for a
    table that cannot be read and for a cell that does not fit its column."""
    try:
        rows = _parquet_rows(file, name) if name.lower().endswith(".parquet") else _csv_rows(file, name)
        columns = next(rows)[1]
        entries = ListingBuilder(columns[1:])
        for place, (path, *values) in rows:
            if not path:
                entries.refuse(place, "no_path")
                continue
            read = [_value(column, value, place) for column, value in zip(columns[1:], values, strict=True)]
            entry = path if isinstance(path, bytes) else str(path).encode("utf-8", "surrogateescape")
            _add_entry(entry, read, entries, remote)
    except (csv.Error, pa.ArrowException) as error:
        raise UserError(LISTING_STAGE, name, f"cannot be read ({str(error)[:200]})", "fix the table") from None
    return entries


def _columns(name: str, names: list[str]) -> list[str]:
    if "path" not in names:
        reason = f"has no column 'path' (it has {', '.join(map(ascii, names[:12]))})"
        raise UserError(LISTING_STAGE, name, reason, "name the column of the files 'path'")
    refuse_repeated_columns(LISTING_STAGE, name, names, {"path", *CARRIED_COLUMNS})
    return ["path", *[column for column in CARRIED_COLUMNS if column in names]]


def _csv_rows(file: BinaryIO, name: str) -> Iterator[tuple[str, list[Any]]]:
    """Yields the columns, then the rows, each with its place in the file."""
    text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
    rows = csv.reader(text, strict=True)
    header = next(rows, [])
    columns = _columns(name, header)
    yield name, columns
    places = [header.index(column) for column in columns]
    for row in rows:
        place = f"{name}, line {rows.line_num}"
        if len(row) > len(header):
            reason = f"has {len(row)} cells, the header {len(header)}"
            raise UserError(LISTING_STAGE, place, reason, "put cells with commas in quotes")
        if row:
            row += [""] * (len(header) - len(row))
            yield place, [row[at] for at in places]


def _parquet_rows(file: BinaryIO, name: str) -> Iterator[tuple[str, list[Any]]]:
    columns = _columns(name, read_parquet_schema(file).names)
    yield name, columns
    number = 0
    for batch in iterate_parquet(file, columns, 1 << 13):
        for row in zip(*[batch[column].to_pylist() for column in columns], strict=True):
            number += 1
            yield f"{name}, row {number}", list(row)


def _value(column: str, value: Any, place: str) -> str | float:
    """Returns a cell's value. Raises UserError for a cell that is no number or time where its column needs one."""
    if value is None or value == "":
        return math.nan if column in NUMBER_COLUMNS else ""
    try:
        if column in NUMBER_COLUMNS:
            number = float(value)
            if abs(number) > _WIDEST[column]:  # NaN means none
                raise ValueError(number)
            return number
        return _time(value) if column == "taken_at" else str(value)
    except (TypeError, ValueError):
        kind = f"{column} in degrees" if column in NUMBER_COLUMNS else "time as in 2024-05-31T10:20:30"
        reason = f"{column} {str(value)[:40]!r} is no {kind}"
        raise UserError(LISTING_STAGE, place, reason, "fix or empty the cell") from None


def _time(value: Any) -> str:
    """Returns ISO 8601, with an offset where the table has one."""
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    kind = date if len(value) == len("2024-05-31") else datetime
    return kind.fromisoformat(value).isoformat()
