"""CSV for spreadsheets: UTF-8 with BOM, CRLF line ends, and no cell that a spreadsheet runs as a formula."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable

_RISKY = frozenset("=+-@|%'\N{MINUS SIGN}")


def encode_csv(columns: Iterable[object], rows: Iterable[Iterable[object]], first_line: str = "") -> bytes:
    """Returns the bytes of a file, `first_line` (where it is given) above the columns. None is an empty cell; a NUL,
    which no spreadsheet keeps, becomes a replacement character."""
    text = io.StringIO(newline="")
    text.write(f"{first_line}\r\n" if first_line else "")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(map(_encode_cell, row) for row in rows)
    return text.getvalue().encode("utf-8-sig", "replace")


def _encode_cell(value: object) -> object:
    return escape_formula(value.replace("\x00", "\N{REPLACEMENT CHARACTER}")) if isinstance(value, str) else value


def escape_formula(cell: str) -> str:
    """Nothing that a spreadsheet runs, and undone by `unescape` to the letter."""
    return f"'{cell}" if _is_risky(cell) else cell


def unescape_formula(cell: str) -> str:
    """The cell as it was before `escape`; an apostrophe that `escape` would not have put there stays."""
    return cell[1:] if cell.startswith("'") and _is_risky(cell[1:]) else cell


def _is_risky(cell: str) -> bool:
    """Whether its first visible character, in its plain form, may begin a formula; blanks and what nobody sees
    (zero-width, direction marks, controls) are what tools strip, each its own selection."""
    first = next((c for c in cell if unicodedata.category(c)[0] not in "ZC"), "")
    return unicodedata.normalize("NFKC", first)[:1] in _RISKY or cell.startswith(("\t", "\r", "\n"))
