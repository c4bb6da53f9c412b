"""An audit of the sample album's generated set, whose truth is known: by a scripted judge of known error and a scripted
person who makes none.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.audit import judge, steps
from querytruth.audit.answers import build_sample_export, import_sample, load_audit, take_answers
from querytruth.audit.definition import AuditKeys
from querytruth.audit.pool import PAIR, PooledSet, pool_set
from querytruth.audit.report import report_audit
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, OnAnswers, Reply, always_continue
from querytruth.backends.models.stored_answers import reply_key
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import translate_write_errors
from querytruth.records import stable_hash
from querytruth.sample_album.album import AlbumImage
from querytruth.sample_album.query_evaluation import find_fitting_images
from querytruth.sets import review_csv, set_files
from querytruth.sets.review_csv import ReviewTableOptions

_NAME, _DEPTH, _JUDGMENTS = "audit", 10, 240
_SENSITIVITY, _SPECIFICITY = 0.85, 0.95  # of the scripted judge
_HASHES = 2**64
Pairs = set[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SampleAudit:
    """The report of the audit and its page. `missing_share`: the one that the album's scenes give; `judgments`: how
    many the person made; `is_held`: whether the interval holds it."""

    report: dict[str, Any]
    page: Path
    missing_share: float
    judgments: int
    is_held: bool


def audit_sample_queries(version: Path, folder: Path, album: Iterable[AlbumImage], runs: Sequence[Path]) -> SampleAudit:
    """Audits a copy of the version, made in `folder`, so that the set itself keeps its judgments. `runs`: folders of
    results on that version."""
    copy = folder / version.parent.name / version.name
    with translate_write_errors("copy set", copy):
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(version, copy)
    truth = _list_true_pairs(copy, album)
    pooled = pool_set(copy, runs, _DEPTH)
    judged = judge.judge_pool(_ScriptedJudge(pooled, truth), pooled)
    steps.start_audit(copy, pooled, AuditKeys(name=_NAME, judgments=_JUDGMENTS, depth=_DEPTH), judged)
    _answer(copy, truth, folder / "audit.csv")
    report, page = report_audit(copy, _NAME, "en")
    (found,) = [row for row in report["truth"] if row["measure"] == "missing_share"]
    pairs = pooled.pool.pairs
    relevant = [pair in truth for pair in zip(pairs["query_id"], pairs["image_id"], strict=True)]
    missing = sum(is_true and grade <= 0 for is_true, grade in zip(relevant, pairs["relevance"], strict=True))
    share = missing / sum(relevant)
    is_held = found["low"] <= share <= found["high"]
    return SampleAudit(report, page, share, report["answers"]["answered"], is_held)


class _ScriptedJudge:
    """A chat model that knows the truth of a pool and errs on pairs that a hash chooses."""

    is_recorded = False
    identity = ModelIdentity(
        "scripted-judge", parameters={"sensitivity": _SENSITIVITY, "specificity": _SPECIFICITY}
    )  # fmt: skip

    def __init__(self, pooled: PooledSet, truth: Pairs) -> None:
        requests, grades = judge.build_judge_requests(pooled)
        self._highest = max(grades)
        pairs = zip(pooled.pool.pairs["query_id"], pooled.pool.pairs["image_id"], strict=True)
        keys = [reply_key(self.identity, request) for request in requests]
        self._replies = {key: self._grade(pair, truth) for key, pair in zip(keys, pairs, strict=True)}

    def _grade(self, pair: tuple[str, str], truth: Pairs) -> int:
        is_relevant = pair in truth
        errs = stable_hash("judge", *pair) / _HASHES >= (_SENSITIVITY if is_relevant else _SPECIFICITY)
        return self._highest if is_relevant != errs else 0

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        """Returns a grade per request, as JSON."""
        answers: list[ChatAnswer] = []
        for request in requests:
            grade = self._replies[reply_key(self.identity, request)]
            reason = "shows what the query names" if grade else "shows other things"
            answers.append(Reply(f'{{"grade": {grade}, "reason": "{reason}"}}', "stop"))
        on_answers(list(enumerate(answers)))
        return answers


def _list_true_pairs(version: Path, album: Iterable[AlbumImage]) -> Pairs:
    tables = set_files.read_set(version, ("queries", "images", "qrels")).tables
    found = find_fitting_images(tables, album)
    return {(query, image) for query, images in found.items() for image in images or ()}


def _answer(version: Path, truth: Pairs, file: Path) -> None:
    """Fills in the sample's CSV with the truth, as a person would, and takes the answers."""
    export = build_sample_export(*load_audit(version, _NAME))
    pairs: pd.DataFrame = export.rows[PAIR]
    decisions = [str(int(pair in truth)) for pair in zip(pairs["query_id"], pairs["image_id"], strict=True)]
    review_csv.write_review_csv(replace(export, rows=export.rows.assign(decision=decisions)), file)
    answers, undetermined, problems = import_sample(version, _NAME, file, "scripted person", ReviewTableOptions())
    assert not problems, problems
    take_answers(version, answers, undetermined)
