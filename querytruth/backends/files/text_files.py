"""Readers for publishers' text files. All raise UserError with the file, the line and the reason.

UTF-8 is required, with or without BOM; lines end in LF or CRLF.
"""

import csv
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

import msgspec

from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.text_formats import refuse_repeated_columns, refuse_repeated_keys, require_text
from querytruth.errors import UserError, translate_read_errors

T = TypeVar("T")
_STAGE = "import"
_root: ContextVar[Path | None] = ContextVar("source_root", default=None)
MAX_LINE_BYTES = 256 << 20  # bytes of a line, which can be an image in base64
_CONVERT = "convert it first, e.g. iconv -f gb18030 -t utf-8"


def import_error(item: object, reason: str, next_step: str = "fix the file, or download it again") -> UserError:
    """Returns the error for a wrong file."""
    return UserError(_STAGE, item, reason, next_step)


@contextmanager
def source_folder(source: Path) -> Iterator[None]:
    """Refuses files that lead out of the source, a folder or the folder of a file, while its files are read."""
    root = source.resolve()
    token = _root.set(root if root.is_dir() else root.parent)
    try:
        yield
    finally:
        _root.reset(token)


def require_file(path: Path) -> Path:
    """Returns the path, if it is a file, and not a link that leads out of the source."""
    root = _root.get()
    if not is_file(path):
        raise import_error(path, "is no file" if os.path.lexists(path) else "is not there", "check the path")
    if root is not None and not path.resolve().is_relative_to(root):
        raise import_error(path, "is a link that leads out of the folder", "put the file there that it stands for")
    return path


def is_file(path: Path) -> bool:
    """Whether the path is a regular file; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or with half a character
        return False


def find_file(folder: Path, names: Sequence[str], description: str) -> Path:
    """Returns the first of the names that is a file in the folder."""
    if not folder.is_dir():
        raise import_error(folder, "is no folder", f"give the folder that holds {description}")
    for name in names:
        if is_file(folder / name):
            return require_file(folder / name)
    raise import_error(folder, f"holds no {description} ({' or '.join(names)})", "check the path, or the chosen split")


def iterate_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields number (from 1) and text of every line, without its end."""
    for number, line in _whole_lines(path):
        yield number, line.removesuffix("\n").removesuffix("\r")


def _whole_lines(path: Path) -> Iterator[tuple[int, str]]:
    require_file(path)
    with translate_read_errors(_STAGE, path, "fix that"), path.open("rb") as file:
        require_text(_STAGE, path, file.peek(4096))
        number = 0
        while data := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(data) > MAX_LINE_BYTES:
                raise import_error(f"{path} line {number}", f"is longer than {MAX_LINE_BYTES >> 20} MB")
            yield number, _decoded(data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data, path, number)


def _decoded(data: bytes, path: Path, line: int) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"is no UTF-8 (byte 0x{data[error.start]:02x} at column {error.start + 1}; GBK, perhaps)"
        raise import_error(f"{path} line {line}", reason, _CONVERT) from None
    if "\x00" in text:
        raise import_error(f"{path} line {line}", "holds a NUL character")
    return text


def iterate_json_lines(path: Path, record_type: type[T]) -> Iterator[tuple[int, T]]:
    """Yields number and record of every line that is not blank; `record_type` is a type for msgspec."""
    decoder = msgspec.json.Decoder(record_type)
    for number, line in iterate_lines(path):
        if line.strip():
            try:
                record = decoder.decode(line)
                refuse_repeated_keys(line)
            except (ValueError, RecursionError) as error:  # also what msgspec raises
                raise import_error(f"{path} line {number}", _decode_error_reason(error)) from None
            yield number, record


def read_json_file(path: Path, record_type: type[T]) -> T:
    """Returns the content of a JSON file."""
    with translate_read_errors(_STAGE, path, "fix that"):
        data = read_regular(require_file(path))
    require_text(_STAGE, path, data[:4096])
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        content = msgspec.json.decode(data, type=record_type)
        refuse_repeated_keys(data)
        return content
    except (ValueError, RecursionError) as error:  # also what msgspec raises
        reason = "is no UTF-8 (GBK, perhaps)" if isinstance(error, UnicodeDecodeError) else _decode_error_reason(error)
        raise import_error(path, reason) from None


def _decode_error_reason(error: Exception) -> str:
    """Returns msgspec's message with `images[3].id` instead of `$.images[3].id`."""
    return f"is not as expected: {str(error).splitlines()[0].replace('$.', '')}"


def iterate_csv_rows(path: Path, columns: Sequence[str], delimiter: str = ",") -> Iterator[tuple[int, dict[str, str]]]:
    """Yields line number and cells of every row; the header must have the columns, and may have others."""
    rows = _csv_records(path, delimiter)
    _, header = next(rows, (1, []))
    if missing := [name for name in columns if name not in header]:
        raise import_error(f"{path} line 1", f"has no column {missing[0]!r} (it has {', '.join(header) or 'none'})")
    refuse_repeated_columns(_STAGE, f"{path} line 1", header, columns)
    for number, row in rows:
        if len(row) != len(header):
            raise import_error(f"{path} line {number}", f"has {len(row)} cells, the header {len(header)}")
        yield number, dict(zip(header, row, strict=True))


def _csv_records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the records, each with the number of its first line; a quoted cell may contain line ends."""
    at = 0

    def lines() -> Iterator[str]:
        nonlocal at
        for at, line in _whole_lines(path):  # noqa: B007 - the reader's position
            yield line

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    start = 1
    try:
        while (row := _next_row(reader)) is not None:
            if row:
                yield start, row
            start = at + 1
    except csv.Error as error:
        raise import_error(f"{path} line {start}", f"is no CSV ({error})") from None


def _next_row(reader: Iterator[list[str]]) -> list[str] | None:
    # The limit is the whole process's: raised for one row, so that a table left half read leaves others their limit.
    limit = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


def split_id_and_text(line: str, path: Path, number: int) -> tuple[str, str]:
    """Splits a line at the first tab, else the first blank, into an id and a text."""
    for mark in ("\t", " "):
        name, found, text = line.partition(mark)
        if found and name.strip():
            return name.strip(), text.strip()
    raise import_error(f"{path} line {number}", "is no id with a text after it")


def detect_language(text: str) -> str:
    """Returns zh for a text with a Chinese character, else en."""
    return "zh" if any("\u3400" <= c <= "\u9fff" or "\U00020000" <= c <= "\U0003ffff" for c in text) else "en"
