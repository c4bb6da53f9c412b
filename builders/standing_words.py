"""What of a log stands: an undo is a line of its own, which takes an earlier one back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class _Word(Protocol):
    @property
    def decision_id(self) -> str: ...
    @property
    def undoes(self) -> str | None: ...


Word = TypeVar("Word", bound=_Word)


def standing(log: Iterable[Word]) -> list[Word]:
    """The log without what was taken back; each undo takes back the last word of its id before it."""
    kept: list[Word | None] = []
    places: dict[str, list[int]] = {}
    for word in log:
        if word.undoes is None:
            places.setdefault(word.decision_id, []).append(len(kept))
            kept.append(word)
        elif places.get(word.undoes):
            kept[places[word.undoes].pop()] = None
    return [word for word in kept if word is not None]
