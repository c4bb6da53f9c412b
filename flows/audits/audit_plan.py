"""Decides how many pairs of each stratum people judge, and what that costs and gives."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends.sets.decision_log import read_decisions
from builders.audit.answers import median_seconds
from builders.audit.pool import EXPECTED_RELEVANT, JUDGED_RELEVANT, AuditPool
from builders.decisions.records import QueryDecision
from builders.errors import UserError
from evaluation.audit.allocation import allocate_sample
from evaluation.audit.pair_audit import expected_width
from flows.audits.audit_pools import AUDIT_STAGE, PooledSet

DEFAULT_JUDGMENTS = 300
_FLOOR = 15  # pairs of each stratum
_OUTSIDE_SHARE = 10  # one judgment in ten is of a pair outside the pool
_JUDGED_SHARE = 5  # one in five is of a pair that the set calls relevant
_MOST_JUDGMENTS = 100_000
_ASSUMED_SECONDS = 6.0  # for a pair, where the log shows no pace


@dataclass(frozen=True, slots=True)
class AuditSize:
    """What people judge: so many pairs, or as many as the width of the missing share's interval needs; or so many
    whole queries."""

    judgments: int = DEFAULT_JUDGMENTS
    width: float | None = None
    queries: int | None = None


def allocate_judgments(pool: AuditPool, size: AuditSize) -> tuple[dict[str, int], int]:
    """Returns the number of pairs to draw by stratum, and from outside the pool. Raises UserError for a width that no
    number of judgments gives."""
    if size.width is None:
        return _allocate(pool, size.judgments)
    total = DEFAULT_JUDGMENTS // 6
    while total < _MOST_JUDGMENTS:
        allocation, outside = _allocate(pool, total)
        if expect_width(pool, allocation) <= size.width:
            return allocation, outside
        total = total * 5 // 4
    reason = f"intervals of {size.width} would need more than {_MOST_JUDGMENTS:,} judgments"
    raise UserError(AUDIT_STAGE, "--width", reason, "give a larger --width, or --judgments")


def _allocate(pool: AuditPool, total: int) -> tuple[dict[str, int], int]:
    strata = pool.count_strata()
    outside = min(total // _OUTSIDE_SHARE, pool.outside_size)
    judged = min(strata.get(JUDGED_RELEVANT, 0), max((total - outside) // _JUDGED_SHARE, _FLOOR))
    others = [name for name in strata if name != JUDGED_RELEVANT]
    sizes, expected = [strata[name] for name in others], [EXPECTED_RELEVANT[name] for name in others]
    drawn = allocate_sample(sizes, expected, max(total - outside - judged, 0), _FLOOR)
    allocation = dict(zip(others, map(int, drawn), strict=True))
    return ({JUDGED_RELEVANT: judged} if judged else {}) | allocation, outside


def expect_width(pool: AuditPool, allocation: dict[str, int]) -> float:
    """Returns the width of the missing share's interval if the strata are as relevant as plans expect."""
    strata = pool.count_strata()
    names = [name for name in strata if allocation.get(name)]
    sizes, drawn, expected = ([by[name] for name in names] for by in (strata, allocation, EXPECTED_RELEVANT))
    is_judged = np.array([name == JUDGED_RELEVANT for name in names])
    return expected_width(np.array(sizes, float), np.array(drawn, float), np.array(expected), is_judged)


def plan_audit(path: Path, pooled: PooledSet, size: AuditSize) -> dict[str, Any]:
    """Returns what an audit would judge: the strata, the width expected, and a person's hours. Writes nothing."""
    pool, strata = pooled.pool, pooled.pool.count_strata()
    decisions = read_decisions(path.parent, QueryDecision)
    seconds = median_seconds(decisions)
    if size.queries is None:
        allocation, outside = allocate_judgments(pool, size)
    else:
        share = min(size.queries, len(pooled.query_ids)) / len(pooled.query_ids)
        allocation, outside = {name: round(count * share) for name, count in strata.items()}, 0
    judgments = sum(allocation.values()) + outside
    return {
        "set": pooled.name,
        "systems": list(pooled.systems),
        "strata": [
            {"stratum": name, "pairs": count, "to_judge": allocation.get(name, 0)} for name, count in strata.items()
        ]
        + [{"stratum": "outside", "pairs": pool.outside_size, "to_judge": outside}],
        "judgments": judgments,
        "expected_width": None if size.queries else round(expect_width(pool, allocation), 4),
        "seconds_per_pair": _ASSUMED_SECONDS if seconds is None else seconds,
        "pace_is_assumed": seconds is None,
        "hours": round(judgments * (_ASSUMED_SECONDS if seconds is None else seconds) / 3600, 2),
    }
