"""What a person does on the page, as decisions; or why it cannot be taken."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from builders.agreement import SETTLED_IN
from builders.decisions import Decision
from review.cards import Cards

VIEWS = ("queries", "pairs", SETTLED_IN)
_LONGEST = 4000  # characters of a text or note


class Refused(Exception):
    """Why a word cannot be taken, in one sentence for the person who said it."""


@dataclass(frozen=True, slots=True)
class Said:
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


def decisions_of(said: Said, cards: Cards, source: str, at: str) -> list[Decision]:
    """The decisions that an act comes to, all of the same time; `Refused` where one of them cannot be."""
    entry = cards.by_id.get(said.query_id)
    if entry is None or not cards.is_known((said.query_id, said.image_id)):
        raise Refused("this query or picture is not in the set")
    if said.text != cards.text_of(entry):
        raise Refused(f"the query reads “{cards.text_of(entry)}” by now; look at it again")
    if said.view not in VIEWS:
        raise Refused(f"the view is none of {', '.join(VIEWS)}")
    note = _clean(said.note, "the note", "\n")
    kind, relevance = said.decision, said.relevance
    if kind not in ("keep", "drop", "edit", "grade"):
        raise Refused("the decision is none of keep, drop, edit, grade")
    if said.image_id is None:
        relevance = None
        if kind == "grade":
            raise Refused("a grade is for a picture")
    elif kind == "edit":
        raise Refused("only a query's text can be edited")
    elif kind == "keep":
        relevance = cards.judged(said.query_id).get(said.image_id, 1)
    if kind == "grade" and relevance not in cards.grades:
        raise Refused(f"the grades of this set are {', '.join(map(str, cards.grades))}")
    new_text = _new_text(said) if kind == "edit" else None
    one = Decision(
        said.query_id, said.text, kind, said.image_id, new_text, relevance if kind != "drop" else None, note,
        cards.words.reviewer, said.view, source, at,
    )  # fmt: skip
    return [*_accepted(said, cards, source, at), one]


def _accepted(said: Said, cards: Cards, source: str, at: str) -> list[Decision]:
    """A keep of each picture that has a grade in the set and no word of the reviewer yet."""
    found, judged = [], cards.judged(said.query_id)
    for image_id in dict.fromkeys(said.accept):
        relevance = judged.get(image_id)
        if relevance is not None and cards.words.own((said.query_id, image_id)) is None:
            by, view = cards.words.reviewer, said.view
            found.append(
                Decision(said.query_id, said.text, "keep", image_id, None, relevance, "", by, view, source, at)
            )
    return found


def undo_of(cards: Cards, view: str, source: str, at: str) -> list[Decision]:
    """The lines that take back the reviewer's last act."""
    last = cards.words.last()
    if not last:
        raise Refused("there is nothing to take back")
    by = cards.words.reviewer
    return [
        Decision(d.query_id, d.text, "undo", d.image_id, None, None, "", by, view, source, at, d.decision_id)
        for d in reversed(last)
    ]


def _new_text(said: Said) -> str:
    text = _clean(said.new_text or "", "the text", "").strip()
    if not text:
        raise Refused("a query needs a text")
    if text == said.text:
        raise Refused("the text is the same as before")
    return text


def _clean(text: str, what: str, allowed: str) -> str:
    if len(text) > _LONGEST:
        raise Refused(f"{what} is longer than {_LONGEST:,} characters")
    text = text.replace("\r\n", "\n").strip()
    strange = {"Cc", "Cs", "Zl", "Zp"}
    if "\ufffd" in text or any(unicodedata.category(c) in strange and c not in allowed for c in text):
        raise Refused(f"{what} holds a character that cannot be kept")
    return text
