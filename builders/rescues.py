"""Rejects that people want in a set all the same: what a rule turned away, a person's word lets in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from builders.log_words import check_texts, id_of_line, standing

CHOICES = ("rescue", "undo")
LONGEST = 4000  # characters of a reason or a caption


@dataclass(frozen=True, slots=True)
class Rescue:
    """One person's word on one reject. `item` is what it goes by in every build: a picture's image_id, a query's or
    caption's query_id, a search result's address. `caption`: of a caption, the words that the query shall have; `note`:
    why. `undo` takes back the rescue that `undoes` names."""

    item: str
    decision: str
    name: str = ""  # what the ledger called it, for people
    caption: str = ""
    note: str = ""
    reviewer: str = ""
    view: str = ""
    at: str = ""  # ISO 8601, UTC
    undoes: str | None = None  # a decision_id

    @property
    def decision_id(self) -> str:
        """Digest of all that was decided."""
        return id_of_line(self.as_json())

    @property
    def text(self) -> str:
        """What it is about, for people."""
        return self.name or self.item

    @property
    def about(self) -> dict[str, str]:
        """What it is about, for the manifest."""
        return {"item": self.item, "name": self.name}

    def as_json(self) -> str:
        """One line of the log; `item` tells it from other decisions."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @staticmethod
    def of_json(line: str) -> Rescue:
        """Read a line of the log; ValueError for a damaged one."""
        fields = json.loads(line)
        check_texts(fields, CHOICES)
        try:
            word = Rescue(**fields)
        except TypeError as error:
            raise ValueError(str(error).replace("Rescue.__init__() ", "")) from None
        if not word.item or (word.decision == "rescue" and not word.note.strip()):
            raise ValueError("a rescue needs an item and a reason (note)")
        return word


def last_rescues(log: Iterable[Rescue]) -> dict[str, Rescue]:
    """Per item, sorted, the last word that stands: the order of the log counts for no more."""
    last = {word.item: word for word in standing(log)}
    return {item: last[item] for item in sorted(last)}
