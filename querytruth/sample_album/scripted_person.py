"""A scripted person who judges sets of the sample album, knows the scenes, and makes no error.

For a search log, they judge what a search might show. For a generated set, a scripted judge with a known error rate
selects the pairs and the person answers card by card, so that the certificate can be compared with the facts.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from builders.publication import BuildResult, publish_decisions
from querytruth.audit import judge, steps
from querytruth.audit.answers import load_audit, read_answers
from querytruth.audit.card_audit import CardAudit
from querytruth.audit.definition import AuditKeys
from querytruth.audit.pool import PAIR, pool_set
from querytruth.audit.report import report_audit
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, OnAnswers, always_continue, make_score_reply
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import translate_write_errors
from querytruth.records import stable_hash
from querytruth.sample_album.album import AlbumImage
from querytruth.sample_album.fitting_images import find_fitting_images
from querytruth.sets import set_files
from querytruth.sets.decision_agreement import AUDIT_VIEW, name_audit_rating
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.manifest_notes import Certificate

_PERSON = "scripted person"
_NAME, _DEPTH, _UNTIL, _AT_ONCE, _SECONDS = "audit", 10, "recall=0.9", 40, 6
_SENSITIVITY, _SPECIFICITY = 0.85, 0.95  # of the scripted judge, where a score over .5 is a yes
_HASHES = 2**64
_LOOKED_AT = 10  # images beside the right ones: as many as say that a query has no answer
Pairs = set[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SampleCertificate:
    """The certificate and the page of the audit. `recall`, `wrong_share`: values of the next version, by the album's
    scenes; `is_held`: whether the certificate is true for them."""

    stated: Certificate
    page: Path
    recall: float
    wrong_share: float
    is_held: bool


def certify_sample_queries(
    version: Path, folder: Path, album: Iterable[AlbumImage], runs: Sequence[Path]
) -> SampleCertificate:
    """Certify a copy of the version, made in `folder`, so that the set itself keeps its judgments. `runs`: folders of
    results on that version."""
    copy = folder / version.parent.name / version.name
    with translate_write_errors("copy set", copy):
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(version, copy)
    truth = _list_true_pairs(copy, album)
    pooled = replace(pool_set(copy, runs, _DEPTH), judge_form="pair")
    judged = judge.judge_pool(_ScriptedJudge(truth), pooled)
    steps.start_audit(copy, pooled, AuditKeys(name=_NAME, until=_UNTIL, depth=_DEPTH), judged)
    _answer_cards(copy, truth)
    page = report_audit(copy, _NAME, "en")[1]
    newest = publish_decisions(copy)
    stated = newest.manifest["notes"]["certificate"]
    pool = set(pooled.pool.pairs[PAIR].itertuples(index=False, name=None))
    qrels = set_files.read_set(newest.path, ("qrels",)).tables.qrels
    held = set(qrels.loc[qrels["relevance"] > 0, PAIR].astype("str").itertuples(index=False, name=None))
    recall, wrong = len(held & truth & pool) / len(truth & pool), len(held - truth) / len(held)
    is_held = recall >= stated["recall_at_least"] and wrong <= stated["wrong_at_most"]
    return SampleCertificate(stated, page, recall, wrong, is_held)


class _ScriptedJudge:
    """A model of pairs that knows the truth and errs on pairs that a hash chooses."""

    is_recorded = False
    identity = ModelIdentity(
        "scripted-judge", parameters={"sensitivity": _SENSITIVITY, "specificity": _SPECIFICITY}
    )  # fmt: skip

    def __init__(self, truth: Pairs) -> None:
        self._truth = truth

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        """Return a score per request, as a number."""
        pairs = [(request.item, request.messages[0].images[0].image_id) for request in requests]
        answers = [make_score_reply(self._score(pair)) for pair in pairs]
        on_answers(list(enumerate(answers)))
        return answers

    def _score(self, pair: tuple[str, str]) -> float:
        is_relevant = pair in self._truth
        errs = stable_hash("judge", *pair) / _HASHES >= (_SENSITIVITY if is_relevant else _SPECIFICITY)
        return (stable_hash("score", *pair) / _HASHES + (is_relevant != errs)) / 2


def _list_true_pairs(version: Path, album: Iterable[AlbumImage]) -> Pairs:
    found = find_fitting_images(set_files.read_set(version, ("queries", "images", "qrels")).tables, album)
    return {(query, image) for query, images in found.items() for image in images or ()}


def _answer_cards(version: Path, truth: Pairs) -> None:
    """Answer cards by the truth, as a person on the page does, until no more are asked."""
    audit, stored = load_audit(version, _NAME)
    growing, texts = (
        CardAudit(audit, stored),
        dict(stored.tables.queries[["query_id", "text"]].astype("str").to_numpy()),
    )
    at = datetime(2026, 1, 1, tzinfo=UTC)
    while pairs := growing.hand_out(known := read_answers(version, audit), _PERSON, _AT_ONCE):
        answers = []
        for query, image in pairs:
            at += timedelta(seconds=_SECONDS)
            rating = known.reviewers.get((query, image), []).count(_PERSON) + 1
            answers.append(
                QueryDecision(
                    query, texts[query], "grade", image, relevance=int((query, image) in truth), view=AUDIT_VIEW,
                    reviewer=_PERSON, source=name_audit_rating(audit.manifest["audit_id"], rating), at=at.isoformat(),
                )
            )  # fmt: skip
        append_decisions(version.parent, answers)


def judge_sample_log(version: Path, album: Iterable[AlbumImage]) -> BuildResult:
    """Judge every image that fits a query, and ten others, and publishes the next version."""
    tables = set_files.read_set(version, ("queries", "images")).tables
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    images = sorted(tables.images["image_id"])
    decisions = []
    for query, fitting in find_fitting_images(tables, album).items():
        right = fitting or set()
        others = sorted(set(images) - right, key=lambda image: stable_hash("look", query, image))[:_LOOKED_AT]
        decisions += [
            QueryDecision(query, texts[query], "grade", image, relevance=int(image in right), reviewer=_PERSON)
            for image in [*sorted(right), *others]
        ]
    append_decisions(version.parent, decisions)
    return publish_decisions(version)
