"""Decides whether a candidate system may replace a baseline: not worse than a margin, worse, or too little evidence.

Two one-sided tests of the same paired differences ask on which side of the margin the true difference is. A rule such
as "fail where the figure is 2 points lower" has no error rate: on 200 queries of which the systems answer 20%
differently, it fails one in four identical systems.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from builders.array_types import FloatArray
from evaluation.statistics import correct_holm, estimate_standard_error

Verdict = Literal["PASS", "FAIL", "UNDECIDED"]
GATE_LEVEL = 0.05
_POWER = 0.8  # of the further queries
_MAX_QUERIES = 10_000_000


@dataclass(frozen=True, slots=True)
class GatedFigure:
    """One figure under the gate: the metric, the slice ("" for all queries), both systems' values (queries,), the
    margin, and a cluster per query, or None."""

    metric: str
    slice: str
    candidate: FloatArray
    baseline: FloatArray
    margin: float
    clusters: Any = None


@dataclass(frozen=True, slots=True)
class GateCheck:
    """The verdict on one figure. `low` and `high`: the ends of the 90% interval of the difference, each of which is a
    one-sided bound at 5%. `p_not_worse` and `p_worse` are corrected for all checks of the gate. `further_queries`: how
    many more decide with a power of 80% if the difference is as measured; None where the check is decided, or where no
    number would."""

    metric: str
    slice: str
    queries: int
    candidate: float
    baseline: float
    difference: float
    low: float
    high: float
    margin: float
    p_not_worse: float
    p_worse: float
    verdict: Verdict
    further_queries: int | None


@dataclass(frozen=True, slots=True)
class LatencyCheck:
    """A percentile of the candidate's measured latency against its budget, in milliseconds."""

    percentile: str
    measured_ms: float
    budget_ms: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class GateReport:
    """All checks of a gate and their common verdict. `set`: as in EvaluationResult."""

    set: dict[str, Any]
    candidate: str
    baseline: str
    checks: list[GateCheck]
    latency: list[LatencyCheck]
    verdict: Verdict


def check_gate(figures: Sequence[GatedFigure]) -> list[GateCheck]:
    """Returns a check per figure: PASS where the candidate is not worse by the margin or more, FAIL where it is worse
    by more than the margin, each by a one-sided paired test at 5%, corrected for all figures (Holm 1979)."""
    estimates = [_estimate(figure) for figure in figures]
    not_worse = correct_holm(np.array([1 - _tail(*one) for one in estimates]))
    worse = correct_holm(np.array([_tail(*one) for one in estimates]))
    level = GATE_LEVEL / max(1, len(figures))
    parts = zip(figures, estimates, not_worse.tolist(), worse.tolist(), strict=True)
    return [_make_check(figure, one, (p_not_worse, p_worse), level) for figure, one, p_not_worse, p_worse in parts]


def combine_verdicts(verdicts: Sequence[Verdict]) -> Verdict:
    """Returns FAIL where any check fails, PASS where all pass, else UNDECIDED."""
    if "FAIL" in verdicts:
        return "FAIL"
    return "PASS" if all(verdict == "PASS" for verdict in verdicts) else "UNDECIDED"


def _estimate(figure: GatedFigure) -> tuple[float, float, int]:
    """The distance of the mean difference from the margin, its standard error, and the number of clusters.

    The error is at least that of systems of which just the share of the margin differs: where hardly any query
    differs, the sample shows less variance than a loss as large as the margin has."""
    differences = np.asarray(figure.candidate, dtype=np.float64) - figure.baseline
    error, count = estimate_standard_error(differences, clusters=figure.clusters)
    least = np.sqrt(figure.margin * (1 - figure.margin) / max(1, len(differences)))
    return float(differences.mean()) + figure.margin, max(error, float(least)) if count > 1 else error, count


def _tail(distance: float, error: float, clusters: int) -> float:
    """The probability of a mean difference this low or lower at the margin: Student's t."""
    return float(stdtr(clusters - 1, distance / error)) if clusters > 1 else 0.5


def _make_check(
    figure: GatedFigure, estimate: tuple[float, float, int], p_values: tuple[float, float], level: float
) -> GateCheck:
    distance, error, clusters = estimate
    (p_not_worse, p_worse), queries = p_values, len(figure.candidate)
    verdict: Verdict = "PASS" if p_not_worse <= GATE_LEVEL else "FAIL" if p_worse <= GATE_LEVEL else "UNDECIDED"
    difference = distance - figure.margin
    width = float(stdtrit(clusters - 1, 1 - GATE_LEVEL)) * error if clusters > 1 else 1.0
    return GateCheck(
        metric=figure.metric,
        slice=figure.slice,
        queries=queries,
        candidate=float(np.mean(figure.candidate)),
        baseline=float(np.mean(figure.baseline)),
        difference=difference,
        low=max(-1.0, difference - width),
        high=min(1.0, difference + width),
        margin=figure.margin,
        p_not_worse=p_not_worse,
        p_worse=p_worse,
        verdict=verdict,
        further_queries=_count_further(distance, error, queries, level) if verdict == "UNDECIDED" else None,
    )


def _count_further(distance: float, error: float, queries: int, level: float) -> int | None:
    if not np.isfinite(error) or not distance:
        return None
    spread = error * np.sqrt(queries) * (ndtri(1 - level) + ndtri(_POWER))
    wanted = (spread / distance) ** 2 + ndtri(1 - level) ** 2 / 2
    return max(1, ceil(wanted) - queries) if wanted < _MAX_QUERIES else None
