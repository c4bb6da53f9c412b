"""The rows of the first sheet of an .xlsx file (ECMA-376), one after the other: a sheet may have a million."""

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, iterparse

from querytruth.errors import UserError

_MAX_BYTES = 4 << 30  # of a part, unpacked
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")  # a character that XML cannot hold, or an underscore before such a text
_SHEET = re.compile(r"xl/worksheets/sheet(\d+)\.xml")


def iterate_sheet_rows(path: Path, stage: str = "import") -> Iterator[tuple[int, list[str]]]:
    """Yields number and cells of each row, as text; what a cell displays by a format is not computed. Raises UserError
    for a file that is no .xlsx."""
    try:
        with zipfile.ZipFile(path) as archive:
            sheets = sorted(
                (int(found[1]), found[0]) for name in archive.namelist() if (found := _SHEET.fullmatch(name))
            )
            if not sheets:
                raise UserError(stage, path, "holds no sheet", "save the table as .xlsx or CSV")
            if any(part.file_size > _MAX_BYTES for part in archive.infolist()):
                raise UserError(stage, path, f"unpacks to more than {_MAX_BYTES >> 30} GB", "save the table as CSV")
            shared = _read_shared_texts(archive)
            with archive.open(sheets[0][1]) as sheet:
                yield from _iterate_rows(sheet, shared)
    except (
        zipfile.BadZipFile,
        zlib.error,
        ParseError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        IndexError,
    ) as error:
        raise UserError(
            stage, path, f"is no readable .xlsx ({type(error).__name__})", "save the table as CSV"
        ) from None


def _read_shared_texts(archive: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    with archive.open("xl/sharedStrings.xml") as file:
        return [_join_texts(item) for item in _iterate_elements(file, "si")]


def _iterate_rows(sheet: object, shared: list[str]) -> Iterator[tuple[int, list[str]]]:
    for position, row in enumerate(_iterate_elements(sheet, "row"), start=1):
        cells: list[str] = []
        for cell in row:
            if (place := _column_of(cell.get("r", ""))) is not None:
                cells += [""] * (min(place, 1 << 14) - len(cells))
            cells.append(_read_cell(cell, shared))
        yield int(row.get("r", position)), cells


def _iterate_elements(file: object, name: str) -> Iterator[Element]:
    """Yields the elements of a name, and takes each out of the tree afterwards: the file is never in memory as a whole.
    Those after it may be there already, in part: the parser is ahead by as much as it reads at once."""
    within: list[Element] = []
    for event, element in iterparse(file, ("start", "end")):  # type: ignore[call-overload]
        if event == "start":
            within.append(element)
            continue
        within.pop()
        if element.tag.rpartition("}")[2] == name:
            yield element
            within[-1].remove(element)


def _column_of(reference: str) -> int | None:
    """Returns the place from 0 of a cell such as AB12."""
    place = 0
    for letter in reference.rstrip("0123456789"):
        place = place * 26 + ord(letter) - 64
    return place - 1 if place > 0 else None


def _read_cell(cell: Element, shared: list[str]) -> str:
    kind = cell.get("t")
    value = next((part.text or "" for part in cell if part.tag.rpartition("}")[2] == "v"), "")
    if kind == "s":
        return shared[int(value)] if value.isdigit() else ""
    return _join_texts(cell) if kind == "inlineStr" else value


def _join_texts(element: Element) -> str:
    """Returns the text of all runs, without that of phonetic guides."""
    runs = [part for part in element if part.tag.rpartition("}")[2] in ("t", "r", "is")]
    if not runs:
        return ""
    return "".join(
        _ESCAPED.sub(lambda found: chr(int(found[1], 16)), run.text or "")
        if run.tag.rpartition("}")[2] == "t"
        else _join_texts(run)
        for run in runs
    )
