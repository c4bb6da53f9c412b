"""Readers for publishers' text files. All raise UserError with the file, the line and the reason.

UTF-8 is required, with or without BOM; lines end in LF or CRLF.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

import msgspec

from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.text_formats import refuse_repeated_keys, require_text
from querytruth.defaults import hold_value
from querytruth.errors import UserError, translate_read_errors

T = TypeVar("T")
Line = tuple[int, str, str]  # number, text, and the problem of one that cannot be read
_STAGE = "import"
_root: ContextVar[Path | None] = ContextVar("source_root", default=None)
MAX_LINE_BYTES = 256 << 20  # bytes of a line, which can be an image in base64
CONVERT = "convert it first (iconv -f gb18030 -t utf-8), or set its encoding where there is an option"
FIX_FILE = "fix the file, or download it again"


def import_error(item: object, reason: str, next_step: str = FIX_FILE) -> UserError:
    """Return the error for a wrong file."""
    return UserError(_STAGE, item, reason, next_step)


def source_folder(source: Path) -> AbstractContextManager[None]:
    """Refuse files that lead out of the source, a folder or the folder of a file, while its files are read."""
    root = source.resolve()
    return hold_value(_root, root if root.is_dir() else root.parent)


def require_file(path: Path, stage: str = _STAGE) -> Path:
    """Return the path, if it is a file, and not a link that leads out of the source."""
    root = _root.get()
    if not is_file(path):
        raise UserError(
            stage, path, "is not a regular file" if os.path.lexists(path) else "does not exist", "check the path"
        )
    if root is not None and not path.resolve().is_relative_to(root):
        raise UserError(stage, path, "is a link to a file outside the folder", "replace it by the file it points to")
    return path


def is_file(path: Path) -> bool:
    """Return whether the path is a regular file; False for an impossible name."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or with half a character
        return False


def find_file(folder: Path, names: Sequence[str], description: str) -> Path:
    """Return the first of the names that is a file in the folder."""
    if not folder.is_dir():
        raise import_error(folder, "is not a folder", f"give the folder that holds {description}")
    for name in names:
        if is_file(folder / name):
            return require_file(folder / name)
    raise import_error(folder, f"has no {description} ({' or '.join(names)})", "check the path, or the chosen split")


def iterate_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of every line, without its end."""
    for number, line, _ in iterate_whole_lines(path, _STAGE):
        yield number, line.removesuffix("\n").removesuffix("\r")


def iterate_whole_lines(path: Path, stage: str, *, is_log: bool = False) -> Iterator[Line]:
    """Yield the number and the text of every line, with its line end. In a log, a line that is not UTF-8 has a
    problem."""
    require_file(path, stage)
    with translate_read_errors(stage, path, "fix that"), path.open("rb") as file:
        require_text(stage, path, file.peek(4096))
        number = 0
        while data := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(data) > MAX_LINE_BYTES:
                raise UserError(stage, f"{path} line {number}", f"is longer than {MAX_LINE_BYTES >> 20} MB", FIX_FILE)
            try:
                text = (data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data).decode("utf-8")
            except UnicodeDecodeError as error:
                if is_log:
                    yield number, "", "not_utf8"
                    continue
                reason = f"is not UTF-8 (byte 0x{data[error.start]:02x} at column {error.start + 1}; possibly GBK)"
                raise UserError(stage, f"{path} line {number}", reason, CONVERT) from None
            if "\x00" in text and is_log:
                text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
            elif "\x00" in text:
                raise UserError(stage, f"{path} line {number}", "contains a NUL character", FIX_FILE)
            yield number, text, ""


def iterate_json_lines(path: Path, record_type: type[T]) -> Iterator[tuple[int, T]]:
    """Yield number and record of every line that is not blank; `record_type` is a type for msgspec."""
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
    """Return the content of a JSON file."""
    with translate_read_errors(_STAGE, path, "fix that"):
        data = read_regular(require_file(path))
    require_text(_STAGE, path, data[:4096])
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        content = msgspec.json.decode(data, type=record_type)
        refuse_repeated_keys(data)
        return content
    except (ValueError, RecursionError) as error:  # also what msgspec raises
        reason = "is not UTF-8 (possibly GBK)" if isinstance(error, UnicodeDecodeError) else _decode_error_reason(error)
        raise import_error(path, reason) from None


def _decode_error_reason(error: Exception) -> str:
    """Return msgspec's message with `images[3].id` instead of `$.images[3].id`."""
    return f"is invalid: {str(error).splitlines()[0].replace('$.', '')}"


def split_id_and_text(line: str, path: Path, number: int) -> tuple[str, str]:
    """Split a line at the first tab, else the first blank, into an id and a text."""
    for mark in ("\t", " "):
        name, found, text = line.partition(mark)
        if found and name.strip():
            return name.strip(), text.strip()
    raise import_error(f"{path} line {number}", "is not an id followed by a text")
