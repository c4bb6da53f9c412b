"""A row of the ledger in words, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_rejection(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What the columns of a row (builders.ledger.Rejection) say beside its reason and its text, part by
    part. A value that is missing is None, "" or NaN."""
    known = {str(name): value for name, value in row.items() if not _is_missing(value)}
    parts = [f"result {known['rank']:.0f} of {known['text']}"] if known.keys() >= {"rank", "text"} else []
    if "value" in known:
        parts.append(f"{known['measure'].replace('_', ' ')} {_format_number(known['value'])}")
    if "threshold" in known:
        parts.append(f"threshold {_format_number(known['threshold'])}")
    parts += [f"see {known['related_item']}"] if "related_item" in known else []
    parts += [str(known["detail"])] if "detail" in known else []
    return tuple(parts)


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or value != value


def _format_number(value: float) -> str:
    return f"{round(value, 6):.15g}"
