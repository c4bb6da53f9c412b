"""Estimates how much a set lacks from a judge alone, whose errors people measured in an audit of another set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from querytruth.audit import answers, audit_files, definition, pair_audit
from querytruth.audit.judge import JUDGE_STAGE, JudgeQuestions, judge_pool, load_judge
from querytruth.audit.judge_card import JudgeRates, carry_rates, estimate_rates, find_equal_draw
from querytruth.audit.pool import NO, OUTSIDE, PAIR, YES, PooledSet, pool_set
from querytruth.backends.models.chat import ChatModel
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.evaluation.statistics import IntervalEstimate

_FEWEST = 10  # answered pairs of each side: with fewer, intervals hold the truth too seldom


@dataclass(frozen=True, slots=True)
class CarryOver:
    """The pool of a set that no person judged, the judge, and its rates by an audit of another set (`source`)."""

    pooled: PooledSet
    judge: ChatModel
    rates: JudgeRates
    source: dict[str, Any]


def read_carry_over(
    path: Path, runs: Sequence[Path], depth: int, choice: definition.JudgeOptions, calibrated: Path, name: str
) -> CarryOver:
    """Returns what carries the rates of the audit `name` of the set at `calibrated` over to the set at `path`. Raises
    UserError for an audit without a judge or of whole queries, with too few answers, or with another judge."""
    audit, stored = answers.load_audit(calibrated, name)
    shown = f"{stored.manifest['name']}/v{stored.manifest['version']}, audit {name}"
    if audit.manifest["judge"] is None or audit.manifest["unit"] != "pairs":
        reason = "has no judge" if audit.manifest["judge"] is None else "is of whole queries"
        raise UserError(JUDGE_STAGE, shown, reason, "name an audit of single pairs with --judge")
    pooled = pool_set(path, runs, depth)
    judge = load_judge(choice, pooled, runs)
    record = JudgeQuestions(pooled.stored, ()).describe_judge(judge)
    if record["digest"] != audit.manifest["judge"]["digest"]:
        differing = [
            key for key, value in record.items() if key != "digest" and audit.manifest["judge"].get(key) != value
        ]
        reason = f"is not the judge of {shown}: {', '.join(differing)} differ"
        raise UserError(
            JUDGE_STAGE, judge.identity.name, reason, "its rates hold for the same judge and question alone"
        )
    rates, answered = _measure_rates(audit, calibrated, shown)
    return CarryOver(pooled, judge, rates, {"audit": shown, "answered": answered})


def _measure_rates(audit: audit_files.StoredAudit, path: Path, shown: str) -> tuple[JudgeRates, int]:
    relevant = answers.read_answers(path, audit).relevant()
    inside = audit.sample[audit.sample["stratum"] != OUTSIDE]
    answered = pair_audit.PairAudit.from_answers(
        audit.pool, relevant[relevant.index.isin(pd.MultiIndex.from_frame(inside[PAIR]))]
    )
    counts, label = answered.count(), np.array([name.rpartition(".")[2] for name in answered.strata])
    seen = np.isin(label, [YES, NO]) & (np.asarray(counts.drawn) > 0)
    drawn, hits = (int(np.asarray(part)[seen].sum()) for part in (counts.drawn, counts.relevant))
    if min(hits, drawn - hits) < _FEWEST:
        reason = f"has {hits} answered pairs that are relevant and {drawn - hits} that are not; both need {_FEWEST}"
        raise UserError(JUDGE_STAGE, shown, reason, "judge on: querytruth review, view Audit")
    return estimate_rates(counts.pick(seen & (label == YES)), counts.pick(seen & (label == NO))), drawn


@step("carry over rates")
def carry_over(given: CarryOver) -> dict[str, Any]:
    """Asks the judge about every pair of the pool, each reply stored before it is read, and returns the estimates: how
    many pairs of the pool are relevant, for each that the set calls relevant, and as a number of judgments by people
    that would be as precise."""
    pairs = given.pooled.pool.pairs
    grades = np.asarray(judge_pool(given.judge, given.pooled).grades)
    graded = grades >= 0
    share = carry_rates(given.rates, int((grades > 0).sum()), int(graded.sum()))
    marked = int((pairs["relevance"] > 0).sum())
    relevant = share.scale(len(pairs))
    return {
        "set": given.pooled.name,
        "from": given.source,
        "judge": given.judge.identity.name,
        "pairs": len(pairs),
        "queries": int(pairs[PAIR[0]].nunique()),
        "without_grade": int((~graded).sum()),
        "called_relevant": int((grades > 0).sum()),
        "sensitivity": _describe(given.rates.sensitivity),
        "specificity": _describe(given.rates.false_rate.complement()),
        "relevant": _describe(relevant),
        "judged_relevant": marked,
        "multiplier": _describe(relevant.scale(1 / marked)) if marked else None,
        "as_precise_as_judgments": find_equal_draw(share, len(pairs)),
    }


def _describe(estimate: IntervalEstimate) -> dict[str, float]:
    return {end: round(float(getattr(estimate, end)), 12) for end in ("value", "low", "high")}
