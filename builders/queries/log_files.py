"""The lines of a search log: a text per line (.txt), a table (.csv, .tsv, .xlsx), or JSON lines.

A line that cannot be read is a line, with a reason: a log of a million lines has some. No error shows a line's content,
which may be private.
"""

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from builders.queries.definition import LogColumnOptions
from builders.queries.log_texts import find_private_kind
from querytruth.backends.files.spreadsheet_rows import iterate_sheet_rows
from querytruth.backends.files.text_files import CONVERT, find_csv_delimiter, import_error, is_file
from querytruth.backends.files.text_formats import require_text
from querytruth.errors import suggest_choice, translate_read_errors

_MAX_LINE = 1 << 20  # bytes
_USUAL_NAMES = {
    "text": (
        *("text", "query", "query_text", "q", "keyword", "keywords", "search"),
        *("search_term", "search_terms", "search_query", "search_keyword", "top_queries"),
        *("搜索词", "查询", "查询词", "关键词", "关键字", "搜索关键词"),
    ),
    "id": ("id", "_id", "query_id", "qid", "text_id", "编号"),
    "count": (
        *("count", "frequency", "freq", "searches", "hits", "pv", "impressions", "total_unique_searches"),
        *("次数", "搜索次数", "搜索量", "查询次数", "展示次数"),
    ),
    "language": ("language", "lang", "语言"),
    "topic": ("topic", "category", "主题", "类目"),
}
_COUNT = re.compile(r"\d{1,3}(?:,\d{3})+|\d{1,12}(?:\.0+)?")
FORMATS = (".txt", ".csv", ".tsv", ".jsonl", ".xlsx")


class LogLine(NamedTuple):
    """A line of a log; `problem` is the reason of one that cannot be read."""

    number: int
    text: str
    id: str = ""
    searches: int = 1
    language: str = ""
    topic: str = ""
    problem: str = ""


def iterate_log_lines(path: Path, columns: LogColumnOptions, advance: Callable[[int], object]) -> Iterator[LogLine]:
    """Yields the lines of a log by its suffix, without a table's header; `advance` is called with the bytes read.
    Raises UserError for a file that is none, of another format, or without the columns."""
    if not is_file(path):
        raise import_error(path, "is no file", "give the log as `queries` in the definition")
    if path.suffix.lower() not in FORMATS:
        raise import_error(path, f"is none of {', '.join(FORMATS)}", "rename it by what it holds, or convert it")
    with translate_read_errors("read log", path):
        if path.suffix.lower() == ".xlsx":
            advance(path.stat().st_size)
            yield from _iterate_table(path, ((number, row, "") for number, row in iterate_sheet_rows(path)), columns)
            return
        lines = _iterate_texts(path, advance)
        if path.suffix.lower() == ".txt":
            yield from (LogLine(number, text, problem=problem) for number, text, problem in lines)
        elif path.suffix.lower() == ".jsonl":
            yield from _iterate_objects(lines, columns)
        else:
            records = _iterate_csv(path, lines) if path.suffix.lower() == ".csv" else _iterate_tsv(lines)
            yield from _iterate_table(path, records, columns)


def check_log(path: Path, columns: LogColumnOptions) -> str:
    """Returns the log with its size. Raises UserError where its first line cannot be read."""
    next(iterate_log_lines(path, columns, lambda _size: None), None)
    return f"{path}, {path.stat().st_size / 1e6:,.1f} MB"


def _iterate_texts(path: Path, advance: Callable[[int], object]) -> Iterator[tuple[int, str, str]]:
    """Yields number, text and problem of each line; a line over the limit is read on, and counts once."""
    with path.open("rb") as file:
        require_text("read log", path, file.peek(4096))
        number, is_rest = 0, False
        while data := file.readline(_MAX_LINE):
            advance(len(data))
            is_whole = data.endswith(b"\n") or len(data) < _MAX_LINE
            if not is_rest:
                number += 1
                data = data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data
                try:
                    text = data.decode("utf-8").removesuffix("\n").removesuffix("\r") if is_whole else ""
                    yield number, text.replace("\0", "\N{REPLACEMENT CHARACTER}"), "" if is_whole else "too_long"
                except UnicodeDecodeError:
                    yield number, "", "not_utf8"
            is_rest = not is_whole


def _iterate_tsv(lines: Iterator[tuple[int, str, str]]) -> Iterator[tuple[int, list[str], str]]:
    for number, text, problem in lines:
        yield number, [_unquote(cell) for cell in text.split("\t")], problem


def _unquote(cell: str) -> str:
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and cell[1:-1].count('"') == 2 * cell[1:-1].count('""')
    return cell[1:-1].replace('""', '"') if is_quoted else cell


def _iterate_csv(path: Path, lines: Iterator[tuple[int, str, str]]) -> Iterator[tuple[int, list[str], str]]:
    """Yields a record per line. A quoted cell may not run on over lines: one that was opened by mistake would take all
    that follows with it."""
    delimiter = find_csv_delimiter(path)
    for number, text, problem in lines:
        try:
            row = next(csv.reader([text], delimiter=delimiter, strict=True), [])
        except csv.Error:
            row, problem = [], problem or "unreadable_line"
        yield number, row, problem


def _iterate_table(
    path: Path, records: Iterator[tuple[int, list[str], str]], columns: LogColumnOptions
) -> Iterator[LogLine]:
    header = _read_header(path, records)
    places = _find_columns(path, header, columns)
    for number, row, problem in records:
        if problem or (any(row) and len(row) > len(header)):
            yield LogLine(number, "", problem=problem or "unreadable_line")
            continue
        cells = {name: row[place].strip() for name, place in places.items() if place < len(row)}
        yield _build_line(number, cells)


def _read_header(path: Path, records: Iterator[tuple[int, list[str], str]]) -> list[str]:
    """Returns the first row with a text that is no comment: analytics services put their own name above it."""
    for _, row, problem in records:
        if problem:
            reason = "has a first row that is no UTF-8 (GBK, perhaps)" if problem == "not_utf8" else "has no first row"
            raise import_error(path, reason, CONVERT)
        text = "".join(row).strip()
        if text and not text.startswith("#"):
            return [cell.strip() for cell in row]
    return []


def _build_line(number: int, cells: dict[str, str]) -> LogLine:
    count = cells.get("count", "")
    value = int(count.partition(".")[0].replace(",", "")) if _COUNT.fullmatch(count) else 0 if count else 1
    names = (cells.get(name, "") for name in ("id", "language", "topic"))
    id_, language, topic = names
    return LogLine(number, cells.get("text", ""), id_, value, language, topic, "" if value else "wrong_count")


def _find_columns(path: Path, header: Sequence[str], columns: LogColumnOptions) -> dict[str, int]:
    """Returns the place of each column that is named in the options, or by a usual name. Raises UserError."""
    shown = [name for name in header if name and not find_private_kind(name)][:20]
    folded = [name.casefold().replace(" ", "_") for name in header]
    places = {}
    for name, wanted in columns.model_dump().items():
        if wanted is not None and header.count(wanted) != 1:
            problem = f"has no column {wanted!r}" if wanted not in header else f"has the column {wanted!r} twice"
            raise import_error(path, problem, suggest_choice(wanted, shown))
        usual = [place for place, one in enumerate(folded) if one in _USUAL_NAMES[name]]
        if wanted is not None or len(usual) == 1:
            places[name] = usual[0] if wanted is None else header.index(wanted)
        elif name == "text":
            problem = "has several columns that may hold the queries" if usual else "has no column query or text"
            next_step = "name it with --set columns.text=…; a file of texts alone is a .txt"
            raise import_error(path, f"{problem} (it has {', '.join(shown) or 'none'})", next_step)
    return places


def _iterate_objects(lines: Iterator[tuple[int, str, str]], columns: LogColumnOptions) -> Iterator[LogLine]:
    """Yields the objects, or bare texts, of JSON lines; each line has keys of its own."""
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
