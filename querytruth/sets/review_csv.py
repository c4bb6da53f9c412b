"""Review tables as CSV for spreadsheets, read back so that no change by the spreadsheet goes unnoticed.

UTF-8 with BOM, CRLF line ends; or the first sheet of an .xlsx. The first row names the columns; the last column, which
is empty below, is named by the export. A cell that looks like a formula or begins with an apostrophe gets a leading
apostrophe, which reading removes. The column "open" links or shows the image of a row where the set has it; reading
ignores the column. Tables in the earlier form, whose first line is the export and whose second the columns, are read,
too.
"""

import csv
import io
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pandas as pd

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.spreadsheet_rows import read_sheet
from querytruth.backends.files.spreadsheet_writing import encode_sheet
from querytruth.backends.files.text_formats import FileLink, encode_csv, escape_formula, unescape_formula
from querytruth.errors import UserError, translate_read_errors
from querytruth.records import list_rows
from querytruth.sets.review_tables import ANSWER_COLUMNS, DIGEST_COLUMN, ImportTolerances, ReviewExport, digest_row

_MARK = re.compile(
    r'"?# querytruth export (e_[0-9a-f]+) ([a-z0-9._-]+/v[0-9]{1,9}) (queries|judgments|audit) ([0-9]{1,12})"?[,;\t "]*'
)
LINK_COLUMN = "open"
_OPENED = re.compile(r"|open|=.*|#.*|Err:.*", re.DOTALL)  # what spreadsheets make of a link: its text, formula, error
_RENDERED_IMAGE = re.compile(r"images/[0-9a-f]{2}/img_[0-9a-f]+\.[a-z0-9]+")  # the path inside a version, or in a list
_MOST_ROWS = 1 << 20  # of a sheet
_LIMIT = 256 << 20  # bytes; a million rows take less
REVIEW_CSV_STAGE = "read review CSV"


def write_review_csv(export: ReviewExport, path: Path, version_folder: Path | None = None) -> None:
    """Write a review table. With `version_folder`, its rows link the images (of a query: its first example) that the
    version has there. Raises UserError for a cell with a NUL character."""
    table = _refuse_nul(export, path)
    if version_folder is not None:
        table = table.assign(**{LINK_COLUMN: _link_images(export, version_folder, path)})
    table = table.assign(**{name_export(export): ""})
    write_atomically(path, encode_csv(table.columns, table.itertuples(index=False)))


def write_review_xlsx(export: ReviewExport, path: Path, thumbnails: Sequence[bytes | None]) -> None:
    """Write a review table as .xlsx, all cells texts, with a JPEG or nothing for each row. Raises UserError for a cell
    with a NUL character."""
    table = _refuse_nul(export, path).map(escape_formula).assign(**{name_export(export): ""})
    rows = [[LINK_COLUMN, *table.columns], *(["", *row] for row in table.itertuples(index=False))]
    write_atomically(path, encode_sheet(rows, [None, *thumbnails]))


def name_export(export: ReviewExport) -> str:
    """Return the name of the last column of a table, which identifies its export."""
    return f"# querytruth export {export.export_id} {export.set_name} {export.view} {export.sample}"


def _refuse_nul(export: ReviewExport, path: Path) -> pd.DataFrame:
    for number, row in enumerate(export.rows.itertuples(index=False), start=2):
        if any("\x00" in cell for cell in row):
            reason = "contains a NUL character, which no spreadsheet keeps"
            raise UserError("export review CSV", f"{path} row {number}", reason, "fix that text in its source")
    return export.rows


def _link_images(export: ReviewExport, version_folder: Path, path: Path) -> list[FileLink | str]:
    """Return for each row of the table at `path` the link to its image, or an empty text."""
    relative = Path(os.path.relpath(version_folder.resolve(), path.parent.resolve())).as_posix()
    rendered = map(_RENDERED_IMAGE.match, export.rows["examples" if export.view == "queries" else "image"])
    return [FileLink(f"{relative}/{found[0]}") if found else "" for found in rendered]


def read_review_csv(path: Path, encoding: str | None = "") -> ReviewExport:
    """Read a review table with any delimiter and line ends; the index of its rows has the numbers that a spreadsheet
    shows. `encoding` applies where the file has no BOM; without one it is None where the user can give it, '' where
    not; UTF-8 needs neither where the digests of its rows prove it. Raises UserError for other files."""
    data = _bytes_of(path)
    if data.startswith(b"PK\x03\x04"):
        return _parse_sheet(path)
    if not encoding and (proved := _read_proved_utf8(path, data)) is not None:
        return proved
    return _parse(path, _decoded(path, data, encoding))


def _read_proved_utf8(path: Path, data: bytes) -> ReviewExport | None:
    """Return the table of UTF-8 without its mark, as LibreOffice saves it, where a text that is not ASCII has the
    digest of its row; else None. GBK that is valid UTF-8 by accident gives other texts, with other digests; that the
    answers alone are valid UTF-8 proves nothing."""
    if data.isascii() or data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return None
    try:
        export = _parse(path, data.decode("utf-8"))
    except (UnicodeDecodeError, UserError):
        return None
    exported = [name for name in export.rows if name not in (*ANSWER_COLUMNS, DIGEST_COLUMN)]
    if DIGEST_COLUMN not in export.rows or not exported:
        return None
    for row in list_rows(export.rows):
        cells = {name: row[name] for name in exported}
        if not all(map(str.isascii, cells.values())) and digest_row(export.export_id, cells) == row[DIGEST_COLUMN]:
            return export
    return None


def _parse(path: Path, text: str) -> ReviewExport:
    lines = io.StringIO(text.lstrip("\ufeff"), newline="")
    names = lines.readline()
    delimiter = max(",;\t", key=names.count)
    if is_above := _MARK.fullmatch(names.strip("\r\n")) is not None:
        delimiter = max(",;\t", key=lines.readline().count)
    lines.seek(0)
    records: list[list[str]] = []
    try:
        for record in csv.reader(lines, delimiter=delimiter, strict=True):
            records.append(record)  # noqa: PERF402 - their number gives the row of an error
    except csv.Error as error:
        place, reason = f"{path} row {len(records) + 1}", f"is not a CSV file ({error})"
        raise UserError(REVIEW_CSV_STAGE, place, reason, "save it again as CSV UTF-8") from None
    return _read_records(path, records, 1 if is_above else 0)


def _parse_sheet(path: Path) -> ReviewExport:
    records: list[list[str]] = []
    for number, cells in read_sheet(path, REVIEW_CSV_STAGE)[1]:
        records += [[]] * (min(number, _MOST_ROWS) - 1 - len(records))  # empty rows may be left out of the file
        records.append(cells)
    return _read_records(path, records, 0)


def _read_records(path: Path, records: list[list[str]], header: int) -> ReviewExport:
    """Return the table whose columns are named in the record `header`; one of them, or the record before, names the
    export."""
    named = records[header - 1 if header else 0][: 1 if header else None] if records else []
    marks = [(place, found) for place, cell in enumerate(named) if (found := _MARK.fullmatch(cell.strip()))]
    if len(marks) != 1:
        reason = "does not name an export (# querytruth export …)"
        raise UserError(REVIEW_CSV_STAGE, f"{path} row 1", reason, "give an exported file with its first line intact")
    ((place, mark),) = marks
    return ReviewExport(mark[1], mark[2], mark[3], _table(path, records, header, -1 if header else place), int(mark[4]))


def _bytes_of(path: Path) -> bytes:
    with translate_read_errors(REVIEW_CSV_STAGE, path):
        if path.exists() and not path.is_file():
            raise UserError(REVIEW_CSV_STAGE, path, "is not a file", "give the exported file")
        if path.stat().st_size > _LIMIT:
            raise UserError(REVIEW_CSV_STAGE, path, f"is larger than {_LIMIT >> 20} MB", "give the exported file")
        return path.read_bytes()


def _decoded(path: Path, data: bytes, encoding: str | None) -> str:
    """Decode by BOM, by `encoding` or as ASCII. UTF-8 is not guessed: a GBK file can be valid UTF-8."""
    give_encoding = "give --encoding gb18030 or utf-8"
    save = "save it as CSV UTF-8" + ("" if encoding == "" else f", or {give_encoding}")
    try:
        if data.startswith(b"\xef\xbb\xbf"):
            return data[3:].decode()
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16")
        if encoding:
            return data.decode(encoding)
        if data.isascii():
            return data.decode("ascii")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(REVIEW_CSV_STAGE, f"{path} line {line}", f"is not valid {error.encoding}", save) from None
    except (LookupError, ValueError):
        raise UserError(REVIEW_CSV_STAGE, path, f"encoding {encoding!r} is unknown", give_encoding) from None
    raise UserError(REVIEW_CSV_STAGE, path, "does not state its encoding (the byte order mark is gone)", save)


def _table(path: Path, records: list[list[str]], first: int, mark: int) -> pd.DataFrame:
    """Return all cells as text by the column names in the record `first`; the column at `mark` is empty. Short rows
    are filled up; columns without a name must be empty."""
    header = [cell.strip() for cell in records[first]] if len(records) > first else []
    header = ["" if place == mark else name for place, name in enumerate(header)]
    where = f"{path} row {first + 1}"
    if not any(header):
        raise UserError(REVIEW_CSV_STAGE, where, "has no column names", "export again")
    if twice := next((name for name in header if name and header.count(name) > 1), None):
        raise UserError(REVIEW_CSV_STAGE, where, f"column {twice!r} occurs twice", "export again")
    named = [place for place, name in enumerate(header) if name and name != LINK_COLUMN]
    rows, numbers = [], range(first + 2, len(records) + 1)
    for number, cells in zip(numbers, records[first + 1 :], strict=True):
        filled = [*cells, *[""] * (len(header) - len(cells))]
        for place, cell in enumerate(filled):
            where = f"{path} row {number}, column {place + 1}"
            if cell.strip() and (place >= len(header) or not header[place]):
                raise UserError(REVIEW_CSV_STAGE, where, "is outside the table columns", "undo the change of columns")
            if header[place : place + 1] == [LINK_COLUMN] and not _OPENED.fullmatch(cell.strip()):
                raise UserError(REVIEW_CSV_STAGE, where, "has an answer in the wrong column", "write it into decision")
            if "\x00" in cell:
                raise UserError(REVIEW_CSV_STAGE, where, "contains a NUL character", "save it again as CSV UTF-8")
        rows.append([unescape_formula(filled[place]) for place in named])
    columns = pd.Index([header[place] for place in named], dtype="str")
    return pd.DataFrame(rows, index=numbers, columns=columns, dtype="str")


@dataclass(frozen=True, slots=True)
class ReviewTableOptions:
    """Options for reading a filled-in CSV: its tolerances, and its encoding where the file does not state it. None: the
    user gave no encoding but could; '': there is no way to give one."""

    allow: ImportTolerances = field(default_factory=ImportTolerances)
    encoding: str | None = ""

    @property
    def allowed(self) -> list[str]:
        """Return the names of what the file may lack."""
        return [name for name, is_allowed in asdict(self.allow).items() if is_allowed]

    @property
    def is_lenient(self) -> bool:
        """Return whether a file is accepted that differs from its export."""
        return bool(self.allowed or self.encoding)
