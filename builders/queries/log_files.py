"""The lines of a search log: a text per line (.txt), a table (.csv, .tsv, .xlsx), or JSON lines.

A line that cannot be read is a line, with a reason: a log of a million lines has some. No error shows a line's content,
which may be private.
"""

from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from builders.queries.definition import LogColumnOptions
from querytruth.backends.files import column_profile, table_profile
from querytruth.backends.files.spreadsheet_rows import NumberCell
from querytruth.backends.files.table_rows import SHEET_SUFFIX, Table, open_lines, open_table
from querytruth.backends.files.text_files import Line, import_error, is_file
from querytruth.errors import suggest_choice, translate_read_errors
from querytruth.sets.text_sieve import find_private_kind

_USUAL_NAMES: dict[str, list[str]] = table_profile.COLUMN_NAMES["log"]
_TEXT, _LINES = ".txt", ".jsonl"
FORMATS = (_TEXT, ".csv", ".tsv", _LINES, SHEET_SUFFIX)
_FEWEST = 3  # rows by which a column of numbers shows


class LogLine(NamedTuple):
    """A line of a log; `problem` is the reason of one that cannot be read, `count` as it is written."""

    number: int
    text: str
    id: str = ""
    count_text: str = ""
    language: str = ""
    topic: str = ""
    problem: str = ""


def open_log(path: Path, columns: LogColumnOptions) -> tuple[str, list[str], Iterator[LogLine]]:
    """Return, by the suffix of a log, its column separator, its detected format, and its lines without a table's
    header. Raises UserError if it is not a file, has another format or encoding, or lacks the columns."""
    if not is_file(path):
        raise import_error(path, "is not a file", "set `queries` in the definition to the file of the log")
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise import_error(path, f"unknown format; use {', '.join(FORMATS)}", "rename it to its format, or convert it")
    with translate_read_errors("read log", path):
        about: list[str] = []
        texts = iter(()) if suffix == SHEET_SUFFIX else open_lines(path, "read log", "", about, is_log=True)
        lines = ((number, text.rstrip("\r\n"), problem) for number, text, problem in texts)
        if suffix == _TEXT:
            return "", about, (LogLine(number, text, problem=why) for number, text, why in lines)
        if suffix == _LINES:
            return "", about, _iterate_objects(lines, columns)
        usual = [*chain(*_USUAL_NAMES.values()), *filter(None, columns.model_dump().values())]
        table = open_table(path, usual, "read log", lines=lines)
        places, unread = _find_columns(path, table, columns)
        named = [f"{name}: {table.columns[place]!r}" for name, place in places.items()]
        about += [*table.about, *named, f"not read: {', '.join(unread)}" if unread else ""]
        return table.delimiter, about, _iterate_table(table, places)


def check_log(path: Path, columns: LogColumnOptions) -> str:
    """Return the log with its size and its detected format. Raises UserError if its first line cannot be read."""
    _, about, lines = open_log(path, columns)
    next(lines, None)
    return "; ".join(filter(None, [f"{path}, {path.stat().st_size / 1e6:,.1f} MB", *about]))


def _iterate_table(table: Table, places: dict[str, int]) -> Iterator[LogLine]:
    for number, row, problem in table.rows:
        if problem or (any(row) and len(row) > len(table.columns)):
            yield LogLine(number, "", problem=problem or "unreadable_line")
            continue
        cells = {name: row[place] for name, place in places.items() if place < len(row)}
        if isinstance(cells.get("text"), NumberCell):
            yield LogLine(number, "", problem="not_a_text")
            continue
        yield _build_line(number, {name: cell.strip() for name, cell in cells.items()})


def _build_line(number: int, cells: dict[str, str]) -> LogLine:
    id_, count, language, topic = (cells.get(name, "") for name in ("id", "count", "language", "topic"))
    return LogLine(number, cells.get("text", ""), id_, count, language, topic)


def _find_columns(path: Path, table: Table, columns: LogColumnOptions) -> tuple[dict[str, int], list[str]]:
    """Return the place of each column that is named in the options, or by a usual name, and the names of the others.
    Raises UserError, also where each text is there once and no column is known to be its number."""
    header = [cell.strip() for cell in table.columns]
    shown = [name for name in header if name and not find_private_kind(name)][:20]
    folded = [table_profile.fold_name(name) for name in header]
    places = {}
    for name, wanted in columns.model_dump().items():
        if wanted == "":
            continue
        if wanted is not None and header.count(wanted) != 1:
            problem = f"has no column {wanted!r}" if wanted not in header else f"has the column {wanted!r} twice"
            raise import_error(path, problem, suggest_choice(wanted, shown))
        usual = [place for place, one in enumerate(folded) if one in _USUAL_NAMES[name]]
        if name == "count":
            usual.sort(key=lambda place: _USUAL_NAMES["count"].index(folded[place]))
        if wanted is not None or len(usual) == 1 or (name == "count" and usual):
            places[name] = usual[0] if wanted is None else header.index(wanted)
        elif name == "text":
            problem = "has several columns that may hold the queries" if usual else "has no column `query` or `text`"
            next_step = "set it with --set columns.text=…; save a file of texts only as .txt"
            raise import_error(path, f"{problem} (it has {', '.join(shown) or 'none'})", next_step)
    unread = [name for place, name in enumerate(header) if place not in places.values() and name in shown]
    if "count" not in places and columns.count is None and (found := _find_uncounted(table, places)):
        name, cells = header[found[0]], ", ".join(found[1])
        reason = f"has each query only once and no known count column; {name!r} contains {cells} …"
        raise import_error(path, reason, f"set columns.count: {name!r}, or '' if no column counts the queries")
    return places, unread


def _find_uncounted(table: Table, places: dict[str, int]) -> tuple[int, list[str]] | None:
    """Return a column of falling whole numbers beside texts that differ from each other, and three of its values."""
    head, form = table.head, column_profile.NumberForm(".", is_whole=True)
    texts = [row[places["text"]] for row in head]
    if len(texts) < _FEWEST or len(set(texts)) < len(texts):
        return None
    for place in range(len(table.columns)):
        cells = [row[place] for row in head]
        numbers = [form.read(cell.replace(".", "").replace(",", "")) or 0 for cell in cells]
        rising = sum(one < other for one, other in pairwise(numbers))
        if place not in places.values() and all(numbers) and 10 * rising <= len(numbers) and len(set(numbers)) > 1:
            return place, cells[:3]
    return None


def _iterate_objects(lines: Iterator[Line], columns: LogColumnOptions) -> Iterator[LogLine]:
    """Yield the objects, or bare texts, of JSON lines; each line has keys of its own."""
    wanted = {name: (given,) if given else _USUAL_NAMES[name] for name, given in columns.model_dump().items()}
    for number, text, problem in lines:
        if problem or not text.strip():
            yield LogLine(number, "", problem=problem)
            continue
        try:
            value = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            value = None
        found = {"text": value} if isinstance(value, str) else None
        if isinstance(value, dict):
            found = {name: value[key] for name in wanted for key in wanted[name][::-1] if key in value}
        if found is None or not isinstance(found.get("text"), str):
            yield LogLine(number, "", problem="unreadable_line")
            continue
        cells = {name: str(one) for name, one in found.items() if isinstance(one, str | int | float)}
        yield _build_line(number, cells)
