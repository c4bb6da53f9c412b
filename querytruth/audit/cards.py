"""The view of audits: cards of the drawn pairs, one by one and blind.

A card has no grade of the set, of a judge or of another person, no system and no file name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from querytruth.audit.answers import AuditAnswers, collect_answers
from querytruth.audit.audit_files import CARDS_UNIT, audit_folder, list_audits, read_audit, read_audit_manifest
from querytruth.audit.card_audit import CardAudit
from querytruth.audit.pool import JsonRecord
from querytruth.review import deck, query_cards
from querytruth.review.page_parts import page_language, translate
from querytruth.sets.decision_agreement import AUDIT_VIEW, name_audit_rating
from querytruth.sets.decision_log import DecisionLog
from querytruth.sets.decision_records import QueryDecision, UndeterminedPair
from querytruth.sets.manifest_notes import describe_certificate
from querytruth.sets.set_files import StoredSet

AuditAnswer = QueryDecision | UndeterminedPair
_SEPARATOR = "/"  # between audit, query and image in a key
_CARDS_AT_ONCE = 5  # that a person holds
_RATINGS = (1, 2, 3)  # of one person at a pair, in an audit until a goal
Pair = tuple[str, str]


@dataclass(slots=True)
class AuditSample:
    """The drawn pairs of an audit, in the order of the sample; for an audit with a goal, those that were handed out,
    and `growing`, which hands out more."""

    audit_id: str
    pairs: list[Pair]
    growing: CardAudit | None = None


class AuditFilter(BaseModel, extra="forbid", frozen=True):
    """The pairs of an audit that a page shows."""

    audit: deck.ShortText
    state: Literal["all", "open", "decided", "disputed"] = "all"


class AuditVerdict(deck.Verdict):
    """An answer to a pair; no grade: the person cannot tell."""

    key: deck.ShortText
    grade: int | None
    note: deck.LongText = ""


class AuditCards(deck.LogView[AuditAnswer]):
    """The pairs of audits, one by one, with the reviewer's own answers. `samples`: by the name of the audit; `texts`:
    text and language by query id; `grades`: those of the set, and 0."""

    name, filter_model, verdict_model = "audit", AuditFilter, AuditVerdict
    promise = "What the set, a model or other people say about a pair is not shown."

    def __init__(
        self,
        samples: Mapping[str, AuditSample],
        texts: Mapping[str, tuple[str, str]],
        grades: Sequence[int],
        reviewer: str,
    ) -> None:
        self.samples, self.grades, self.reviewer = samples, grades, reviewer
        self._texts = texts
        # By the name of a look, which stands in keys: the name of its audit, and the id that its answers have.
        self._ratings = {
            name_audit_rating(name, number): (name, name_audit_rating(sample.audit_id, number))
            for name, sample in samples.items()
            for number in _RATINGS
        }
        self._states = {rating: query_cards.ReviewState[AuditAnswer](reviewer) for rating in self._ratings}
        self._pairs = {name: set(sample.pairs) for name, sample in samples.items()}

    def hand_out(self, name: str, language: str = "en") -> tuple[list[str], str]:
        """Return the keys of the cards that this reviewer answers next in an audit with a goal, and what is certified
        so far, in a language; nothing for other audits. Raises UserError where cards cannot be stored."""
        sample = self.samples.get(name)
        if sample is None or sample.growing is None:
            return [], ""
        answers = self.collect(name)
        pairs = sample.growing.hand_out(answers, self.reviewer, _CARDS_AT_ONCE)
        new = [pair for pair in pairs if pair not in self._pairs[name]]
        sample.pairs += new
        self._pairs[name] |= set(new)
        ratings = [(answers.reviewers.get(pair, []).count(self.reviewer) + 1, pair) for pair in pairs]
        keys = [_SEPARATOR.join((name_audit_rating(name, number), *pair)) for number, pair in ratings]
        return keys, describe_certificate(sample.growing.certify(answers), language)

    def apply_entries(self, entries: Iterable[AuditAnswer]) -> None:
        """Apply the next entries of the log; those of other views and audits do not count."""
        entries = list(entries)
        for rating, (_, audit_id) in self._ratings.items():
            self._states[rating].apply_entries(one for one in entries if _audit_of(one) == audit_id)

    def build_cards(self, keys: Iterable[str]) -> list[JsonRecord]:
        """Return the cards of these pairs; unknown keys are skipped."""
        return [self.build_card(key) for key in keys if self.has_key(key)]

    def list_keys(self, name: str, state: str) -> list[str]:
        """Return the keys of an audit's pairs: all, those without (open) or with (decided) an answer of the reviewer,
        or those on which two others differ (disputed)."""
        if name not in self.samples:
            return []
        if self.samples[name].growing is not None and state in ("all", "open"):
            return (self.list_keys(name, "decided") if state == "all" else []) + self.hand_out(name)[0]
        disputed = set(self.collect(name).disputed)
        wanted: dict[str, Callable[[Pair], bool]] = {
            "all": lambda _pair: True,
            "open": lambda pair: self._own(name, pair) is None,
            "decided": lambda pair: self._own(name, pair) is not None,
            "disputed": lambda pair: pair in disputed and self._own(name, pair) is None,
        }
        return [_SEPARATOR.join((name, *pair)) for pair in self.samples[name].pairs if wanted[state](pair)]

    def collect(self, name: str) -> AuditAnswers:
        """Return the answers of all people to an audit."""
        entries = [one for number in _RATINGS for one in self._states[name_audit_rating(name, number)].list_decisions()]
        return collect_answers(
            self.samples[name].audit_id,
            [one for one in entries if isinstance(one, QueryDecision)],
            [one for one in entries if isinstance(one, UndeterminedPair)],
        )

    def is_decided(self, key: str) -> bool:
        """Return whether the reviewer answered."""
        name, pair = self._split(key)
        return self._own(name, pair) is not None

    def has_key(self, key: str) -> bool:
        """Return whether a drawn pair has this key."""
        rating, _, rest = key.partition(_SEPARATOR)
        query, _, image = rest.partition(_SEPARATOR)
        return rating in self._ratings and (query, image) in self._pairs[self._ratings[rating][0]]

    def build_card(self, key: str) -> JsonRecord:
        """Return a pair with the reviewer's own answer."""
        name, (query, image) = self._split(key)
        text, language = self._texts[query]
        own = self._own(name, (query, image))
        shown = None
        if own is not None:
            grade = own.relevance if isinstance(own, QueryDecision) else None
            shown = {"grade": grade, "note": own.note}
        return {
            "key": key,
            "query_id": query,
            "text": text,
            "language": language,
            "image": {"image_id": image, "own": shown},
        }

    def create_answer(self, key: str, grade: int | None, note: str, at: str) -> AuditAnswer:
        """Return the reviewer's answer to a pair; without a grade, that the person cannot tell. Raises ActionError for
        a pair that was not drawn and for a grade that the set does not have."""
        name, (query, image) = self._split(key)
        audit_id, note = self._ratings[name][1], deck.clean_text(note, "the note")
        if grade is None:
            return UndeterminedPair(query, image, audit_id, note=note, reviewer=self.reviewer, view=AUDIT_VIEW, at=at)
        if grade not in self.grades:
            raise deck.ActionError(f"the grades of this set are {', '.join(map(str, self.grades))}")
        text = self._texts[query][0]
        return QueryDecision(
            query, text, "grade", image, relevance=grade, note=note, reviewer=self.reviewer, view=AUDIT_VIEW,
            source=audit_id, at=at,
        )  # fmt: skip

    def create_undo(self, at: str) -> AuditAnswer:
        """Return the undo of the reviewer's last answer. Raises ActionError where there is nothing to undo."""
        own = [one for state in self._states.values() for one in state.own[-1:]]
        if not own:
            raise deck.ActionError("there is nothing to undo")
        last = max(own, key=lambda one: one.at)
        shared: JsonRecord = {"decision": "undo", "reviewer": self.reviewer, "view": AUDIT_VIEW, "at": at}
        if isinstance(last, UndeterminedPair):
            return UndeterminedPair(last.query_id, last.image_id, last.audit, undoes=last.decision_id, **shared)
        return QueryDecision(
            last.query_id, last.text, image_id=last.image_id, source=last.source, undoes=last.decision_id, **shared
        )

    def find_card(self, answer: AuditAnswer) -> JsonRecord:
        """Return the card of an answer."""
        (rating,) = [rating for rating, (_, audit_id) in self._ratings.items() if audit_id == _audit_of(answer)]
        return self.build_card(_SEPARATOR.join((rating, answer.query_id, str(answer.image_id))))

    def list_fields(self) -> list[JsonRecord]:
        """Return the audits, and what is answered."""
        names = {name: name for name in self.samples}
        return [
            deck.choice_field("audit", "Audit", names),
            deck.state_field("Answered", disputed="two others disagree: a third look"),
        ]

    def list_notes(self) -> list[str]:
        """Return how far people agree."""
        notes = []
        for name, one in ((name, self.collect(name)) for name in self.samples):
            if one.judged_twice:
                about = {"name": name, "judged_twice": f"{one.judged_twice:,}", "same": f"{one.same:,}"}
                note = translate(
                    "%(name)s: %(judged_twice)s judged by two people, %(same)s with the same answer", **about
                )
                notes.append(note + (translate(", kappa %(f)s", f=f"{one.kappa:.2f}") if one.kappa is not None else ""))
        return notes

    def describe_progress(self) -> str:
        """Return what the first audit that certifies something has shown so far, or ""."""
        stated = [self.hand_out(name, page_language())[1] for name in self.samples]
        return next(filter(None, stated), "")

    def build_queue(self, card_filter: AuditFilter) -> JsonRecord:
        """Return the pairs of an audit that pass the filter."""
        return deck.queue_of(self.list_keys(card_filter.audit, card_filter.state), self.is_decided)

    def decide(self, verdict: AuditVerdict) -> JsonRecord:
        """Write the answer."""
        fields = (verdict.key, verdict.grade, verdict.note)
        return self.append_one(lambda at: self.create_answer(*fields, at))

    def _split(self, key: str) -> tuple[str, Pair]:
        if not self.has_key(key):
            raise deck.ActionError("this pair is not in the sample of an audit")
        name, query, image = key.split(_SEPARATOR, 2)
        return name, (query, image)

    def _own(self, name: str, pair: Pair) -> AuditAnswer | None:
        return self._states[name].get_own_decision(pair)


def _audit_of(answer: AuditAnswer) -> str:
    """Return the id of the audit that an answer is for, "" where it is for none."""
    if isinstance(answer, UndeterminedPair):
        return answer.audit
    return answer.source if answer.view == AUDIT_VIEW else ""


def next_card_routes(cards: AuditCards) -> APIRouter:
    """Return the route of the cards that an audit until a goal hands out next."""
    routes = APIRouter()

    @routes.get("/api/audit/next")
    def next_cards(audit: deck.ShortText) -> JsonRecord:
        cards.refresh()
        keys, stated = cards.hand_out(audit, page_language())
        return {"keys": keys, "stated": stated}

    return routes


def build_audit_routes(stored: StoredSet, reviewer: str, about: JsonRecord) -> list[APIRouter]:
    """Return the routes of the view; an empty list for a version without an audit. Raises UserError for a damaged
    audit."""
    samples = {}
    for name in list_audits(stored.path.parent):
        folder = audit_folder(stored.path.parent, name)
        if read_audit_manifest(folder)["set"]["content_digest"] != stored.manifest["content_digest"]:
            continue  # of another version
        audit = read_audit(folder)
        rows = audit.sample.sort_values("order")
        pairs = list(zip(rows["query_id"], rows["image_id"], strict=True))
        growing = CardAudit(audit, stored) if audit.manifest["unit"] == CARDS_UNIT else None
        samples[name] = AuditSample(audit.manifest["audit_id"], pairs, growing)
    if not samples:
        return []
    queries = stored.tables.queries[["query_id", "text", "language"]].astype("str")
    texts = {query: (text, language) for query, text, language in queries.itertuples(index=False, name=None)}
    grades = sorted({0, *map(int, stored.manifest["grades"])})
    cards = AuditCards(samples, texts, grades, reviewer)
    log = DecisionLog[AuditAnswer](stored.path.parent, (QueryDecision, UndeterminedPair))
    return [deck.deck_routes(cards.follow(log), about), next_card_routes(cards)]
