"""Rows of the ledger as text for people."""

from collections.abc import Mapping
from typing import Any


def describe_rejection(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the columns of a ledger's row (builders.ledger.Rejection) beside its reason and text, as phrases. Missing
    values are None, "" or NaN."""
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
