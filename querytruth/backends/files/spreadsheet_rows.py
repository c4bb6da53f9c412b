"""The rows of a sheet of an .xlsx file, read by calamine in a process with limits: a few kilobytes unpack to gigabytes.

The first tab that is shown and holds something is read, or the one that the options name. A cell that is merged over
several rows counts for each of them. A number has no format here: what is a date, a truth value or a fraction may look
otherwise on the screen, and is a `NumberCell`.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import python_calamine

from querytruth.backends.files.column_profile import find_table_options
from querytruth.backends.images.worker_messages import open_file
from querytruth.backends.images.worker_processes import WorkerFailure, WorkerLimits, map_in_workers
from querytruth.errors import UserError, first_line

_LIMITS = WorkerLimits(seconds=50.0, memory=1300 << 20)  # a million rows of four texts need 965 MB and 11 s
_PART_ROWS = 1 << 12
_rows: dict[str, Iterator[Any]] = {}  # in a worker: of the file that it reads


class NumberCell(str):
    """The text of a cell that is a date, a truth value or a fraction."""


class SheetPart(NamedTuple):
    """A part of a file: number 0 is the name of the sheet and those of the others, then its rows."""

    location: str
    sheet: str | None
    number: int


def read_sheet(path: Path, stage: str) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the name of the sheet that is read, then those of the others that are shown; and its rows."""
    sheet = find_table_options().sheet
    parts = map_in_workers(read_sheet_part, (SheetPart(str(path), sheet, number) for number in count()), _LIMITS)
    return _receive(parts, path, stage), _iterate(parts, path, stage)


def _iterate(parts: Iterator[Any], path: Path, stage: str) -> Iterator[tuple[int, list[str]]]:
    number = 0
    while rows := _receive(parts, path, stage):
        for number, cells in enumerate(rows, number + 1):  # noqa: B020 - goes on where the last part ended
            yield number, [cell if isinstance(cell, str) else NumberCell(cell[0]) for cell in cells]


def _receive(parts: Iterator[Any], path: Path, stage: str) -> Any:
    found = next(parts)
    if isinstance(found, str | WorkerFailure):
        reason = found if isinstance(found, str) else f"{found.reason.replace('_', ' ')}: {found.detail}"
        raise UserError(stage, path, f"is not a readable .xlsx ({reason})", "save the table as CSV or as .xlsx again")
    return found


def read_sheet_part(part: SheetPart) -> list[Any] | str:
    """Return a part of a file, [] after its last row, or why it cannot be read."""
    if part.number == 0:
        _rows[""] = _read(part)
    try:
        return next(_rows[""], [])
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        return first_line(error)


def _read(part: SheetPart) -> Iterator[list[Any]]:
    with open(open_file(part.location, 0), "rb") as file:  # noqa: PTH123 - a descriptor
        book = python_calamine.CalamineWorkbook.from_filelike(file)
        shown = [
            one.name
            for one in book.sheets_metadata
            if one.typ == python_calamine.SheetTypeEnum.WorkSheet
            and (one.visible == python_calamine.SheetVisibleEnum.Visible or one.name == part.sheet)
        ]
        if part.sheet is not None and part.sheet not in shown:
            raise ValueError(f"it has no sheet {part.sheet!r}; its sheets: {', '.join(shown)}")
        filled = (name for name in shown if book.get_sheet_by_name(name).height)
        name = part.sheet or next(filled, None)
        if name is None:
            raise ValueError("it has no visible sheet with data")
        yield [name, *(one for one in shown if one != name)]
        sheet = book.get_sheet_by_name(name)
        rows = [list(map(_to_plain, row)) for row in sheet.to_python(skip_empty_area=False)]
        for (top, left), (bottom, _) in sheet.merged_cell_ranges or ():
            for row in rows[top + 1 : bottom + 1]:
                row[left] = rows[top][left]
        for start in range(0, len(rows), _PART_ROWS):
            yield rows[start : start + _PART_ROWS]


def _to_plain(cell: object) -> str | list[str]:
    """Return the text of a cell; that of a date, a truth value or a fraction in a list."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return [str(cell).upper()]
    if isinstance(cell, int | float):
        return str(int(cell)) if float(cell).is_integer() and abs(cell) < 1e15 else [repr(cell)]
    is_day = isinstance(cell, datetime) and not (cell.hour or cell.minute or cell.second)
    return [str(cell)[: len("2026-03-04")] if is_day else str(cell)]
