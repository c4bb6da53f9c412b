"""Reads the arrays of one large JSON object half a megabyte at a time, without ever holding it whole.

COCO-form files are one object of arrays (`images`, `annotations`, `categories`), hundreds of megabytes long. A
window of bytes slides over the file. In an array the window is cut after the last `}` that a comma and a `{`
follow, and `[` + piece + `]` goes to msgspec. If that is valid JSON the cut was between two records, whatever the
records hold: a cut inside a nested value or a string would leave a bracket or a quote open. Where it is not
valid (the array ends in the window, the cut was no boundary, a NaN) records are taken one by one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from builders.errors import UserError

WINDOW = 1 << 19  # bytes: what a processor keeps close by, larger ones are slower
LONGEST = 1 << 28  # bytes of one record: a quote that is never closed must not fill the memory
_BOUNDARY = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{")
_BLANK = re.compile(rb"[ \t\r\n]*")
_TOKEN = 16  # bytes; no word of JSON is longer (-Infinity), nor an escape in a string
_DIGITS = 4000  # Python refuses to read longer whole numbers


class JsonRecords:
    """One JSON file, read forwards once; `sha256` is complete when the reading is."""

    def __init__(self, path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> None:
        self.path = path
        self._progress = progress
        self._digest = hashlib.sha256()
        self._window = b""
        self._text: str | None = None  # the window as one character per byte, made where it is needed
        self._offset = 0  # of the window's first byte in the file
        self._at = 0  # the cursor, in the window
        self._at_end = False

    def __enter__(self) -> JsonRecords:
        if self.path.exists() and not self.path.is_file():
            raise self._error("is no file", "check the path in the definition")
        try:
            self._file = self.path.open("rb")
        except OSError as error:
            raise self._error(f"cannot be opened ({error.strerror})", "check the path in the definition") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def sha256(self) -> str:
        """Of the file's bytes, as far as they were read."""
        return self._digest.hexdigest()

    def keys(self) -> Iterator[str]:
        """The top-level object's keys in file order; the caller reads or skips each value before the next."""
        self._fill(3)
        if self._window.startswith(b"\xef\xbb\xbf"):
            self._at = 3
        if self._peek() != "{":
            raise self._damaged("is no JSON object")
        self._at += 1
        if self._peek() == "}":
            self._at += 1
        else:
            yield from self._members()
        if self._peek():
            raise self._damaged("has something after its last brace")

    def _members(self) -> Iterator[str]:
        mark = ","
        while mark == ",":
            if self._peek() != '"':
                raise self._damaged("a key in double quotes is missing")
            key = str(self._value())
            if self._peek() != ":":
                raise self._damaged(f"':' is missing after {key!r}")
            self._at += 1
            yield key
            mark = self._peek()
            if mark not in (",", "}"):
                raise self._damaged(f"',' or '}}' is missing after the value of {key!r}")
            self._at += 1

    def skip(self) -> None:
        """Pass over the value at the cursor."""
        if self._peek() == "[":
            for _ in self.batches(msgspec.json.Decoder(list[msgspec.Raw])):
                pass
        else:
            self._value()

    def value(self) -> Any:
        """The value at the cursor, whole. Bytes that are no UTF-8 become lone surrogates."""
        self._peek()
        return self._value()

    def batches(self, typed: msgspec.json.Decoder[Any]) -> Iterator[tuple[int, list[Any], bool]]:
        """The records of the array at the cursor as (number of the first, records, whether they are typed).

        Where a record does not fit the type, its whole piece comes as plain Python values instead.
        """
        if self._peek() != "[":
            raise self._damaged("an array was expected")
        self._at += 1
        if self._peek() == "]":
            self._at += 1
            return
        number, mark = 0, ","
        while mark == ",":
            self._fill(WINDOW)
            records, fits = self._piece(typed)
            if records is None:
                records, fits = self._one_by_one(number), False
            yield number, records, fits
            number += len(records)
            mark = self._peek()
            if mark not in (",", "]"):
                raise self._damaged(f"',' or ']' is missing after record {number - 1}")
            self._at += 1

    def _piece(self, typed: msgspec.json.Decoder[Any]) -> tuple[list[Any] | None, bool]:
        """The records up to the window's last boundary; None where they are not to be had at once."""
        cut = self._last_boundary()
        if not cut:
            return None, False
        piece = b"[" + self._window[self._at : cut] + b"]"
        for decoder, fits in ((typed, True), (msgspec.json.Decoder(), False)):
            try:
                records = decoder.decode(piece)
            except (msgspec.ValidationError, RecursionError):
                continue
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            self._at = cut
            return records, fits
        return None, False

    def _last_boundary(self) -> int:
        """Just after the `}` of the window's last `}, {`, 0 when there is none in its latter half."""
        end, half = len(self._window), (self._at + len(self._window)) // 2
        while (brace := self._window.rfind(b"}", half, end)) > 0:
            if _BOUNDARY.match(self._window, brace):
                return brace + 1
            end = brace
        return 0

    def _one_by_one(self, number: int) -> list[Any]:
        """The records from the cursor to the window's end, the one that the end cuts included."""
        window, records = self._offset, list[Any]()
        while True:
            self._peek()
            records.append(self._value(f"record {number + len(records)}: "))
            if self._peek() != "," or self._offset != window:
                return records
            self._at += 1

    def _value(self, what: str = "") -> Any:
        """The value at the cursor; the cursor moves behind it. Reads on where the window cuts it."""
        while True:
            if self._text is None:
                self._text = self._window.decode("latin-1")
            try:
                value, end = _SCANNER.raw_decode(self._text, self._at)
                if end + _TOKEN < len(self._window) or self._at_end:  # of 12.5 the window may hold `12.`
                    break
            except RecursionError:
                raise self._damaged(f"{what}nested too deep", self._at) from None
            except json.JSONDecodeError as error:
                cut = error.pos + _TOKEN > len(self._window) or error.msg.startswith("Unterminated")
                if self._at_end or not cut:
                    raise self._damaged(f"{what}{error.msg.lower()}", error.pos) from None
            ahead = len(self._window) - self._at
            if ahead > LONGEST:
                raise self._damaged(f"{what}has no end within {LONGEST} bytes") from None
            self._fill(2 * ahead + 1)
        data, self._at = self._window[self._at : end], end
        return value if data.isascii() else _SCANNER.decode(data.decode("utf-8", "surrogateescape"))

    def _peek(self) -> str:
        """The next character that is no blank, '' at the end of the file; the cursor stands on it."""
        while True:
            self._at = _BLANK.match(self._window, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._window) or self._at_end:
                return self._window[self._at : self._at + 1].decode("latin-1")
            self._fill(1)

    def _fill(self, size: int) -> None:
        """Have so many bytes from the cursor on, or all that the file still has."""
        lacking, pieces = size - (len(self._window) - self._at), [self._window[self._at :]]
        if lacking <= 0 or self._at_end:
            return
        while lacking > 0 and not self._at_end:
            try:
                data = self._file.read(WINDOW)
            except OSError as error:
                raise self._error(f"cannot be read ({error.strerror})", "check that it is a readable file") from None
            # Reading and hashing on a second thread was slower: the threads wait for the interpreter in turn.
            self._digest.update(data)
            self._progress(len(data))
            self._at_end = not data
            pieces.append(data)
            lacking -= len(data)
        self._window, self._text = b"".join(pieces), None
        self._offset, self._at = self._offset + self._at, 0

    def _damaged(self, reason: str, at: int | None = None) -> UserError:
        byte = self._offset + (self._at if at is None else at)
        return self._error(
            f"is no valid JSON at byte {byte}: {reason}", "fetch the file again, it is damaged or cut short"
        )

    def _error(self, reason: str, next_step: str) -> UserError:
        return UserError("read annotations", self.path.name, reason, next_step)


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < _DIGITS else math.inf if digits[0] != "-" else -math.inf


# Control characters in strings are the record's problem, not the file's.
_SCANNER = json.JSONDecoder(strict=False, parse_int=_whole)
