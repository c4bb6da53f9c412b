"""Foreign tables of any format: CSV, TSV, JSON lines, a JSON list of objects, Parquet, a sheet of an
.xlsx file.

One reader for all rooms: the suffix decides, `table_profile.py` finds the position of the table, rows come one after
the other, and every fault is one line with file, row and reason. Nothing is guessed: a row of another length, a
repeated column and a text in another encoding are refused.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from querytruth.backends.files import column_profile, table_profile
from querytruth.backends.files.parquet_files import iterate_parquet, read_parquet_schema
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.spreadsheet_rows import read_sheet
from querytruth.backends.files.text_files import FIX_FILE, MAX_LINE_BYTES, Line, iterate_whole_lines, require_file
from querytruth.backends.files.text_formats import refuse_repeated_columns, refuse_repeated_keys, require_text
from querytruth.errors import UserError, first_line, translate_read_errors

_BATCH_ROWS, _IMAGE_ROWS = 1 << 13, 1 << 7  # rows in memory at a time; of those that may hold images
_IMPORT = "import"
_TEXT_SUFFIXES, SHEET_SUFFIX = (".csv", ".tsv"), ".xlsx"
OBJECT_SUFFIXES = (".jsonl", ".ndjson", ".json")  # of records that each have keys of their own
TABLE_SUFFIXES = (*_TEXT_SUFFIXES, SHEET_SUFFIX, *OBJECT_SUFFIXES, ".parquet")
EXACT_DIGITS = 18  # characters of a number from which a double may be another one
OUTSIDE_TABLE = "outside_table"
_Row = tuple[int, list[str], str]  # as a Line
_Records = Iterator[tuple[str, Any]]


class WrittenFloat(float):
    """A number as it is written, where a double has fewer digits."""

    text = ""

    @classmethod
    def read(cls, text: str) -> float:
        """Return the number, as this where it has 18 characters or more."""
        number = cls(text) if len(text) >= EXACT_DIGITS else float(text)
        if isinstance(number, cls):
            number.text = text
        return number


class Table(NamedTuple):
    """An open table: the prefix of its row positions ("PATH line"), its columns, its delimiter ("" in a sheet), notes
    on its position in the file, the number of its header row, for a log the whole rows at its start, and all rows,
    which can be read once."""

    where: str
    columns: list[str]
    delimiter: str
    about: list[str]
    header_number: int
    head: list[list[str]]
    rows: Iterator[_Row]


def open_table(
    path: Path, usual: Sequence[str] = (), stage: str = _IMPORT, encoding: str = "", lines: Iterator[Line] | None = None
) -> Table:
    """Return the table of a text file or a sheet whose header has most of the usual names. With `lines` (a log), every
    line is a row, even an empty or invalid one. Raises UserError."""
    about, delimiter = list[str](), ""
    if path.suffix.lower() == SHEET_SUFFIX:
        names, sheet = read_sheet(require_file(path, stage), stage)
        about = [f"sheet {names[0]!r}" + (f" (ignored: {', '.join(map(repr, names[1:]))})" if names[1:] else "")]
        rows: Iterator[_Row] = ((number, cells, "") for number, cells in sheet)
    else:
        texts = open_lines(path, stage, encoding, about) if lines is None else lines
        first = list(islice(texts, table_profile.HEAD_ROWS))
        is_tabbed = path.suffix.lower() == ".tsv"
        delimiter = "\t" if is_tabbed else table_profile.find_delimiter([text for _, text, _ in first], usual)
        texts = chain(first, texts)
        rows = _parse_csv(path, stage, texts, delimiter) if lines is None else _parse_lines(texts, delimiter)
        about += [f"delimiter {delimiter!r}"] if delimiter not in ",\t" else []
    start = list(islice(rows, table_profile.HEAD_ROWS))
    shape = table_profile.find_shape([cells for _, cells, _ in start], usual)
    number, header, _ = start[shape.header] if start else (1, [], "")
    columns = header[shape.first : shape.end]
    about += [f"header in line {number}"] if number > 1 else []
    about += [f"columns {shape.first + 1} to {shape.end}"] if columns != header else []
    where = f"{path} {'line' if delimiter else 'row'}"
    rows = _iterate_body(where, stage, chain(start[shape.header + 1 :], rows), header, shape, is_log=lines is not None)
    start = list(islice(rows, table_profile.HEAD_ROWS if lines is not None else 0))
    head = [row for _, row, problem in start if not problem and any(row) and len(row) == len(columns)]
    return Table(where, columns, delimiter, about, number, head, chain(start, rows))


def _iterate_body(
    where: str, stage: str, rows: Iterator[_Row], header: list[str], shape: table_profile.TableShape, *, is_log: bool
) -> Iterator[_Row]:
    """Yield the rows of the table, without those that repeat its header, up to an empty row after which another table
    begins; of a log also the empty rows and those that follow."""
    after_empty, is_sheet = False, where.endswith(" row")
    for number, cells, problem in rows:
        if is_sheet:  # which leaves out what is empty at the end of a row
            cells += [""] * (len(header) - len(cells))
        if not problem and not any(map(str.strip, cells[shape.first : shape.end])):
            after_empty = True
            if is_log:
                yield number, [], ""
        elif after_empty and not problem and shape.is_other(cells, is_ragged=not is_sheet):
            path, _, unit = where.rpartition(" ")
            table_profile.report_profile(
                Path(path), f"a note or another table begins in {unit} {number} and is not read"
            )
            yield from ((one, [], OUTSIDE_TABLE) for one in chain([number], (row[0] for row in rows)) if is_log)
            return
        elif cells != header:
            after_empty = after_empty and bool(problem)
            if not is_log and not is_sheet and len(cells) != len(header):
                reason = f"has {len(cells)} cells, but the header has {len(header)}"
                raise UserError(stage, f"{where} {number}", reason, FIX_FILE)
            yield number, cells[shape.first : None if len(cells) > len(header) else shape.end], problem


def read_columns(path: Path, stage: str = _IMPORT, encoding: str = "", usual: Sequence[str] = ()) -> list[str]:
    """Return the names of a table's columns; for JSON lines, the keys of the first line. `usual`: common names, used to
    find the header. Raises UserError."""
    with translate_read_errors(stage, path):
        if path.suffix.lower() == ".parquet":
            return list(_read_schema(path, stage).names)
        if path.suffix.lower() in OBJECT_SUFFIXES:
            return list(next(_iterate_objects(path, stage, encoding), ("", {}))[1])
        table = open_table(_require_suffix(path, stage), usual, stage, encoding)
        if table.about and not {*map(table_profile.fold_name, usual)} & {*map(table_profile.fold_name, table.columns)}:
            table_profile.report_profile(path, *table.about)  # another tab, perhaps
        return table.columns


def find_usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the column with the first of the usual names, whatever its capitals and the blanks around it."""
    known = {name.strip().casefold(): name for name in reversed(names)}
    return next((known[name] for name in usual if name in known), None)


def iterate_rows(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    stage: str = _IMPORT,
    encoding: str = "",
    *,
    objects: bool = False,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place (file and line) and the cells of every row; the table must have the columns, and the optional
    ones come with them where it has them. Cells are texts; those of JSON lines and Parquet keep their types, but lists,
    bytes and the like need `objects`. Raises UserError."""
    with translate_read_errors(stage, path):
        if path.suffix.lower() in (".parquet", *OBJECT_SUFFIXES):
            is_parquet = path.suffix.lower() == ".parquet"
            read = _iterate_parquet_rows(path, columns, optional, stage) if is_parquet else None
            for place, record in read or _iterate_objects(path, stage, encoding):
                _require_columns(place, stage, columns, list(record))
                if not objects:
                    refuse_objects(place, stage, [record[name] for name in (*columns, *optional) if name in record])
                yield place, record
        else:
            table = open_table(_require_suffix(path, stage), (*columns, *optional), stage, encoding)
            _require_columns(f"{table.where} {table.header_number}", stage, columns, table.columns)
            refuse_repeated_columns(stage, f"{table.where} {table.header_number}", table.columns, {*columns, *optional})
            if table.about:
                table_profile.report_profile(path, *table.about)
            for number, cells, _ in table.rows:
                yield f"{table.where} {number}", dict(zip(table.columns, cells, strict=True))


def refuse_objects(place: str, stage: str, cells: Iterable[object]) -> None:
    """Raise UserError for a cell that is neither text nor number: its printed form would not be a text that people
    wrote."""
    if wrong := next((cell for cell in cells if isinstance(cell, dict | list | bytes)), None):
        reason = f"has a {type(wrong).__name__} where a text is needed"
        raise UserError(stage, place, reason, "name another column, or write texts into it")


def _require_suffix(path: Path, stage: str) -> Path:
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise UserError(stage, path, "has an unknown suffix", "use one of " + ", ".join(sorted(TABLE_SUFFIXES)))
    return path


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
    schema = _read_schema(path, stage)
    _require_columns(str(path), stage, columns, schema.names)
    refuse_repeated_columns(stage, path, schema.names, {*columns, *optional})
    known = [name for name in schema.names if name in columns or name in optional]
    kinds = [schema.field(name).type for name in known]
    has_images = any(pa.types.is_nested(kind) or pa.types.is_binary(kind) for kind in kinds)
    number = 0
    try:
        for batch in iterate_parquet(path, known, _IMAGE_ROWS if has_images else _BATCH_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield f"{path} row {number}", row
    except (OSError, pa.ArrowException) as error:
        raise _not_parquet(path, stage, error) from None


def _not_parquet(path: Path, stage: str, error: Exception) -> UserError:
    return UserError(stage, path, f"is not a complete Parquet file ({first_line(error)[:150]})", FIX_FILE)


def _parse_csv(path: Path, stage: str, lines: Iterator[Line], delimiter: str) -> Iterator[_Row]:
    """Yield the records, each with the number of its first line; a quoted cell may contain line ends."""
    reader = csv.reader((text for _, text, _ in lines), delimiter=delimiter, strict=True)
    start = 1
    try:
        while (row := _next_row(reader)) is not None:
            yield start, row, ""
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(stage, f"{path} line {start}", f"is not valid CSV ({error})", FIX_FILE) from None


def _next_row(reader: Iterator[list[str]]) -> list[str] | None:
    # The limit is the whole process's: raised for one row, so that a table left half read leaves others their limit.
    limit = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


def _parse_lines(lines: Iterator[Line], delimiter: str) -> Iterator[_Row]:
    """Yield a row per line. A quoted cell may not run on over lines: one that was opened by mistake would take all
    that follows with it; in a table of tabs, it would take what follows in its line."""
    for number, text, problem in lines:
        row: list[str] = []
        if delimiter == "\t":
            row = [_unquote(cell) for cell in text.split("\t")]
        else:
            try:
                row = next(csv.reader([text], delimiter=delimiter, strict=True), [])
            except csv.Error:
                problem = problem or "unreadable_line"
        yield number, row, problem


def _unquote(cell: str) -> str:
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and cell[1:-1].count('"') == 2 * cell[1:-1].count('""')
    return cell[1:-1].replace('""', '"') if is_quoted else cell


def _iterate_objects(path: Path, stage: str, encoding: str) -> _Records:
    """Yield place and record of JSON lines, or of a JSON list of objects."""
    lines, is_list = open_lines(path, stage, encoding, []), path.suffix.lower() == ".json"
    texts = [(0, "".join(text for _, text, _ in lines))] if is_list else ((number, text) for number, text, _ in lines)
    kind: Any = list[dict[str, Any]] if is_list else dict[str, Any]
    decoder = msgspec.json.Decoder(kind, float_hook=WrittenFloat.read)
    for number, text in texts:
        if not is_list and not text.strip():
            continue
        try:
            found = decoder.decode(text)
            refuse_repeated_keys(text)
        except (ValueError, RecursionError) as error:  # also what msgspec raises
            what, where = ("a JSON list of objects", path) if is_list else ("JSON", f"{path} line {number}")
            raise UserError(stage, where, f"is not {what} ({error})", FIX_FILE) from None
        if is_list:
            yield from ((f"{path} record {place}", record) for place, record in enumerate(found, start=1))
        else:
            yield f"{path} line {number}", found


def open_lines(path: Path, stage: str, encoding: str, about: list[str], *, is_log: bool = False) -> Iterator[Line]:
    """Yield the number and the text of every line, with its line end. UTF-8 is read as a stream; other encodings, and
    lines that end in CR alone, are read as a whole and noted in `about`. In a log, a line that is not UTF-8 has a
    problem."""
    given = encoding if encoding.lower() not in ("", "utf-8") else column_profile.find_table_options().encoding
    found = given or table_profile.find_encoding(stage, require_file(path, stage))
    with path.open("rb") as file:
        head = file.read(1 << 16)
    if found.lower().replace("-", "") in ("utf8", "utf8sig") and (b"\n" in head or b"\r" not in head):
        return iterate_whole_lines(path, stage, is_log=is_log)
    about += [f"read as {found}"]
    if not found.lower().startswith("utf-16"):
        require_text(stage, path, head[:4096])
    try:
        text = read_regular(path).decode(found).removeprefix("\ufeff")
    except (UnicodeDecodeError, LookupError):
        raise UserError(stage, path, f"is not valid {found}", "give its encoding, such as gb18030") from None
    text = text if "\n" in text else text.replace("\r", "\n")
    return ((number, line, "") for number, line in enumerate(io.StringIO(text, newline="\n"), start=1))
