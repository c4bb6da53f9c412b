"""Readers for the four kinds of source: a folder tree, a folder at a URL, a list file, a table."""

import math
import os
import stat
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from querytruth.backends.files.parquet_files import iterate_parquet, on_disk, read_parquet_schema
from querytruth.backends.files.table_rows import open_table
from querytruth.backends.files.text_formats import refuse_repeated_columns
from querytruth.backends.images.source_names import encode_item, is_inside, parse_list_entry
from querytruth.errors import UserError

NUMBER_COLUMNS = ("latitude", "longitude")
CARRIED_COLUMNS = ("source_url", "page_url", "licence", "taken_at", *NUMBER_COLUMNS)
LISTING_STAGE = "list images"
_LONGEST_LINE = 1 << 15  # bytes; a path has 4,096 at most
_WIDEST = {"latitude": 90, "longitude": 180}


@dataclass(frozen=True, slots=True)
class SourceListing:
    """`items` are sorted and unique. `refused` (item, reason, detail) has a row per refused entry. `carried` has a row
    per item with the table's CARRIED_COLUMNS; None if it has none of them."""

    items: pa.LargeStringArray
    refused: pa.Table
    carried: pa.Table | None


class ListingBuilder:
    """Collects what a source lists, entry by entry."""

    def __init__(self, carried: Sequence[str] = ()) -> None:
        self._items = _Texts()
        self._refused = (_Texts(), _Texts(), _Texts())
        self._carried = {name: _Numbers() if name in NUMBER_COLUMNS else _Texts() for name in carried}

    def accept(self, item: str, values: Iterable[Any] = ()) -> None:
        """Add an item with a value for each carried column; "" or NaN if it has none."""
        self._items.add(item)
        for column, value in zip(self._carried.values(), values, strict=True):
            column.add(value)

    def refuse(self, item: str, reason: str, detail: str | None = None) -> None:
        """Add a refused entry with its reason."""
        for column, value in zip(self._refused, (item, reason, detail or ""), strict=True):
            column.add(value)

    def build(self) -> SourceListing:
        """Return the listing. Of repeated items the first entry counts. Call it once."""
        items, self._items = self._items.values(), _Texts()
        order = pc.sort_indices(items)
        items = items.take(order)
        # Column by column, so that only one of them is in memory twice.
        carried = {name: self._carried.pop(name).nullable().take(order) for name in list(self._carried)}
        again = pc.equal(items[1:], items[:-1])
        if pc.any(again).as_py():
            for item in items[1:].filter(again):
                self.refuse(item.as_py(), "listed_twice")
            first = pa.concat_arrays([pa.array([True]), pc.invert(again)])
            items = items.filter(first)
            carried = {name: column.filter(first) for name, column in carried.items()}
        item, reason, detail = self._refused
        refused = pa.table({"item": item.values(), "reason": reason.values(), "detail": detail.nullable()})
        in_order = [("item", "ascending"), ("reason", "ascending"), ("detail", "ascending")]
        return SourceListing(items, refused.sort_by(in_order), pa.table(carried) if carried else None)


class _Texts:
    """Strings in one buffer, in a third of a list's memory."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("q", [0])

    def add(self, text: str) -> None:
        self._bytes += text.encode("utf-8", "backslashreplace")
        self._ends.append(len(self._bytes))

    def values(self) -> pa.LargeStringArray:
        """Return all of them without a copy; nothing can be added afterwards."""
        ends, data = pa.py_buffer(self._ends), pa.py_buffer(self._bytes)
        return pa.LargeStringArray.from_buffers(len(self._ends) - 1, ends, data)

    def nullable(self) -> pa.LargeStringArray:
        """Return all of them, null where empty."""
        values = self.values()
        _, ends, data = values.buffers()
        return pa.LargeStringArray.from_buffers(len(values), ends, data, pc.not_equal(values, "").buffers()[1])


class _Numbers:
    """Numbers in one buffer."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, number: float) -> None:
        self._values.append(number)

    def nullable(self) -> pa.DoubleArray:
        """Return all of them, null where NaN."""
        values = pa.Array.from_buffers(pa.float64(), len(self._values), [None, pa.py_buffer(self._values)])
        return pc.if_else(pc.is_nan(values), None, values)


def list_folder(root: str, skip: str | None) -> ListingBuilder:
    """List every regular file below a folder, except in `skip`. Raises UserError where the folder cannot be read."""
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
                raise UserError(LISTING_STAGE, root, f"cannot be read ({error.strerror})", "allow reading") from None
            entries.refuse(encode_item(inside), "unreadable_folder", error.strerror)
    return entries


def _list_link(path: bytes, name: bytes, top: bytes, entries: ListingBuilder) -> None:
    """Accept a link to a file inside; links to folders are not followed, because they may form loops."""
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


def list_url(filesystem: Any, root: str) -> ListingBuilder:
    """List every file below a folder of an fsspec file system."""
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
    """List a path or URL per line; empty lines and comments (#) are skipped."""
    entries, first = ListingBuilder(), True
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            entries.refuse(encode_item(line[:80]) + "…", "not_a_relative_name", "longer than 32 KiB")
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
    """List the column `path` of a CSV or Parquet table, with its columns of CARRIED_COLUMNS. Raises UserError for a
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
    except pa.ArrowException as error:
        raise UserError(LISTING_STAGE, name, f"cannot be read ({str(error)[:200]})", "fix the table") from None
    return entries


def _columns(name: str, names: list[str]) -> list[str]:
    if "path" not in names:
        reason = f"has no column 'path' (it has {', '.join(map(ascii, names[:12]))})"
        raise UserError(LISTING_STAGE, name, reason, "rename the column of file names to 'path'")
    refuse_repeated_columns(LISTING_STAGE, name, names, {"path", *CARRIED_COLUMNS})
    return ["path", *[column for column in CARRIED_COLUMNS if column in names]]


def _csv_rows(file: BinaryIO, name: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the columns, then the rows, each with its place in the file."""
    with on_disk(file) as path:
        try:
            table = open_table(path, ("path", *CARRIED_COLUMNS), LISTING_STAGE)
            columns = _columns(name, table.columns)
            yield name, columns
            places = [table.columns.index(column) for column in columns]
            yield from ((f"{name}, line {number}", [row[at] for at in places]) for number, row, _ in table.rows)
        except UserError as error:  # which names the copy
            item = error.item.replace(f"{path} ", f"{name}, ").replace(str(path), name)
            raise UserError(error.stage, item, error.reason, error.next_step) from None


def _parquet_rows(file: BinaryIO, name: str) -> Iterator[tuple[str, list[Any]]]:
    columns = _columns(name, read_parquet_schema(file).names)
    yield name, columns
    number = 0
    for batch in iterate_parquet(file, columns, 1 << 13):
        for row in zip(*[batch[column].to_pylist() for column in columns], strict=True):
            number += 1
            yield f"{name}, row {number}", list(row)


def _value(column: str, value: Any, place: str) -> str | float:
    """Return a cell's value. Raises UserError for an invalid number or time."""
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
        kind = f"{column} in degrees" if column in NUMBER_COLUMNS else "time such as 2024-05-31T10:20:30"
        reason = f"{column} {str(value)[:40]!r} is not a {kind}"
        raise UserError(LISTING_STAGE, place, reason, "fix or empty the cell") from None


def _time(value: Any) -> str:
    """Return ISO 8601, with an offset where the table has one."""
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    kind = date if len(value) == len("2024-05-31") else datetime
    return kind.fromisoformat(value).isoformat()
