"""Actions of a reviewer on the page, as decisions for the log; queues of pairs that a reviewer judges one by one.

Images of the set by a text: their file name, their labels, their captions, and the queries they are right for.

A summary of the decisions on captions, duplicates and rejections, for the view of decisions.
"""

import heapq
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any

from pydantic import BaseModel, Field

from querytruth.records import stable_hash
from querytruth.review.page_parts import text_or_empty
from querytruth.review.query_cards import QueryCards
from querytruth.review.query_queue import ShortText
from querytruth.sets import benchmark_set, decision_agreement, decision_outcomes, decision_records

PAIR_SOURCES = {
    "results": "what searches returned and nobody judged, the first results first",
    "candidates": "nobody judged them, and they may be right; the most certain first",
    "disagreements": "two reviewers differ; the decision made here is final",
    "sample": "an audit: judgments drawn by hash, every query in turn",
}
_SAMPLE = 500
MAX_FOUND_IMAGES = 60
FoundImages = list[tuple[str, str]]  # image_id, and why it was found
VIEWS = ("queries", "pairs", decision_agreement.DISAGREEMENTS_VIEW)


def build_pair_queue(cards: QueryCards, source: str, results: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs (query_id, image_id) of a source of PAIR_SOURCES, in the order of review; queries that ask the
    same have one. `results`: the pool of the searches."""
    if source == "results":
        return [pair for pair in results if cards.has_target(pair)]
    if source == "candidates":
        scored = [
            (-score, cards.get_group(query).key, image)
            for query, candidates in cards.candidate_judgments.items()
            for image, (score, _) in candidates.items()
        ]
        return list(dict.fromkeys((query, image) for _, query, image in sorted(scored)))
    if source == "disagreements":
        disputed = [(query, image) for query, image in cards.list_disputed_targets() if image is not None]
        return list(dict.fromkeys((cards.get_group(query).key, image) for query, image in disputed))
    return _sample_judgments(cards)


def _sample_judgments(cards: QueryCards) -> list[tuple[str, str]]:
    """Return up to `_SAMPLE` judged pairs, chosen by hash; every query occurs once before any occurs twice."""
    judged = [group.key for group in cards.groups if any(entry.judged_count for entry in group.members)]
    queries = heapq.nsmallest(_SAMPLE, judged, key=lambda query: stable_hash("audit", query))
    turns = -(-_SAMPLE // max(len(queries), 1))
    ordered: list[tuple[int, int, str, str]] = []
    for place, query in enumerate(queries):
        images = heapq.nsmallest(turns, cards.get_grades(query), key=lambda image: stable_hash("audit", query, image))
        ordered += [(turn, place, query, image) for turn, image in enumerate(images)]
    return [(query, image) for _, _, query, image in sorted(ordered)[:_SAMPLE]]


def find_images_by_text(tables: benchmark_set.Tables, cards: QueryCards, search: str) -> FoundImages:
    """Return up to 60 images with the reason: those with the text in their name first, then in a label, in a caption,
    and in a query that they are right for."""
    wanted = search.strip().casefold()
    found: dict[str, str] = {}
    if not wanted:
        return []
    for image_id, reason in _iterate_matches(tables, cards, wanted):
        found.setdefault(image_id, reason)
        if len(found) == MAX_FOUND_IMAGES:
            break
    return list(found.items())


def _iterate_matches(tables: benchmark_set.Tables, cards: QueryCards, wanted: str) -> Iterator[tuple[str, str]]:
    columns = (tables.images[name] for name in ("image_id", "file_name", "caption"))
    images = [tuple(map(text_or_empty, row)) for row in zip(*columns, strict=True)]
    for name, image_id in sorted((name, one) for one, name, _ in images if wanted in name.casefold() or wanted == one):
        yield image_id, f"name: {name}"
    by_label = [entry for entry in cards.entries if any(wanted in label.casefold() for label in entry.labels)]
    for entry in sorted(by_label, key=lambda entry: (len(entry.labels), entry.query_id)):
        yield from _right_images(cards, entry.query_id, f"label: {' & '.join(entry.labels)}")
    for image_id, _, caption in images:
        if wanted in caption.casefold():
            yield image_id, f"caption: {caption}"
    for entry in cards.entries:
        if wanted in cards.text_of(entry).casefold():
            yield from _right_images(cards, entry.query_id, f"right for: {cards.text_of(entry)}")


def _right_images(cards: QueryCards, query_id: str, reason: str) -> Iterator[tuple[str, str]]:
    for image_id, grade in cards.get_grades(query_id).items():
        if grade > 0:
            yield image_id, reason


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """The reviewer of each effective decision, by the kind's name on the page. Of decisions that only a build can
    apply: how many are in the version, how many wait for the next build, and the stale ones as table rows."""

    reviewers_by_kind: dict[str, list[str]]
    in_version: int
    waiting: int
    stale: list[dict[str, str]]


def summarize_decisions(
    pairs: list[decision_records.ImagePairDecision],
    overrides: list[decision_records.Override],
    captions: list[decision_records.HumanCaption],
    record: Mapping[str, Any],
    image_names: Mapping[str, str],
) -> DecisionSummary:
    """Summarize the logs of a set. `record`: the `decisions` of the version's manifest; `image_names`: file names by
    image_id."""
    reviewers_by_kind = {
        "Captions": [
            caption.reviewer for caption in decision_records.latest_by_target(captions).values() if caption.lines
        ],
        "Near-duplicates": [one.reviewer for one in decision_records.effective(pairs) if one.undoes is None],
        "Rejects": [one.reviewer for one in decision_records.effective(overrides) if one.undoes is None],
    }
    outcome, waiting_ids = decision_outcomes.carry_over([*pairs, *overrides], record)
    latest_ids = {
        one.decision_id for log in (pairs, overrides) for one in decision_records.latest_by_target(log).values()
    }
    stale = []
    for decision, reason in outcome.stale:
        text = decision.text
        if isinstance(decision, decision_records.ImagePairDecision):
            text = " and ".join(image_names.get(image_id, image_id) for image_id in decision.images)
        stale.append({"decision": decision.decision, "text": text, "why": reason})
    return DecisionSummary(
        {kind: reviewers for kind, reviewers in reviewers_by_kind.items() if reviewers},
        len(latest_ids.intersection(outcome.in_effect)),
        len(waiting_ids),
        stale,
    )


def count_by_reviewer(reviewers_by_kind: Mapping[str, Iterable[str]]) -> list[tuple[str, list[int]]]:
    """Return the number of decisions of each kind per reviewer, sorted by name."""
    counts = [Counter(name or "nobody named" for name in names) for names in reviewers_by_kind.values()]
    return [(name, [count[name] for count in counts]) for name in sorted(set().union(*counts))]


class ActionError(Exception):
    """An action cannot be taken; the message is one sentence for the reviewer."""


class SeenText(BaseModel, extra="forbid", strict=True):
    """A query's text as the person saw it."""

    query_id: ShortText
    text: str


class Action(SeenText):
    """An action on a query or on one of its images. `others`: further queries that ask the same and that it is for;
    `accept`: further images of the query that it confirms; `keeps_truth`: an edit leaves the meaning."""

    decision: ShortText
    image_id: ShortText | None = None
    relevance: int | None = None
    new_text: str | None = None
    keeps_truth: bool = False
    note: str = ""
    view: ShortText
    others: Annotated[list[SeenText], Field(max_length=500)] = []
    accept: Annotated[list[ShortText], Field(max_length=500)] = []


def build_decisions(action: Action, cards: QueryCards, source: str, at: str) -> list[decision_records.QueryDecision]:
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
            raise ActionError("a grade is for an image")
    elif kind == "edit":
        raise ActionError("only a query's text can be edited")
    elif kind == "keep":
        relevance = cards.get_grades(action.query_id).get(action.image_id, 1)
    if kind == "grade" and relevance not in cards.grades:
        raise ActionError(f"the grades of this set are {', '.join(map(str, cards.grades))}")
    new_text = _new_text(action) if kind == "edit" else None
    decided = [
        decision_records.QueryDecision(
            seen.query_id, seen.text, kind, action.image_id, new_text, relevance if kind != "drop" else None, note,
            cards.state.reviewer, action.view, source, at, keeps_truth=kind == "edit" and action.keeps_truth,
        )
        for seen in _list_decided_texts(action, cards)
    ]  # fmt: skip
    return [*_accepted(action, cards, source, at), *decided]


def _check_texts(action: Action, cards: QueryCards) -> None:
    """Raises ActionError for a query or image that the version does not have, a query that asks something else, and a
    text that has changed."""
    if not cards.has_target((action.query_id, action.image_id)):
        raise ActionError("this query or image is not in the set")
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


def _accepted(action: Action, cards: QueryCards, source: str, at: str) -> list[decision_records.QueryDecision]:
    """Return a keep for each accepted image with a grade in the set and no decision of the reviewer."""
    query_id, by, view = action.query_id, cards.state.reviewer, action.view
    grades = cards.get_grades(query_id)
    return [
        decision_records.QueryDecision(
            query_id, action.text, "keep", image_id, None, grades[image_id], "", by, view, source, at
        )
        for image_id in dict.fromkeys(action.accept)
        if image_id in grades and not cards.is_pair_decided((query_id, image_id))
    ]


def build_undo_decisions(cards: QueryCards, view: str, source: str, at: str) -> list[decision_records.QueryDecision]:
    """Return the decisions that undo the reviewer's last action. Raises ActionError where there is none."""
    own, by = cards.state.own, cards.state.reviewer
    if not own:
        raise ActionError("there is nothing to take back")
    at_once = (own[-1].at, own[-1].source)
    return [
        decision_records.QueryDecision(
            d.query_id, d.text, "undo", d.image_id, None, None, "", by, view, source, at, d.decision_id
        )
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
    if len(text) > decision_records.MAX_TEXT_CHARS:
        raise ActionError(f"{what} is longer than {decision_records.MAX_TEXT_CHARS:,} characters")
    text = text.replace("\r\n", "\n").strip()
    refused = {"Cc", "Cs", "Zl", "Zp"}
    if "\ufffd" in text or any(unicodedata.category(c) in refused and c not in allowed for c in text):
        raise ActionError(f"{what} holds a character that cannot be kept")
    return text
