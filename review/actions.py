"""What a person does on the page, as decisions; or why it cannot be taken."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from builders.agreement import DISAGREEMENTS_VIEW
from builders.decisions import Decision
from review.query_cards import QueryCards

VIEWS = ("queries", "pairs", DISAGREEMENTS_VIEW)
_LONGEST = 4000  # characters of a text or note


class ActionError(Exception):
    """Why a word cannot be taken, in one sentence for the person who said it."""


@dataclass(frozen=True, slots=True)
class Action:
    """One act on the page: a word on a query or a picture; with `accept`, the pictures that are confirmed with it."""

    query_id: str
    text: str  # as the person saw it
    decision: str
    image_id: str | None = None
    relevance: int | None = None
    new_text: str | None = None
    note: str = ""
    view: str = "queries"
    accept: list[str] = field(default_factory=list)


def build_decisions(action: Action, cards: QueryCards, source: str, at: str) -> list[Decision]:
    """The decisions that an act comes to, all of the same time; `Refused` where one of them cannot be."""
    entry = cards.entries_by_id.get(action.query_id)
    if entry is None or not cards.has_target((action.query_id, action.image_id)):
        raise ActionError("this query or picture is not in the set")
    if action.text != cards.text_of(entry):
        raise ActionError(f"the query reads “{cards.text_of(entry)}” by now; look at it again")
    if action.view not in VIEWS:
        raise ActionError(f"the view is none of {', '.join(VIEWS)}")
    note = _clean(action.note, "the note", "\n")
    kind, relevance = action.decision, action.relevance
    if kind not in ("keep", "drop", "edit", "grade"):
        raise ActionError("the decision is none of keep, drop, edit, grade")
    if action.image_id is None:
        relevance = None
        if kind == "grade":
            raise ActionError("a grade is for a picture")
    elif kind == "edit":
        raise ActionError("only a query's text can be edited")
    elif kind == "keep":
        relevance = cards.get_grades(action.query_id).get(action.image_id, 1)
    if kind == "grade" and relevance not in cards.grades:
        raise ActionError(f"the grades of this set are {', '.join(map(str, cards.grades))}")
    new_text = _new_text(action) if kind == "edit" else None
    one = Decision(
        action.query_id, action.text, kind, action.image_id, new_text, relevance if kind != "drop" else None, note,
        cards.state.reviewer, action.view, source, at,
    )  # fmt: skip
    return [*_accepted(action, cards, source, at), one]


def _accepted(action: Action, cards: QueryCards, source: str, at: str) -> list[Decision]:
    """A keep of each picture that has a grade in the set and no word of the reviewer yet."""
    accepted, judged = [], cards.get_grades(action.query_id)
    for image_id in dict.fromkeys(action.accept):
        relevance = judged.get(image_id)
        if relevance is not None and cards.state.get_own_decision((action.query_id, image_id)) is None:
            by, view = cards.state.reviewer, action.view
            accepted.append(
                Decision(action.query_id, action.text, "keep", image_id, None, relevance, "", by, view, source, at)
            )
    return accepted


def build_undo_decisions(cards: QueryCards, view: str, source: str, at: str) -> list[Decision]:
    """The lines that take back the reviewer's last act."""
    last = cards.state.get_last_action()
    if not last:
        raise ActionError("there is nothing to take back")
    by = cards.state.reviewer
    return [
        Decision(d.query_id, d.text, "undo", d.image_id, None, None, "", by, view, source, at, d.decision_id)
        for d in reversed(last)
    ]


def _new_text(action: Action) -> str:
    text = _clean(action.new_text or "", "the text", "").strip()
    if not text:
        raise ActionError("a query needs a text")
    if text == action.text:
        raise ActionError("the text is the same as before")
    return text


def _clean(text: str, what: str, allowed: str) -> str:
    if len(text) > _LONGEST:
        raise ActionError(f"{what} is longer than {_LONGEST:,} characters")
    text = text.replace("\r\n", "\n").strip()
    strange = {"Cc", "Cs", "Zl", "Zp"}
    if "\ufffd" in text or any(unicodedata.category(c) in strange and c not in allowed for c in text):
        raise ActionError(f"{what} holds a character that cannot be kept")
    return text
