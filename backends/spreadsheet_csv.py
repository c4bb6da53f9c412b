"""CSV for spreadsheets: UTF-8 with BOM, CRLF line ends, and no cell that a spreadsheet runs as a formula, except links
to files."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors

_RISKY = frozenset("=+-@|%'\N{MINUS SIGN}")
_LONGEST_LINK = 255  # characters of a text inside a formula, in Excel


@dataclass(frozen=True, slots=True)
class FileLink:
    """A cell that reads "open" and opens a file. `path`: relative to the folder of the table, with /."""

    path: str

    def to_formula(self) -> str:
        """Returns the cell: the path's quotes, which would end the text inside the formula, are encoded. Empty where
        the path is too long for a spreadsheet."""
        target = re.sub(r'["%#?\x00-\x20\x7f]', lambda found: quote(found[0], safe=""), f"./{self.path}")
        return f'=HYPERLINK("{target}","open")' if len(target) <= _LONGEST_LINK else ""


def write_csv(path: Path, columns: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
    """Replaces the file with a table. Raises UserError where it cannot be written."""
    with translate_write_errors("write table", path):
        write_atomically(path, encode_csv(columns, rows))


def encode_csv(columns: Iterable[object], rows: Iterable[Iterable[object]], first_line: str = "") -> bytes:
    """Returns the bytes of a file, with `first_line`, if given, above the columns. None is an empty cell; a NUL, which
    no spreadsheet accepts, becomes a replacement character."""
    text = io.StringIO(newline="")
    text.write(f"{first_line}\r\n" if first_line else "")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    # Most cells of large tables are numbers, which a call each would cost twice the time.
    writer.writerows([value if isinstance(value, float) else _encode_cell(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8-sig", "replace")


def _encode_cell(value: object) -> object:
    if isinstance(value, FileLink):
        return value.to_formula()
    return escape_formula(value.replace("\x00", "\N{REPLACEMENT CHARACTER}")) if isinstance(value, str) else value


def escape_formula(cell: str) -> str:
    """Returns the cell with an apostrophe before it if a spreadsheet could run it as a formula."""
    return f"'{cell}" if _is_risky(cell) else cell


def unescape_formula(cell: str) -> str:
    """Returns the cell before `escape_formula`; an apostrophe that it would not have added stays."""
    return cell[1:] if cell.startswith("'") and _is_risky(cell[1:]) else cell


def _is_risky(cell: str) -> bool:
    """Whether the first visible character may begin a formula. Blanks and invisible characters (zero-width, direction
    marks, controls) are skipped, because tools strip different ones of them."""
    first = next((c for c in cell if unicodedata.category(c)[0] not in "ZC"), "")
    return unicodedata.normalize("NFKC", first)[:1] in _RISKY or cell.startswith(("\t", "\r", "\n"))
