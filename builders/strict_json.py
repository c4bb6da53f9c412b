"""One reader of JSON from files and replies: a key that is there twice is an error; `json` keeps the last value."""

import json
from typing import Any


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Returns the value of a JSON text; `options` are those of `json.loads`. Raises ValueError for other texts and for
    a key that an object has twice, and RecursionError for one nested too deeply."""
    return json.loads(text, object_pairs_hook=_unique_keys, **options)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice[:80]!a} is there twice")
    return values
