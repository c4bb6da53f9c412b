"""Properties of a whole file of rows, found before any row is read: its encoding, delimiter, header and end."""

import csv
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from querytruth.backends.files.column_profile import is_number
from querytruth.backends.files.text_formats import read_package_yaml, require_text
from querytruth.backends.steps import current_run
from querytruth.errors import UserError

COLUMN_NAMES: dict[str, Any] = read_package_yaml(Path(__file__).with_name("column_names.yaml"))
_HEAD_CHARACTERS = 1 << 12  # of a line
HEAD_ROWS = 200  # by which a table is known
_DELIMITERS = ",;\t|"
_ENCODINGS = ("gb18030", "big5", "cp932", "euc_kr", "cp1251", "cp1252")
_ASCII = re.compile("[\x00-\x7f]+")
_LONGEST = 120  # bytes of a line that is shown in other encodings


def report_profile(path: Path, *facts: str) -> None:
    """Report in one line how a file is read."""
    if any(facts):
        current_run().reporter.log(f"{path.name}: {'; '.join(filter(None, facts))}")


def find_encoding(stage: str, path: Path) -> str:
    """Return utf-8 or the UTF-16 variant of a file. Raises UserError if more than a tenth of the lines with non-ASCII
    letters are not UTF-8; the message shows the text in other encodings, without ASCII, which may be private."""
    total, wrong = 0, list[bytes]()
    with path.open("rb") as file:
        head = file.peek(4096)[:4096]
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-16"
        if b"\0" in head[:2] and len(head) > 1:
            return "utf-16-le" if head[1] == 0 else "utf-16-be"
        require_text(stage, path, head)
        for line in file:
            if not line.isascii():
                total += 1
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    wrong.append(line[:_LONGEST] if len(wrong) < HEAD_ROWS else b"")
    if 10 * len(wrong) <= total:
        return "utf-8"
    read = {name: text for name in _ENCODINGS if (text := _decode_rows(wrong[:HEAD_ROWS], name))}
    shown = "; ".join(f"{name}: {text}" for name, text in list(read.items())[:4]) or "none"
    reason = f"is not UTF-8 in {len(wrong):,} of {total:,} lines with non-ASCII letters; other encodings: {shown}"
    option = f"tables.encoding: {' or '.join(list(read)[:4]) or 'gb18030'}"
    raise UserError(stage, path, reason, f"set its encoding ({option}), or save it as UTF-8")


def _decode_rows(rows: Sequence[bytes], encoding: str) -> str:
    """Return what is not ASCII of the first three rows in an encoding; "" where one of all does not fit it."""
    try:
        texts = [row.decode(encoding, "strict" if len(row) < _LONGEST else "ignore") for row in rows]
    except UnicodeDecodeError:
        return ""
    texts = [_ASCII.sub(" ", text).strip() for text in texts]
    return ", ".join(f"“{text[:16]}”" for text in texts[:3]) if "".join(texts).isprintable() else ""


def fold_name(name: str) -> str:
    """Return the name of a column without differences of case, width and blanks."""
    return unicodedata.normalize("NFKC", name).strip().casefold().replace(" ", "_")


def find_header(rows: Sequence[Sequence[str]], usual: Iterable[str]) -> tuple[int, int]:
    """Return the index of the row that names the columns, and how many of the usual names it has: the row with the most
    of them, else the first with a text that is not a comment."""
    known = set(map(fold_name, usual))
    scores = [len(known & set(map(fold_name, row))) for row in rows]
    if any(scores):
        return scores.index(max(scores)), max(scores)
    texts = ["".join(row).strip() for row in rows]
    return next((n for n, text in enumerate(texts) if text and not text.startswith("#")), 0), 0


def find_delimiter(lines: Sequence[str], usual: Iterable[str]) -> str:
    """Return the column delimiter: the one that gives a row most of the usual names, then the one that gives most rows
    the same number of cells."""

    def rate(delimiter: str) -> tuple[int, int]:
        rows = [
            row
            for row in csv.reader((line[:_HEAD_CHARACTERS].replace("\r", " ") for line in lines), delimiter=delimiter)
            if any(row)
        ]
        place, known = find_header(rows, usual)
        widths = [len(row) for row in rows]
        width = widths[place] if known else max(set(widths), key=widths.count, default=1)
        return known, widths.count(width) if width > 1 else 0

    return max(_DELIMITERS, key=rate)


class TableShape(NamedTuple):
    """The position of a table in its file: the row of its header, its columns from `first` to `end`, and which of these
    hold numbers."""

    header: int
    first: int
    end: int
    numbers: list[int]
    usual: frozenset[str]

    def is_other(self, cells: Sequence[str], *, is_ragged: bool) -> bool:
        """Return whether a row after an empty one belongs to another table, or to a note below. `is_ragged`: rows of
        another table may have fewer cells."""
        if len(self.usual & set(map(fold_name, cells))) > 1 or (is_ragged and len(cells) < self.end):
            return True
        numbers = [cells[place] for place in self.numbers if place < len(cells)]
        return bool(self.numbers) and (not any(numbers) or any(cell and not is_number(cell) for cell in numbers))


def find_shape(rows: Sequence[Sequence[str]], usual: Iterable[str]) -> TableShape:
    """Return the position of the table in these first rows of a file. If tables are side by side, with an empty column
    between them, it is the one with most of the usual names."""
    known = frozenset(map(fold_name, usual))
    place = find_header(rows, usual)[0]
    header, below = (rows[place] if rows else []), [row for row in rows[place + 1 :] if any(row)]
    own = list(takewhile(any, dropwhile(lambda row: not any(row), rows[place + 1 :])))[:20]  # above an empty row
    columns = [[row[n] for row in below if n < len(row)] for n in range(len(header))]
    gaps = [n for n, name in enumerate(header) if not name.strip() and not any(columns[n])]
    bounds = [-1, *gaps, len(header)]
    blocks = [(one + 1, other) for one, other in pairwise(bounds) if other > one + 1] or [(0, len(header))]
    first, end = max(blocks, key=lambda block: len(known & set(map(fold_name, header[slice(*block)]))))
    filled = [[row[n] for row in own if n < len(row) and row[n]] for n in range(len(header))]
    numbers = [n for n in range(first, end) if len(filled[n]) > 1 and all(map(is_number, filled[n]))]
    return TableShape(place, first, end, numbers, known)
