"""What a person does on the page, as decisions; or why it cannot be taken."""

from __future__ import annotations

import unicodedata
from itertools import takewhile
from typing import Annotated

from pydantic import BaseModel, Field

from builders.decisions.agreement import DISAGREEMENTS_VIEW
from builders.decisions.records import MAX_TEXT_CHARS, QueryDecision
from review.query_cards import QueryCards
from review.request_fields import ShortText

VIEWS = ("queries", "pairs", DISAGREEMENTS_VIEW)


class ActionError(Exception):
    """Why an action cannot be taken, in one sentence for the person."""


class Action(BaseModel, extra="forbid", strict=True):
    """One action on the page, on a query or on one of its images; with `accept`, the images that are confirmed too."""

    query_id: ShortText
    text: str  # as the person saw it
    decision: ShortText
    image_id: ShortText | None = None
    relevance: int | None = None
    new_text: str | None = None
    note: str = ""
    view: ShortText
    accept: Annotated[list[ShortText], Field(max_length=500)] = []


def build_decisions(action: Action, cards: QueryCards, source: str, at: str) -> list[QueryDecision]:
    """The decisions that an act comes to, all of the same time; `Refused` where one of them cannot be."""
    entry = cards.entries_by_id.get(action.query_id)
    if entry is None or not cards.has_target((action.query_id, action.image_id)):
        raise ActionError("this query or picture is not in the set")
    if action.text != cards.text_of(entry):
        raise ActionError(f"the query reads “{cards.text_of(entry)}” by now; look at it again")
    if action.view not in VIEWS:
        raise ActionError(f"the view is none of {', '.join(VIEWS)}")
    note = clean_text(action.note, "the note")
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
    one = QueryDecision(
        action.query_id, action.text, kind, action.image_id, new_text, relevance if kind != "drop" else None, note,
        cards.state.reviewer, action.view, source, at,
    )  # fmt: skip
    return [*_accepted(action, cards, source, at), one]


def _accepted(action: Action, cards: QueryCards, source: str, at: str) -> list[QueryDecision]:
    """A keep of each image that has a grade in the set and no decision of the reviewer yet."""
    accepted, judged = [], cards.get_grades(action.query_id)
    for image_id in dict.fromkeys(action.accept):
        relevance = judged.get(image_id)
        if relevance is not None and cards.state.get_own_decision((action.query_id, image_id)) is None:
            by, view = cards.state.reviewer, action.view
            accepted.append(
                QueryDecision(action.query_id, action.text, "keep", image_id, None, relevance, "", by, view, source, at)
            )
    return accepted


def build_undo_decisions(cards: QueryCards, view: str, source: str, at: str) -> list[QueryDecision]:
    """The lines that take back the reviewer's last act."""
    own, by = cards.state.own, cards.state.reviewer
    if not own:
        raise ActionError("there is nothing to take back")
    at_once = (own[-1].at, own[-1].source)
    last = takewhile(lambda one: (one.at, one.source) == at_once, reversed(own))
    return [
        QueryDecision(d.query_id, d.text, "undo", d.image_id, None, None, "", by, view, source, at, d.decision_id)
        for d in last
    ]


def _new_text(action: Action) -> str:
    text = clean_text(action.new_text or "", "the text", allowed="")
    if not text:
        raise ActionError("a query needs a text")
    if text == action.text:
        raise ActionError("the text is the same as before")
    return text


def clean_text(text: str, what: str, allowed: str = "\n") -> str:
    """A text as a log can hold it, without blanks around it; control characters other than the `allowed` ones are an
    error. `what` names the text in the errors. Raises ActionError."""
    if len(text) > MAX_TEXT_CHARS:
        raise ActionError(f"{what} is longer than {MAX_TEXT_CHARS:,} characters")
    text = text.replace("\r\n", "\n").strip()
    refused = {"Cc", "Cs", "Zl", "Zp"}
    if "\ufffd" in text or any(unicodedata.category(c) in refused and c not in allowed for c in text):
        raise ActionError(f"{what} holds a character that cannot be kept")
    return text
