"""Actions of a reviewer on the page, as decisions for the log."""

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
    """An action cannot be taken; the message is one sentence for the reviewer."""


class SeenText(BaseModel, extra="forbid", strict=True):
    """A query's text as the person saw it."""

    query_id: ShortText
    text: str


class Action(SeenText):
    """An action on a query or on one of its images. `others`: further queries that ask the same and that it is for;
    `accept`: further images of the query that it confirms."""

    decision: ShortText
    image_id: ShortText | None = None
    relevance: int | None = None
    new_text: str | None = None
    note: str = ""
    view: ShortText
    others: Annotated[list[SeenText], Field(max_length=500)] = []
    accept: Annotated[list[ShortText], Field(max_length=500)] = []


def build_decisions(action: Action, cards: QueryCards, source: str, at: str) -> list[QueryDecision]:
    """Return the decisions of an action, all at the same time. Raises ActionError where one of them is invalid."""
    _check_texts(action, cards)
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
    decided = [
        QueryDecision(
            seen.query_id, seen.text, kind, action.image_id, new_text, relevance if kind != "drop" else None, note,
            cards.state.reviewer, action.view, source, at,
        )
        for seen in _list_decided_texts(action, cards)
    ]  # fmt: skip
    return [*_accepted(action, cards, source, at), *decided]


def _check_texts(action: Action, cards: QueryCards) -> None:
    """Raises ActionError for a query or image that the version does not have, a query that asks something else, and a
    text that has changed."""
    if not cards.has_target((action.query_id, action.image_id)):
        raise ActionError("this query or picture is not in the set")
    equivalent = {entry.query_id: entry for entry in cards.get_group(action.query_id).members}
    for seen in (action, *action.others):
        if (entry := equivalent.get(seen.query_id)) is None:
            raise ActionError(f"“{seen.text}” asks something else")
        if seen.text != (text := cards.text_of(entry)):
            raise ActionError(f"the query reads “{text}” by now; look at it again")


def _list_decided_texts(action: Action, cards: QueryCards) -> list[SeenText]:
    """Return the queries to store the decision on. One on an image is stored once, and on queries with a decision of
    their own, which would contradict it; one on texts on each of them, but a keep on those that the person did not drop
    or edit."""
    if action.image_id is not None:
        return [action, *(one for one in action.others if cards.state.on_target((one.query_id, action.image_id)))]
    if action.decision == "edit" and action.others:
        raise ActionError("one text is edited at a time: mark it first")
    texts = [action, *action.others]
    if action.decision != "keep" or not action.others:
        return texts
    decisions = [cards.state.get_own_decision((one.query_id, None)) for one in texts]
    open_texts = [
        one for one, own in zip(texts, decisions, strict=True) if own is None or own.decision not in ("drop", "edit")
    ]
    return open_texts or texts


def _accepted(action: Action, cards: QueryCards, source: str, at: str) -> list[QueryDecision]:
    """Return a keep for each accepted image with a grade in the set and no decision of the reviewer."""
    query_id, by, view = action.query_id, cards.state.reviewer, action.view
    grades = cards.get_grades(query_id)
    return [
        QueryDecision(query_id, action.text, "keep", image_id, None, grades[image_id], "", by, view, source, at)
        for image_id in dict.fromkeys(action.accept)
        if image_id in grades and not cards.is_pair_decided((query_id, image_id))
    ]


def build_undo_decisions(cards: QueryCards, view: str, source: str, at: str) -> list[QueryDecision]:
    """Return the decisions that undo the reviewer's last action. Raises ActionError where there is none."""
    own, by = cards.state.own, cards.state.reviewer
    if not own:
        raise ActionError("there is nothing to take back")
    at_once = (own[-1].at, own[-1].source)
    return [
        QueryDecision(d.query_id, d.text, "undo", d.image_id, None, None, "", by, view, source, at, d.decision_id)
        for d in takewhile(lambda one: (one.at, one.source) == at_once, reversed(own))
    ]


def _new_text(action: Action) -> str:
    text = clean_text(action.new_text or "", "the text", allowed="")
    if not text:
        raise ActionError("a query needs a text")
    if text == action.text:
        raise ActionError("the text is the same as before")
    return text


def clean_text(text: str, what: str, allowed: str = "\n") -> str:
    """Return a text without surrounding blanks, as a log can hold it; `what` names it in errors. Raises ActionError for
    a text that is too long or has control characters other than `allowed`."""
    if len(text) > MAX_TEXT_CHARS:
        raise ActionError(f"{what} is longer than {MAX_TEXT_CHARS:,} characters")
    text = text.replace("\r\n", "\n").strip()
    refused = {"Cc", "Cs", "Zl", "Zp"}
    if "\ufffd" in text or any(unicodedata.category(c) in refused and c not in allowed for c in text):
        raise ActionError(f"{what} holds a character that cannot be kept")
    return text
