"""One reader of JSON from files and replies: a key that is there twice is an error; `json` keeps the last value."""

import json
import math
from typing import Any

_MAX_DEPTH = 40
_MAX_DIGITS = 18  # of an integer


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Returns the value of a JSON text; `options` are those of `json.loads`. Raises ValueError for other texts and for
    a key that an object has twice, and RecursionError for one nested too deeply."""
    if isinstance(text, str) and not options:
        return _DECODER.decode(text)
    return json.loads(text, object_pairs_hook=require_unique_keys, **options)


def refuse_repeated_keys(text: str | bytes) -> None:
    """Raises ValueError for a key that an object of a JSON text has twice, as `parse_json` does; keeps no values."""
    json.loads(text, object_pairs_hook=_unique_keys_alone)


def parse_bounded_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text that may be a stranger's. Raises ValueError also for infinite numbers, for more
    than 18 digits, for half a character, and for a depth of more than 40."""
    try:
        value = parse_json(text, parse_int=_integer, parse_float=_number, parse_constant=_number)
        _check_depth(value, _MAX_DEPTH)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half a character") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"number {digits[:20]}… has more than {_MAX_DIGITS} digits")
    return int(digits)


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is no number")
    return value


def _check_depth(value: Any, left: int) -> None:
    if not left:
        raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(inner, left - 1)


def _unique_keys_alone(pairs: list[tuple[str, Any]]) -> None:
    require_unique_keys(pairs)


def require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the members of an object. Raises ValueError for a key that is there twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice[:80]!a} is there twice")
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=require_unique_keys)  # made once: logs have a hundred thousand lines
