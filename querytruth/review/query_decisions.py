"""Actions of a reviewer on queries and on their images, as decisions for the log; the session of one reviewer on one
version."""

import secrets
from itertools import takewhile
from typing import Annotated

from pydantic import BaseModel, Field

from querytruth.review.deck import ActionError, CardData, LogSession, ShortText, Verdict, clean_text
from querytruth.review.query_cards import QueryCards
from querytruth.sets import decision_agreement
from querytruth.sets.decision_log import DecisionLog
from querytruth.sets.decision_records import QueryDecision

VIEWS = ("queries", "pairs", decision_agreement.DISAGREEMENTS_VIEW)


class ReviewSession(LogSession[QueryDecision]):
    """A session in which an action makes several decisions, and undo takes all of them back. `results`: unjudged pairs
    that searches returned, by rank."""

    def __init__(
        self, cards: QueryCards, log: DecisionLog[QueryDecision], results: list[tuple[str, str]] | None = None
    ) -> None:
        super().__init__(cards.state.apply_entries, log)
        self.cards, self.results = cards, results or []
        self._source = f"s_{secrets.token_hex(6)}"

    def record(self, action: "Action") -> CardData:
        """Write the decisions of an action and return its card. Raises ActionError where the action is invalid."""
        return self.append(
            lambda at: build_decisions(action, self.cards, self._source, at),
            lambda _entries: self._card(action.view, action.query_id, action.image_id),
        )

    def undo(self, view: str) -> CardData:
        """Undo the last action of any view and return its card. Raises ActionError without one."""
        return self.append(
            lambda at: build_undo_decisions(self.cards, view, self._source, at),
            lambda entries: self._card(view, entries[0].query_id, entries[0].image_id) | {"undone": len(entries)},
        )

    def _card(self, view: str, query_id: str, image_id: str | None) -> CardData:
        if view == "queries" or image_id is None:
            return self.cards.build_query_card(query_id)
        return self.cards.build_pair_card((self.cards.get_group(query_id).key, image_id))


class SeenText(BaseModel, extra="forbid", strict=True):
    """A query's text as the person saw it."""

    query_id: ShortText
    text: str


class Action(SeenText, Verdict):
    """An action on a query or on one of its images. `others`: further queries that ask the same and that it is for;
    `accept`: further images of the query that it confirms; `keeps_truth`: an edit leaves the meaning."""

    decision: ShortText
    image_id: ShortText | None = None
    relevance: int | None = None
    new_text: str | None = None
    keeps_truth: bool = False
    note: str = ""
    others: Annotated[list[SeenText], Field(max_length=500)] = []
    accept: Annotated[list[ShortText], Field(max_length=500)] = []


def build_decisions(action: Action, cards: QueryCards, source: str, at: str) -> list[QueryDecision]:
    """Return the decisions of an action, all at the same time. Raises ActionError where one of them is invalid."""
    _check_texts(action, cards)
    if action.view not in VIEWS:
        raise ActionError(f"unknown view; known views: {', '.join(VIEWS)}")
    note = clean_text(action.note, "the note")
    kind, relevance = action.decision, action.relevance
    if kind not in ("keep", "drop", "edit", "grade"):
        raise ActionError("unknown decision; known decisions: keep, drop, edit, grade")
    if action.image_id is None:
        relevance = None
        if kind == "grade":
            raise ActionError("a grade needs an image")
    elif kind == "edit":
        raise ActionError("only the text of a query can be edited")
    elif kind == "keep":
        relevance = cards.get_grades(action.query_id).get(action.image_id, 1)
    if kind == "grade" and relevance not in cards.grades:
        raise ActionError(f"the grades of this set are {', '.join(map(str, cards.grades))}")
    new_text = _new_text(action) if kind == "edit" else None
    decided = [
        QueryDecision(
            seen.query_id, seen.text, kind, action.image_id, new_text, relevance if kind != "drop" else None, note,
            cards.state.reviewer, action.view, source, at, keeps_truth=kind == "edit" and action.keeps_truth,
        )
        for seen in _list_decided_texts(action, cards)
    ]  # fmt: skip
    return [*_accepted(action, cards, source, at), *decided]


def _check_texts(action: Action, cards: QueryCards) -> None:
    """Raise ActionError for a query or image that the version does not have, a query that asks something else, and a
    text that has changed."""
    if not cards.has_target((action.query_id, action.image_id)):
        raise ActionError("this query or image is not in the set")
    equivalent = {entry.query_id: entry for entry in cards.get_group(action.query_id).members}
    for seen in (action, *action.others):
        if (entry := equivalent.get(seen.query_id)) is None:
            raise ActionError(f"“{seen.text}” is a different query")
        if seen.text != (text := cards.text_of(entry)):
            raise ActionError(f"the query now reads “{text}”; look at it again")


def _list_decided_texts(action: Action, cards: QueryCards) -> list[SeenText]:
    """Return the queries to store the decision on. A decision on an image is stored once, and also on queries with
    their own decision that would contradict it. A decision on texts is stored on each query, but a keep only on those
    that the person did not drop or edit."""
    if action.image_id is not None:
        return [action, *(one for one in action.others if cards.state.on_target((one.query_id, action.image_id)))]
    if action.decision == "edit" and action.others:
        raise ActionError("one text is edited at a time: select it first")
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
    """Return the decisions that undo the reviewer's last action. Raises ActionError where there is nothing to undo."""
    own, by = cards.state.own, cards.state.reviewer
    if not own:
        raise ActionError("there is nothing to undo")
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
        raise ActionError("the text did not change")
    return text
