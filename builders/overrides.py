"""Rejects that people want in a set all the same: what a rule turned away, a person's word lets in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from builders.decision_log_entries import decision_id_of_line, effective_entries, validate_entry_fields

OVERRIDE_CHOICES = ("rescue", "undo")
MAX_OVERRIDE_TEXT_CHARS = 4000  # characters of a reason or a caption


@dataclass(frozen=True, slots=True)
class Override:
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
        return decision_id_of_line(self.as_json())

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
    def from_json(line: str) -> Override:
        """Read a line of the log; ValueError for a damaged one."""
        fields = json.loads(line)
        validate_entry_fields(fields, OVERRIDE_CHOICES)
        try:
            override = Override(**fields)
        except TypeError as error:
            raise ValueError(str(error).replace("Override.__init__() ", "")) from None
        if not override.item or (override.decision == "rescue" and not override.note.strip()):
            raise ValueError("a rescue needs an item and a reason (note)")
        return override


def effective_overrides(log: Iterable[Override]) -> dict[str, Override]:
    """Per item, sorted, the last word that stands: the order of the log counts for no more."""
    last = {override.item: override for override in effective_entries(log)}
    return {item: last[item] for item in sorted(last)}
