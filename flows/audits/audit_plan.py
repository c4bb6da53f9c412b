"""Decides how many pairs of each stratum people judge, and what that costs and gives."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from backends.chat import ChatModel
from backends.sets.decision_log import read_decisions
from backends.sets.judge_cards import read_judge_card
from builders.audit.answers import median_seconds
from builders.audit.pool import JUDGED_RELEVANT, AuditPool, expect_relevant
from builders.decisions.records import QueryDecision
from builders.errors import UserError
from evaluation.audit.allocation import allocate_sample, split_by_judge
from evaluation.audit.pair_audit import expected_width
from flows.audits.audit_judge import count_judge_calls
from flows.audits.audit_pools import AUDIT_STAGE, PooledSet
from flows.audits.judge_requests import JudgeQuestions, open_judge_store
from flows.call_forecasts import forecast_calls
from flows.definitions.audit import StrataOptions

DEFAULT_JUDGMENTS = 300
PILOT_JUDGMENTS = 100  # of an audit to a width: what they show decides how many follow
_MOST_JUDGMENTS = 100_000
ASSUMED_SECONDS = 6.0  # for a pair, where the log shows no pace


@dataclass(frozen=True, slots=True)
class AuditSize:
    """What people judge: so many pairs, or as many as the width of the missing share's interval needs, of which a start
    draws the first 100; or so many whole queries. `strata`: where they look; `people`: how many judge each pair."""

    judgments: int = DEFAULT_JUDGMENTS
    width: float | None = None
    queries: int | None = None
    strata: StrataOptions = field(default_factory=StrataOptions)
    people: int = 1


def allocate_judgments(pool: AuditPool, size: AuditSize) -> tuple[dict[str, int], int]:
    """Returns the number of pairs to draw at the start, by stratum, and from outside the pool. Raises UserError for a
    width that no number of judgments gives where strata are as relevant as usual."""
    total = size.judgments if size.width is None else min(PILOT_JUDGMENTS, count_for_width(pool, size, size.width))
    return _allocate(pool, total, size.strata)


def count_for_width(pool: AuditPool, size: AuditSize, width: float) -> int:
    """Returns how many judgments the width needs where strata are as relevant as usual. Raises UserError."""
    total = DEFAULT_JUDGMENTS // 6
    while total < _MOST_JUDGMENTS:
        if expect_width(pool, _allocate(pool, total, size.strata)[0]) <= width:
            return total
        total = total * 5 // 4
    reason = f"intervals of {width} would need more than {_MOST_JUDGMENTS:,} judgments"
    raise UserError(AUDIT_STAGE, "--width", reason, "give a larger --width, or --judgments")


def _allocate(pool: AuditPool, total: int, options: StrataOptions) -> tuple[dict[str, int], int]:
    parts: dict[str, dict[str, int]] = {}
    for name, count in pool.count_strata().items():
        parts.setdefault(name.partition(".")[0], {})[name] = count
    sizes = {stratum: sum(counts.values()) for stratum, counts in parts.items()}
    outside = min(_share_of(total, options.outside), pool.outside_size)
    judged = min(sizes.get(JUDGED_RELEVANT, 0), max(_share_of(total - outside, options.judged_relevant), options.floor))
    others = [stratum for stratum in sizes if stratum != JUDGED_RELEVANT]
    expected = [expect_relevant(stratum) for stratum in others]
    rest = max(total - outside - judged, 0)
    drawn = allocate_sample([sizes[stratum] for stratum in others], expected, rest, options.floor)
    wanted = {JUDGED_RELEVANT: judged} | dict(zip(others, map(int, drawn), strict=True))
    allocation: dict[str, int] = {}
    for stratum, counts in parts.items():
        split = split_by_judge(list(counts.values()), [expect_relevant(name) for name in counts], wanted[stratum])
        allocation |= dict(zip(counts, map(int, split), strict=True))
    return allocation, outside


def _share_of(total: int, share: float) -> int:
    return math.floor(total * share + 1e-9)  # 0.1 of 30 is 3


def expect_width(pool: AuditPool, allocation: dict[str, int]) -> float:
    """Returns the width of the missing share's interval if the strata are as relevant as plans expect."""
    strata = pool.count_strata()
    names = [name for name in strata if allocation.get(name)]
    sizes, drawn = (np.array([by[name] for name in names], dtype=np.float64) for by in (strata, allocation))
    expected = np.array([expect_relevant(name) for name in names])
    return expected_width(sizes, drawn, expected, np.array([name.startswith(JUDGED_RELEVANT) for name in names]))


def plan_audit(path: Path, pooled: PooledSet, size: AuditSize, judge: ChatModel | None = None) -> dict[str, Any]:
    """Returns what an audit would judge: the strata, the width expected, a person's hours, and the calls of the
    judge. Writes nothing, asks nothing."""
    pool, strata = pooled.pool, pooled.pool.count_strata()
    decisions = read_decisions(path.parent, QueryDecision)
    seconds = median_seconds(decisions)
    if size.queries is None:
        allocation, outside = allocate_judgments(pool, size)
    else:
        share = min(size.queries, len(pooled.query_ids)) / len(pooled.query_ids)
        allocation, outside = {name: round(count * share) for name, count in strata.items()}, 0
    judgments = sum(allocation.values()) + outside
    calls = 0 if judge is None else count_judge_calls(judge, pooled)
    return {
        "set": pooled.name,
        "systems": list(pooled.systems),
        "strata": [
            {"stratum": name, "pairs": count, "to_judge": allocation.get(name, 0)} for name, count in strata.items()
        ]
        + [{"stratum": "outside", "pairs": pool.outside_size, "to_judge": outside}],
        "judgments": judgments,
        "expected_width": None if size.queries else round(expect_width(pool, allocation), 4),
        "judgments_for_width": None if size.width is None else count_for_width(pool, size, size.width),
        "seconds_per_pair": ASSUMED_SECONDS if seconds is None else seconds,
        "judge": None if judge is None else judge.identity.name,
        "judge_calls": calls,
        "judge_cost": None if judge is None else _forecast_cost(judge, pooled, calls),
        "pace_is_assumed": seconds is None,
        "people": size.people,
        "hours": round(judgments * size.people * (ASSUMED_SECONDS if seconds is None else seconds) / 3600, 2),
    }


def _forecast_cost(judge: ChatModel, pooled: PooledSet, calls: int) -> dict[str, float | None]:
    """Returns the tokens and seconds of the calls: as the judge's card has them, else as the reply store measured
    them; None where nothing was measured."""
    record = JudgeQuestions(pooled.stored, ()).describe_judge(judge)
    card = read_judge_card(pooled.stored.path.parent, record) or {"per_1000_pairs": {}}
    rates = {unit: card["per_1000_pairs"].get(unit) for unit in ("tokens", "seconds")}
    forecast = forecast_calls(open_judge_store(pooled.stored), judge, "judge", calls)
    measured = {
        "tokens": None if forecast.tokens is None else float(sum(forecast.tokens)),
        "seconds": round(forecast.seconds, 1) if forecast.is_measured else None,
    }
    return {unit: measured[unit] if rate is None else round(rate * calls / 1000, 1) for unit, rate in rates.items()}
