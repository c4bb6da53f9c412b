"""Decisions of people, as lines of a set's logs, and which of them are effective: those that nobody undid.

A line's id is the digest of its text, so the stored names and values never change: `images` for the images of a pair,
`rescue` for an override.
"""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Generic, TypeVar, get_args

from querytruth.backends.files.text_formats import parse_json

MAX_TEXT_CHARS = 4000  # characters of a text, a note or captions that a person writes
CAPTION_LANGUAGES = ("zh", "en")


class _Record:
    """The common part of decisions: id, target, stored line."""

    _id: str

    __slots__ = ("_id",)

    @property
    @abstractmethod
    def target(self) -> Any:
        """Return the subject of the decision; of several decisions on one target the last is effective."""

    @property
    def decision_id(self) -> str:
        """Return the digest of the line: the same line twice is one decision."""
        with suppress(AttributeError):
            return self._id  # computed once: who applies a log asks for each a dozen times
        object.__setattr__(self, "_id", "d_" + hashlib.sha256(self.as_json().encode()).hexdigest()[:20])
        return self._id

    def as_json(self) -> str:
        """Return the line of the log without its line end."""
        return json.dumps(self._stored_fields(), ensure_ascii=False, sort_keys=True)

    def _stored_fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _field_names(type(self))}  # type: ignore[arg-type] # a class is hashable

    def _check(self) -> None:
        """Raise ValueError where the fields do not fit together."""


@cache  # a log has a hundred thousand lines, and `asdict` copies each value
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@dataclass(frozen=True, slots=True)
class QueryDecision(_Record):
    """A decision on a query or, with `image_id`, on one judgment.

    `text` is the query's text as the person saw it: a decision applies to that content and to no other. For a
    judgment `drop` means not relevant, `grade` gives `relevance`, and `keep` confirms the grade that the person saw
    (`relevance`) or, without one, the grade that is there. `undo` takes back the decision that `undoes` names.
    `keeps_truth`: an edit leaves the meaning, so that judgments of the text before it hold.
    """

    query_id: str
    text: str
    decision: str  # keep | drop | edit | grade | undo
    image_id: str | None = None
    new_text: str | None = None
    relevance: int | None = None
    note: str = ""
    reviewer: str = ""
    view: str = ""  # csv, or a view of the review page
    source: str = ""  # the export or session
    at: str = ""  # ISO 8601, UTC
    undoes: str | None = None  # a decision_id
    keeps_truth: bool = False

    @property
    def target(self) -> tuple[str, str | None]:
        """Return the query and, of a judgment, the image."""
        return self.query_id, self.image_id

    @property
    def about(self) -> dict[str, Any]:
        """Return the target in a manifest."""
        return {"query_id": self.query_id, "text": self.text}

    @property
    def evidence(self) -> str:
        """Return the note, or the decision and the reviewer: a published version never has a reviewer's address."""
        is_named = self.reviewer and "@" not in self.reviewer
        return self.note or f"{self.decision} by {self.reviewer if is_named else 'a person'}"

    def _stored_fields(self) -> dict[str, Any]:
        """Return the fields; `undoes` and `keeps_truth` only where they are given, so that older lines keep their
        ids."""
        stored = _Record._stored_fields(self)
        return {name: value for name, value in stored.items() if value or name not in ("undoes", "keeps_truth")}

    def _check(self) -> None:
        _check_decision(self.decision, ("keep", "drop", "edit", "grade", "undo"), self.undoes)
        if not 0 <= (self.relevance or 0) <= 127:
            raise ValueError(f"relevance cannot be {self.relevance}")
        if self.decision == "edit" and (not self.new_text or self.image_id is not None):
            raise ValueError("an edit needs a query and a new text")
        if self.keeps_truth and self.decision != "edit":
            raise ValueError("only an edit can keep the judgments")
        if self.decision == "grade" and (self.relevance is None or self.image_id is None):
            raise ValueError("a grade needs an image and its relevance")


@dataclass(frozen=True, slots=True)
class ImagePairDecision(_Record):
    """A decision on two images (image_ids, sorted): they are the same, or different. Ids are digests of bytes, so it
    holds for every build that has both. `undo` takes back the decision that `undoes` names."""

    images: tuple[str, str]
    decision: str  # same | different | undo
    note: str = ""
    reviewer: str = ""
    view: str = ""
    at: str = ""  # ISO 8601, UTC
    undoes: str | None = None  # a decision_id

    @property
    def target(self) -> tuple[str, str]:
        """Return the two images."""
        return self.images

    @property
    def text(self) -> str:
        """Return the target for people."""
        return " and ".join(self.images)

    @property
    def about(self) -> dict[str, Any]:
        """Return the target in a manifest."""
        return {"pictures": list(self.images)}

    def _stored_fields(self) -> dict[str, Any]:
        stored = _Record._stored_fields(self)
        return stored | {"pictures": stored.pop("images")}

    def _check(self) -> None:
        _check_decision(self.decision, ("same", "different", "undo"), self.undoes)


@dataclass(frozen=True, slots=True)
class Override(_Record):
    """A decision to accept a rejected item. `item` is its id in every build: the image_id of an image, the query_id of
    a query or caption, the address of a search result. `caption`: the text that the query of a caption gets; `note`:
    the reason. `undo` takes back the override that `undoes` names."""

    item: str
    decision: str  # rescue | undo
    name: str = ""  # the item's name in the ledger, for people
    caption: str = ""
    note: str = ""
    reviewer: str = ""
    view: str = ""
    at: str = ""  # ISO 8601, UTC
    undoes: str | None = None  # a decision_id

    @property
    def target(self) -> str:
        """Return the item."""
        return self.item

    @property
    def text(self) -> str:
        """Return the target for people."""
        return self.name or self.item

    @property
    def about(self) -> dict[str, Any]:
        """Return the target in a manifest."""
        return {"item": self.item, "name": self.name}

    def _check(self) -> None:
        _check_decision(self.decision, ("rescue", "undo"), self.undoes)
        if not self.item or (self.decision == "rescue" and not self.note.strip()):
            raise ValueError("an override needs an item and a reason (note)")


@dataclass(frozen=True, slots=True)
class HumanCaption(_Record):
    """The captions that a person wrote for an image in one language, one a line; an empty text removes them. `undo`:
    the text is the one before, put back."""

    image_id: str
    language: str
    text: str
    reviewer: str = ""
    at: str = ""  # ISO 8601, UTC
    undo: bool = False

    @property
    def target(self) -> tuple[str, str]:
        """Return the image and the language."""
        return self.image_id, self.language

    @property
    def undoes(self) -> None:
        """Return None: the line of an undo holds the effective text, as every line does."""
        return

    @property
    def lines(self) -> list[str]:
        """Return the captions as a list."""
        return [line.strip() for line in self.text.split("\n") if line.strip()]


@dataclass(frozen=True, slots=True)
class UndeterminedPair(_Record):
    """The answer that a person cannot tell whether an image fits a query. It changes no judgment; the audit with the id
    `audit` counts it. `undo` takes back the answer that `undoes` names."""

    query_id: str
    image_id: str
    audit: str
    decision: str = "cannot_tell"  # cannot_tell | undo
    note: str = ""
    reviewer: str = ""
    view: str = ""
    at: str = ""  # ISO 8601, UTC
    undoes: str | None = None  # a decision_id

    @property
    def target(self) -> tuple[str, str]:
        """Return the query and the image."""
        return self.query_id, self.image_id

    def _check(self) -> None:
        _check_decision(self.decision, ("cannot_tell", "undo"), self.undoes)


SetDecision = QueryDecision | ImagePairDecision | Override
Decision = SetDecision | HumanCaption | UndeterminedPair


def parse_decision(line: str) -> Decision:
    """Return the decision of a line of a log. Raises ValueError, with the reason, for an invalid line."""
    stored = parse_json(line)
    if not isinstance(stored, dict):
        raise ValueError("is not a decision")
    kind: type[Decision] = QueryDecision
    if "pictures" in stored:
        kind, stored["images"] = ImagePairDecision, _parse_images(stored.pop("pictures"))
    elif "item" in stored:
        kind = Override
    elif "audit" in stored:
        kind = UndeterminedPair
    elif "language" in stored:
        kind = HumanCaption
    declared = _declared_types(kind)  # type: ignore[arg-type] # a class is hashable
    for name, value in stored.items():
        if name != "images" and type(value) not in declared.get(name, (str,)):
            raise ValueError(f"{name} cannot be {value!r}")
    try:
        decision = kind(**stored)
    except TypeError as error:
        raise ValueError(str(error).replace(f"{kind.__name__}.__init__() ", "")) from None
    decision._check()
    if "\\u" in line and any("\ud800" <= letter <= "\udfff" for letter in decision.as_json()):
        raise ValueError("a text contains half a character")
    return decision


@cache  # a log has a hundred thousand lines
def _declared_types(kind: type[Decision]) -> dict[str, tuple[type, ...]]:
    """Return the types that the value of each field may have."""
    return {field.name: get_args(field.type) or (field.type,) for field in fields(kind)}


def _parse_images(images: object) -> tuple[str, str]:
    if not isinstance(images, list) or len(images) != 2 or any(type(image) is not str for image in images):
        raise ValueError("images must be two ids")
    if images[0] >= images[1]:
        raise ValueError("the two images must differ and be sorted")
    return images[0], images[1]


def _check_decision(decision: str, choices: tuple[str, ...], undoes: str | None) -> None:
    if decision not in choices:
        raise ValueError(f"the decision must be one of {', '.join(choices)}")
    if (decision == "undo") != (undoes is not None):
        raise ValueError("an undo needs the decision that it undoes; nothing else has one")


DecisionT = TypeVar("DecisionT", bound=Decision)


class EffectiveDecisions(Generic[DecisionT]):
    """The effective decisions of a log by target, updated line by line.

    An undo removes the last decision with the id that it names. One that finds none, or only one of `published_ids`
    (decisions in a published version), changes nothing and stays in `by_target`.
    """

    def __init__(self, published_ids: Collection[str] = frozenset()) -> None:
        self.published_ids = published_ids
        self.by_target: dict[Any, list[DecisionT]] = {}

    def apply_entry(self, entry: DecisionT) -> None:
        """Apply the next line of the log."""
        of_target = self.by_target.setdefault(entry.target, [])
        if entry.undoes in self.published_ids or not remove_last(of_target, entry.undoes):
            of_target.append(entry)

    def on_target(self, target: object) -> list[DecisionT]:
        """Return the decisions on a target in their order."""
        return [decision for decision in self.by_target.get(target, []) if decision.undoes is None]


def effective(log: Iterable[DecisionT], published_ids: Collection[str] = frozenset()) -> list[DecisionT]:
    """Return the log, grouped by target, without undone decisions; undos that change nothing stay."""
    decisions = EffectiveDecisions[DecisionT](published_ids)
    for entry in log:
        decisions.apply_entry(entry)
    return [decision for of_target in decisions.by_target.values() for decision in of_target]


def latest_by_target(log: Iterable[DecisionT]) -> dict[Any, DecisionT]:
    """Return the last effective decision by target, sorted by target, so that the order of the log has no influence.
    Pairs of images precede the items of overrides."""
    latest = {decision.target: decision for decision in effective(log) if decision.undoes is None}
    return {target: latest[target] for target in sorted(latest, key=lambda target: (isinstance(target, str), target))}


def remove_last(decisions: list[DecisionT], decision_id: str | None) -> bool:
    """Remove the last decision with this id. Return False where there is none."""
    for place in range(len(decisions) - 1, -1, -1) if decision_id is not None else ():
        if decisions[place].decision_id == decision_id:
            del decisions[place]
            return True
    return False
