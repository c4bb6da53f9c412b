"""What the lines of a set's log have in common: an id, texts, and an undo, which is a line of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol, TypeVar


class _EntryProtocol(Protocol):
    @property
    def decision_id(self) -> str: ...
    @property
    def undoes(self) -> str | None: ...


LogEntry = TypeVar("LogEntry", bound=_EntryProtocol)


def effective_entries(log: Iterable[LogEntry]) -> list[LogEntry]:
    """The log without what was taken back; each undo takes back the last word of its id before it."""
    kept: list[LogEntry | None] = []
    places: dict[str, list[int]] = {}
    for entry in log:
        if entry.undoes is None:
            places.setdefault(entry.decision_id, []).append(len(kept))
            kept.append(entry)
        elif places.get(entry.undoes):
            kept[places[entry.undoes].pop()] = None
    return [entry for entry in kept if entry is not None]


def decision_id_of_line(line: str) -> str:
    """The decision_id of a word: the digest of all that was decided, so that the same line twice is one decision."""
    return "d_" + hashlib.sha256(line.encode()).hexdigest()[:20]


def validate_entry_fields(fields: Mapping[str, Any], choices: Collection[str]) -> None:
    """ValueError where a line's fields are no texts, or its decision none of the choices; `undoes` goes with undo."""
    if fields.get("decision") not in choices:
        raise ValueError(f"the decision is none of {', '.join(choices)}")
    for name, value in fields.items():
        if type(value) is not str and not (name == "undoes" and value is None):
            raise ValueError(f"{name} cannot be {value!r}")
    if (fields["decision"] == "undo") != (fields.get("undoes") is not None):
        raise ValueError("an undo needs the decision that it undoes, and nothing else does")
