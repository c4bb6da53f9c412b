"""The view of audits: cards of the drawn pairs, one by one and blind.

A card has no grade of the set, of a judge or of another person, no system and no file name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from querytruth.audit.answers import AuditAnswers, collect_answers
from querytruth.audit.audit_files import CARDS_UNIT, audit_folder, list_audits, read_audit, read_audit_manifest
from querytruth.audit.extension import CardAudit
from querytruth.audit.pool import JsonRecord
from querytruth.review import page_parts, query_cards, server_session
from querytruth.review.deck import ActionError, clean_text
from querytruth.review.query_queue import CardKeys, LongText, ShortText
from querytruth.sets.decision_agreement import AUDIT_VIEW
from querytruth.sets.decision_log import DecisionLog
from querytruth.sets.decision_records import QueryDecision, UndeterminedPair
from querytruth.sets.manifest_notes import describe_certificate
from querytruth.sets.set_files import StoredSet

AuditAnswer = QueryDecision | UndeterminedPair
_SEPARATOR = "/"  # between audit, query and image in a key
_CARDS_AT_ONCE = 5  # that a person holds
Pair = tuple[str, str]


@dataclass(slots=True)
class AuditSample:
    """The drawn pairs of an audit, in the order of the sample; of an audit until a goal those that were handed out, and
    `growing`, which hands out more."""

    audit_id: str
    pairs: list[Pair]
    growing: CardAudit | None = None


class AuditCards:
    """The pairs of audits, one by one, with the reviewer's own answers. `samples`: by the name of the audit; `texts`:
    text and language by query id; `grades`: those of the set, and 0."""

    def __init__(
        self,
        samples: Mapping[str, AuditSample],
        texts: Mapping[str, tuple[str, str]],
        grades: Sequence[int],
        reviewer: str,
    ) -> None:
        self.samples, self.grades, self.reviewer = samples, grades, reviewer
        self._texts = texts
        self._states = {name: query_cards.ReviewState[AuditAnswer](reviewer) for name in samples}
        self._pairs = {name: set(sample.pairs) for name, sample in samples.items()}

    def hand_out(self, name: str, language: str = "en") -> tuple[list[str], str]:
        """Return the keys of the cards that this reviewer answers next in an audit until a goal, and what is certified
        so far, in a language; none of another audit. Raises UserError where cards cannot be kept."""
        sample = self.samples.get(name)
        if sample is None or sample.growing is None:
            return [], ""
        answers = self.collect(name)
        pairs = sample.growing.hand_out(answers, self.reviewer, _CARDS_AT_ONCE)
        new = [pair for pair in pairs if pair not in self._pairs[name]]
        sample.pairs += new
        self._pairs[name] |= set(new)
        keys = [_SEPARATOR.join((name, *pair)) for pair in pairs]
        return keys, describe_certificate(sample.growing.answer(answers).certify(sample.growing.goal), language)

    def apply_entries(self, entries: Iterable[AuditAnswer]) -> None:
        """Apply the next entries of the log; those of other views and audits do not count."""
        entries = list(entries)
        for name, sample in self.samples.items():
            self._states[name].apply_entries(one for one in entries if _audit_of(one) == sample.audit_id)

    def list_keys(self, name: str, state: str) -> list[str]:
        """Return the keys of an audit's pairs: all, those without (open) or with (decided) an answer of the reviewer,
        or those on which two others differ (disputed)."""
        if name not in self.samples:
            return []
        if self.samples[name].growing is not None and state in ("all", "open"):
            answered = self.list_keys(name, "decided") if state == "all" else []
            return answered + self.hand_out(name)[0]
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
        entries = self._states[name].list_decisions()
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
        name, _, rest = key.partition(_SEPARATOR)
        query, _, image = rest.partition(_SEPARATOR)
        return name in self._pairs and (query, image) in self._pairs[name]

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
        audit_id, note = self.samples[name].audit_id, clean_text(note, "the note")
        if grade is None:
            return UndeterminedPair(query, image, audit_id, note=note, reviewer=self.reviewer, view=AUDIT_VIEW, at=at)
        if grade not in self.grades:
            raise ActionError(f"the grades of this set are {', '.join(map(str, self.grades))}")
        text = self._texts[query][0]
        return QueryDecision(
            query, text, "grade", image, relevance=grade, note=note, reviewer=self.reviewer, view=AUDIT_VIEW,
            source=audit_id, at=at,
        )  # fmt: skip

    def create_undo(self, at: str) -> AuditAnswer:
        """Return the undo of the reviewer's last answer. Raises ActionError where there is none."""
        own = [one for state in self._states.values() for one in state.own[-1:]]
        if not own:
            raise ActionError("there is nothing to take back")
        last = max(own, key=lambda one: one.at)
        shared: JsonRecord = {"decision": "undo", "reviewer": self.reviewer, "view": AUDIT_VIEW, "at": at}
        if isinstance(last, UndeterminedPair):
            return UndeterminedPair(last.query_id, last.image_id, last.audit, undoes=last.decision_id, **shared)
        return QueryDecision(
            last.query_id, last.text, image_id=last.image_id, source=last.source, undoes=last.decision_id, **shared
        )

    def find_card(self, answer: AuditAnswer) -> JsonRecord:
        """Return the card of an answer."""
        (name,) = [name for name, sample in self.samples.items() if sample.audit_id == _audit_of(answer)]
        return self.build_card(_SEPARATOR.join((name, answer.query_id, str(answer.image_id))))

    def _split(self, key: str) -> tuple[str, Pair]:
        if not self.has_key(key):
            raise ActionError("this pair is not in the sample of an audit")
        name, query, image = key.split(_SEPARATOR, 2)
        return name, (query, image)

    def _own(self, name: str, pair: Pair) -> AuditAnswer | None:
        return self._states[name].get_own_decision(pair)


def _audit_of(answer: AuditAnswer) -> str:
    """Return the id of the audit that an answer is for, "" where it is for none."""
    if isinstance(answer, UndeterminedPair):
        return answer.audit
    return answer.source if answer.view == AUDIT_VIEW else ""


class AuditAnswerRequest(BaseModel, extra="forbid", strict=True):
    """An answer to a pair; no grade: the person cannot tell."""

    view: ShortText
    key: ShortText
    grade: int | None
    note: LongText = ""


def audit_routes(session: server_session.LogSession[AuditAnswer], cards: AuditCards, about: JsonRecord) -> APIRouter:
    """Return the routes of the page and its data; the cards follow the log of the session."""
    routes = APIRouter()

    @routes.get("/audit", response_class=HTMLResponse)
    def page(accept_language: Annotated[str, Header()] = "") -> str:
        session.refresh()
        answers = {name: cards.collect(name) for name in cards.samples}
        stated = {name: cards.hand_out(name, _choose_language(accept_language))[1] for name in cards.samples}
        return page_parts.render_template(
            "review_audit.html", about=about, grades=list(cards.grades), answers=answers, stated=stated
        )

    @routes.get("/api/audit/queue")
    def queue(audit: ShortText, state: Literal["all", "open", "decided", "disputed"] = "all") -> JsonRecord:
        session.refresh()
        keys = cards.list_keys(audit, state)
        return {"keys": keys, "done": [int(cards.is_decided(key)) for key in keys]}

    @routes.get("/api/audit/next")
    def next_cards(audit: ShortText, accept_language: Annotated[str, Header()] = "") -> JsonRecord:
        session.refresh()
        keys, stated = cards.hand_out(audit, _choose_language(accept_language))
        return {"keys": keys, "stated": stated}

    @routes.get("/api/audit/cards")
    def some(key: Annotated[CardKeys, Query()]) -> JsonRecord:
        session.refresh()
        return {"cards": [cards.build_card(name) for name in key if cards.has_key(name)]}

    @routes.post("/api/audit/decide")
    def decide(request: AuditAnswerRequest) -> JsonRecord:
        card = session.append_one(
            lambda at: cards.create_answer(request.key, request.grade, request.note, at), cards.find_card
        )
        return {"card": card}

    @routes.post("/api/audit/undo")
    def undo() -> JsonRecord:
        return {"card": session.append_one(cards.create_undo, cards.find_card) | {"undone": 1}}

    return routes


def _choose_language(accepted: str) -> str:
    """Return the language of a browser that prefers Chinese, else English."""
    return "zh" if accepted.strip().lower().startswith("zh") else "en"


def build_audit_routes(stored: StoredSet, reviewer: str, about: JsonRecord) -> list[APIRouter]:
    """Return the routes of the view; none for a version without an audit. Raises UserError for a damaged audit."""
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
    return [audit_routes(server_session.LogSession(cards.apply_entries, log), cards, about)]
