"""Answers of worker processes as plain data: MessagePack, whatever a file has made of the worker that sends them.

Numbers, texts, bytes, None and lists stand for themselves. Everything else is a map with one key that names its kind:
a tuple, a record (a named tuple by its module and name), an array, a dict, an exception of Python's own, a text that is
not UTF-8, a large integer.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

DONE, OUT_OF_MEMORY, RAISED = 0, 1, 2
LENGTH = 8  # bytes, little-endian, before every message in either direction
LONGEST_ANSWER = 1 << 30  # bytes
_LARGEST = 1 << 63
_ARRAY_KINDS = "biuf"  # dtypes of numbers


class InvalidAnswer(Exception):
    """Raised for bytes that are no answer, with the reason."""


def frame_answer(kind: int, value: Any = None) -> bytes:
    """Returns the length of the answer, then the answer. Raises TypeError for a value of another type."""
    data = msgspec.msgpack.encode((kind, _to_plain(value)))
    return len(data).to_bytes(LENGTH, "little") + data


def read_answer(data: bytes) -> tuple[int, Any]:
    """Returns the kind of an answer and its value. Raises InvalidAnswer; no code of the sender runs."""
    try:
        kind, plain = msgspec.msgpack.decode(data, type=tuple[int, Any])
        value = _from_plain(plain)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidAnswer(f"it is no data: {error}") from None
    if kind not in (DONE, OUT_OF_MEMORY, RAISED) or (kind == RAISED) != isinstance(value, Exception):
        raise InvalidAnswer("it is no result")
    return kind, value


def _to_plain(value: Any) -> Any:
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


def _from_plain(plain: Any) -> Any:
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
        raise TypeError(f"an answer names {name[:80]}")
    return found._make(_from_plain(values))


def _read_array(parts: Any) -> Any:
    import numpy as np

    code, shape, data = parts
    kind = np.dtype(code)
    if kind.kind not in _ARRAY_KINDS:
        raise TypeError(f"an array of {code[:20]}")
    return np.frombuffer(data, dtype=kind).reshape(shape).copy()


def _read_error(parts: Any) -> Exception:
    name, arguments, notes = parts
    found = getattr(sys.modules["builtins"], name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        raise TypeError(f"an answer names {name[:80]}")
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
