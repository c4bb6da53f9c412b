"""Read the arrays of one large JSON object, or one large array, half a megabyte at a time.

COCO-form files are one object of arrays (`images`, `annotations`, `categories`), hundreds of megabytes long. A
window of bytes slides over the file. In an array the window is cut after the last `}` that a comma and a `{`
follow, and `[` + piece + `]` goes to msgspec. If that is valid JSON, the cut was between two records: a cut inside a
nested value or a string would leave a bracket or a quote open. If it is not valid (the array ends in the window, the
cut was no boundary, a NaN), records are parsed one by one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from querytruth.backends.files.safe_paths import open_regular
from querytruth.backends.files.text_formats import require_text, require_unique_keys
from querytruth.errors import UserError

WINDOW = 1 << 19  # bytes: fits a processor's cache, larger windows are slower
LONGEST = 1 << 28  # bytes of one record: a quote that is never closed must not fill the memory
_BOUNDARY = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{")
_BLANK = re.compile(rb"[ \t\r\n]*")
OTHER_FORM = "give a COCO instances file (most annotation tools export it), or tags as .csv or .jsonl"
_TOKEN = 16  # bytes; no JSON literal (-Infinity) or string escape is longer
_DIGITS = 4000  # Python does not parse longer integers


class JsonObjectReader:
    """Reads one JSON file once; `sha256` is complete at the end. Every method raises UserError for a damaged file."""

    def __init__(
        self,
        path: Path,
        progress: Callable[[int], None] = lambda _bytes: None,
        stage: str = "read annotations",
        form: str = OTHER_FORM,
    ) -> None:
        self.path, self._stage, self._form = path, stage, form
        self._progress = progress
        self._digest = hashlib.sha256()
        self._window = b""
        self._text: str | None = None  # the window as one character per byte, decoded on demand
        self._offset = 0  # of the window's first byte in the file
        self._position = 0  # the cursor, in the window
        self._at_end = False

    def __enter__(self) -> JsonObjectReader:
        if self.path.exists() and not self.path.is_file():
            raise self._error("is a folder" if self.path.is_dir() else "is not a file", self._form)
        try:
            self._file = open_regular(self.path)
        except OSError as error:
            raise self._error(f"cannot be opened ({error.strerror})", "check the path in the definition") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def sha256(self) -> str:
        """Return the digest of the bytes read so far."""
        return self._digest.hexdigest()

    def keys(self) -> Iterator[str]:
        """Yield the top-level object's keys in file order; the caller reads or skips each value before the next."""
        if (first := self._first_character()) != "{":
            raise self._error(f"is not a JSON object: it begins with {first!r}" if first else "is empty", self._form)
        self._position += 1
        if self._next_character() == "}":
            self._position += 1
        else:
            yield from self._iterate_members()
        if self._next_character():
            raise self._damage_error("has data after the last closing brace")

    def items(self, decoder: msgspec.json.Decoder[Any], once: Sequence[str]) -> Iterator[tuple[int, list[Any], bool]]:
        """Yield the same as `batches`, for a file that is a single array."""
        if (first := self._first_character()) != "[":
            raise self._error(f"is not a JSON list: it begins with {first!r}" if first else "is empty", self._form)
        yield from self.batches(decoder, once)
        if self._next_character():
            raise self._damage_error("has data after the last closing bracket")

    def _first_character(self) -> str:
        self._read_ahead(3)
        require_text(self._stage, self.path.name, self._window[:4096])
        if self._window.startswith(b"\xef\xbb\xbf"):
            self._position = 3
        return self._next_character()

    def _iterate_members(self) -> Iterator[str]:
        mark = ","
        while mark == ",":
            if self._next_character() != '"':
                raise self._damage_error("a key in double quotes is missing")
            key = str(self.value())
            if self._next_character() != ":":
                raise self._damage_error(f"':' is missing after {key!r}")
            self._position += 1
            yield key
            mark = self._next_character()
            if mark not in (",", "}"):
                raise self._damage_error(f"',' or '}}' is missing after the value of {key!r}")
            self._position += 1

    def skip(self) -> None:
        """Skip the value at the cursor."""
        if self._next_character() == "[":
            for _ in self.batches(msgspec.json.Decoder(list[msgspec.Raw])):
                pass
        else:
            self.value()

    def batches(
        self, decoder: msgspec.json.Decoder[Any], once: Sequence[str] = (), marks: bytes = b""
    ) -> Iterator[tuple[int, list[Any], bool]]:
        """Yield the records of the array at the cursor as (number of the first, records, whether they are typed).

        Where a record does not fit the type, its whole batch consists of plain Python values. A record may have each
        key of `once` only once: which of two values counts would be a guess. `marks`: bytes that no typed record has
        more often than these, unless it has more keys than the type asks for; they are counted several times as fast.
        """
        if self._next_character() != "[":
            raise self._damage_error("an array was expected")
        self._position += 1
        scanner = _make_scanner(once)
        if self._next_character() == "]":
            self._position += 1
            return
        number, mark = 0, ","
        while mark == ",":
            self._read_ahead(WINDOW)
            records, is_typed = self._decode_window(decoder, once, marks, scanner)
            if records is None:
                records, is_typed = self._decode_one_by_one(number, scanner), False
            yield number, records, is_typed
            number += len(records)
            mark = self._next_character()
            if mark not in (",", "]"):
                raise self._damage_error(f"',' or ']' is missing after record {number - 1}")
            self._position += 1

    def _decode_window(
        self, typed_decoder: msgspec.json.Decoder[Any], once: Sequence[str], marks: bytes, scanner: json.JSONDecoder
    ) -> tuple[list[Any] | None, bool]:
        """Return the records up to the window's last boundary; None where they cannot be decoded together."""
        cut = self._last_boundary()
        if not cut:
            return None, False
        piece = b"[" + self._window[self._position : cut] + b"]"
        for decoder, is_typed in ((typed_decoder, True), (msgspec.json.Decoder(), False)):
            try:
                records = decoder.decode(piece)
            except (msgspec.ValidationError, RecursionError):
                continue
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            is_single = is_typed and marks and _has_at_most(piece, marks * len(records) + b"[")
            # Counting is fast; a key that also stands in a nested value, or as a text, is looked at once more.
            if not is_single and any(piece.count(f'"{key}"'.encode()) > len(records) for key in once):
                self._refuse_repeated_keys(piece, scanner)
            self._position = cut
            return records, is_typed
        return None, False

    def _refuse_repeated_keys(self, piece: bytes, scanner: json.JSONDecoder) -> None:
        try:
            scanner.decode(piece.decode("utf-8", "surrogateescape"))
        except ValueError as error:
            raise self._repeated_key_error(error) from None

    def _repeated_key_error(self, error: ValueError) -> UserError:
        return self._error(f"has a record after byte {self._offset + self._position} whose {error}", "keep one of them")

    def _last_boundary(self) -> int:
        """Return the position after the `}` of the window's last `}, {`; 0 where its second half has none."""
        end, half = len(self._window), (self._position + len(self._window)) // 2
        while (brace := self._window.rfind(b"}", half, end)) > 0:
            if _BOUNDARY.match(self._window, brace):
                return brace + 1
            end = brace
        return 0

    def _decode_one_by_one(self, number: int, scanner: json.JSONDecoder) -> list[Any]:
        """Return the records from the cursor to the window's end, including the one that the end cuts."""
        window, records = self._offset, list[Any]()
        while True:
            records.append(self._value(f"record {number + len(records)}: ", scanner))
            if self._next_character() != "," or self._offset != window:
                return records
            self._position += 1

    def value(self, once: Sequence[str] = ()) -> Any:
        """Return the value at the cursor and move the cursor behind it. No object may have a key of `once` twice."""
        return self._value("", _make_scanner(once))

    def _value(self, what: str, scanner: json.JSONDecoder) -> Any:
        """Read on where the window cuts the value. Bytes that are not UTF-8 become lone surrogates. Errors name `what`
        it is."""
        self._next_character()
        while True:
            if self._text is None:
                self._text = self._window.decode("latin-1")
            try:
                value, end = scanner.raw_decode(self._text, self._position)
                if end + _TOKEN < len(self._window) or self._at_end:  # of 12.5 the window may hold `12.`
                    break
            except RecursionError:
                raise self._damage_error(f"{what}nested too deeply", self._position) from None
            except json.JSONDecodeError as error:
                cut = error.pos + _TOKEN > len(self._window) or error.msg.startswith("Unterminated")
                if self._at_end or not cut:
                    raise self._damage_error(f"{what}{error.msg.lower()}", error.pos) from None
            except ValueError as error:
                raise self._repeated_key_error(error) from None
            ahead = len(self._window) - self._position
            if ahead > LONGEST:
                raise self._damage_error(f"{what}no end within {LONGEST} bytes") from None
            self._read_ahead(2 * ahead + 1)
        data, self._position = self._window[self._position : end], end
        return value if data.isascii() else scanner.decode(data.decode("utf-8", "surrogateescape"))

    def _next_character(self) -> str:
        """Move the cursor to the next character that is not blank and return it; '' at the end of the file."""
        while True:
            self._position = _BLANK.match(self._window, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._window) or self._at_end:
                return self._window[self._position : self._position + 1].decode("latin-1")
            self._read_ahead(1)

    def _read_ahead(self, size: int) -> None:
        """Read until `size` bytes follow the cursor, or to the end of the file."""
        lacking, pieces = size - (len(self._window) - self._position), [self._window[self._position :]]
        if lacking <= 0 or self._at_end:
            return
        while lacking > 0 and not self._at_end:
            try:
                data = self._file.read(WINDOW)
            except OSError as error:
                raise self._error(f"cannot be read ({error.strerror})", "check that it is a readable file") from None
            # A second thread for reading and hashing was slower: the threads compete for the interpreter.
            self._digest.update(data)
            self._progress(len(data))
            self._at_end = not data
            pieces.append(data)
            lacking -= len(data)
        self._window, self._text = b"".join(pieces), None
        self._offset, self._position = self._offset + self._position, 0

    def _damage_error(self, reason: str, at: int | None = None) -> UserError:
        byte = self._offset + (self._position if at is None else at)
        next_step = "download the file again: it is damaged or truncated"
        return self._error(f"is not valid JSON at byte {byte}: {reason}", next_step)

    def _error(self, reason: str, next_step: str) -> UserError:
        return UserError(self._stage, self.path.name, reason, next_step)


def _has_at_most(piece: bytes, marks: bytes) -> bool:
    """Return whether a piece has each byte of `marks` no more often than these."""
    values = np.frombuffer(piece, np.uint8)  # several times as fast as bytes.count
    return all(np.count_nonzero(values == mark) <= marks.count(mark) for mark in set(marks))


def _parse_integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _DIGITS else math.inf if digits[0] != "-" else -math.inf


def _make_scanner(once: Sequence[str]) -> json.JSONDecoder:
    """Return a parser of single values that refuses objects with a key of `once` twice."""

    def join(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        require_unique_keys([pair for pair in pairs if pair[0] in once])
        return dict(pairs)

    # A control character in a string is an error of the record, not of the file.
    hook = join if once else None
    return json.JSONDecoder(strict=False, parse_int=_parse_integer, object_pairs_hook=hook)
