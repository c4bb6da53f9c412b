"""Messages between a worker and its parent: open files of items to the worker, answers as plain data from it.

The parent opens the files, because the worker may not read other files of the user. Answers are MessagePack, which is
safe even if a file took over the worker. Numbers, texts, bytes, None and lists are sent directly. Everything else is a
map with one key, its type: a tuple, a record (a named tuple by its module and name), an array, a dict, an exception of
Python's own, a text that is not UTF-8, a large integer.
"""

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

DONE, OUT_OF_MEMORY, RAISED = 0, 1, 2
LENGTH = 8  # bytes, little-endian, before every message in either direction
LONGEST_ANSWER = 1 << 30  # bytes
_LARGEST = 1 << 63
_ARRAY_KINDS = "biuf"  # dtypes of numbers
_open: dict[str, int] = {}  # in a worker: the descriptor of the file of the item that it works on, by location


class InvalidAnswer(Exception):
    """Raised for bytes that are not a valid answer, with the reason."""


def frame_answer(kind: int, value: object = None) -> bytes:
    """Return the length of the answer, then the answer. Raises TypeError for a value of another type."""
    data = msgspec.msgpack.encode((kind, _to_plain(value)))
    return len(data).to_bytes(LENGTH, "little") + data


def read_answer(data: bytes) -> tuple[int, Any]:
    """Return the kind of an answer and its value. Raises InvalidAnswer; no code of the sender runs."""
    try:
        kind, plain = msgspec.msgpack.decode(data, type=tuple[int, Any])
        value = _from_plain(plain)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidAnswer(f"it is not valid data: {error}") from None
    if kind not in (DONE, OUT_OF_MEMORY, RAISED) or (kind == RAISED) != isinstance(value, Exception):
        raise InvalidAnswer("it is not a result")
    return kind, value


def _to_plain(value: object) -> Any:
    if value is None or isinstance(value, bool | float | bytes):
        return value
    if isinstance(value, str):
        return value if _is_utf8(value) else {"text": value.encode("utf-8", "surrogatepass")}
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else {"integer": str(value)}
    if isinstance(value, list):
        return [_to_plain(one) for one in value]
    if isinstance(value, tuple):
        parts = [_to_plain(one) for one in value]
        kind = type(value)
        return {"tuple": parts} if kind is tuple else {"record": [f"{kind.__module__}:{kind.__qualname__}", parts]}
    if isinstance(value, dict):
        return {"dict": [[_to_plain(key), _to_plain(one)] for key, one in value.items()]}
    numpy = sys.modules.get("numpy")  # a worker that needs none does not hold it in memory
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in _ARRAY_KINDS:
        return {"array": [value.dtype.str, list(value.shape), value.tobytes()]}
    if numpy is not None and isinstance(value, numpy.generic):
        return _to_plain(value.item())
    if isinstance(value, Exception) and type(value).__module__ == "builtins":
        notes = getattr(value, "__notes__", [])
        return {"error": [type(value).__name__, [_to_plain(one) for one in value.args], [_to_plain(n) for n in notes]]}
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _from_plain(plain: object) -> Any:
    if isinstance(plain, list):
        return [_from_plain(one) for one in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, parts),) = plain.items()
    return _READERS[kind](parts)


def _read_record(parts: Any) -> Any:
    name, values = parts
    module, _, qualified = name.partition(":")
    found = getattr(sys.modules.get(module), qualified, None)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_make")):
        raise TypeError(f"unexpected name in an answer: {name[:80]}")
    return found._make(_from_plain(values))


def _read_array(parts: Any) -> Any:
    import numpy as np

    code, shape, data = parts
    kind = np.dtype(code)
    if kind.kind not in _ARRAY_KINDS:
        raise TypeError(f"unexpected array type {code[:20]}")
    return np.frombuffer(data, dtype=kind).reshape(shape).copy()


def _read_error(parts: Any) -> Exception:
    name, arguments, notes = parts
    found = getattr(sys.modules["builtins"], name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        raise TypeError(f"unexpected name in an answer: {name[:80]}")
    error = found(*_from_plain(arguments))
    for note in notes:
        error.add_note(str(_from_plain(note)))
    return error


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "text": lambda data: data.decode("utf-8", "surrogatepass"),
    "integer": int,
    "tuple": lambda parts: tuple(_from_plain(parts)),
    "dict": lambda pairs: {_from_plain(key): _from_plain(one) for key, one in pairs},
    "record": _read_record,
    "array": _read_array,
    "error": _read_error,
}


def item_location(item: object) -> str | None:
    """Return the path or URL that an item is, or has as its `location`; None for another item."""
    location = getattr(item, "location", item)
    return str(location) if isinstance(location, str | Path) else None


def hand_over(items: Sequence[object], channel: socket.socket) -> list[bool]:
    """Open the items' files and send their descriptors in one message. Return which items have one; for files that
    cannot be opened, the worker finds the reason."""
    handles = [_open_location(item_location(item)) for item in items]
    opened = [handle for handle in handles if handle is not None]
    try:
        if opened:
            socket.send_fds(channel, [b"f"], opened, socket.MSG_DONTWAIT)  # a hostile worker may receive none
    except OSError:
        return [False] * len(items)
    finally:
        for handle in opened:
            os.close(handle)
    return [handle is not None for handle in handles]


def _open_location(location: str | None) -> int | None:
    try:
        return os.open(location or "", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not block
    except (OSError, ValueError):  # ValueError: not a possible file name
        return None


def receive_files(count: int, channel: socket.socket) -> list[int]:
    """Receive the descriptors of so many files, in their order."""
    return socket.recv_fds(channel, 1, count)[1] if count else []


def offer_file(item: object, handle: int) -> None:
    """Make the descriptor that of the item's file, until `drop_file`."""
    _open[item_location(item) or ""] = handle


def drop_file() -> None:
    """Close the descriptor of the item's file, if any."""
    while _open:
        with contextlib.suppress(OSError):
            os.close(_open.popitem()[1])


def open_file(location: str, flags: int) -> int:
    """Return a descriptor at the start of a file: of the one that the parent opened, else opened here. With O_NOFOLLOW
    the location must not be a link. Raises OSError."""
    if location not in _open:
        return os.open(location, flags)
    handle = os.dup(_open[location])
    try:
        os.lseek(handle, 0, os.SEEK_SET)
    except OSError as error:
        if error.errno != errno.ESPIPE:  # a pipe, which its reader refuses
            os.close(handle)
            raise
    if flags & os.O_NOFOLLOW and not os.path.samestat(os.lstat(location), os.fstat(handle)):
        os.close(handle)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return handle
