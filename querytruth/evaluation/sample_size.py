"""The number of queries that a comparison of two systems needs, from how much their figures differ by query.

√n Δ = z_0.975 √(σ² + 2 / n) + z_power σ for the test at 5% of `compare`, which counts one more query at each end of
what a difference can be (`estimate_mean`). σ² is the variance of the differences, d - Δ² for hit rates of systems that
differ on a share d of the queries.

A pilot has clusters, often of different sizes: the plan is as many of these as the test itself needs where the
difference is Δ and luck takes z_power standard errors of it. Its variance is uncertain: z_0.975 + z_power grows as
Julious and Owen have it ("Sample size calculations for clinical studies allowing for uncertainty about the variance",
Pharmaceutical Statistics 5, 2006), so that the power is reached on average over pilots, and one more cluster, as
different as the most different one, is added to the pilot. A gate passes an equal system by another test, which is
planned in the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import nctdtrit, ndtri, stdtr

from querytruth.array_types import FloatArray
from querytruth.evaluation.bounds import find_p_value
from querytruth.evaluation.statistics import CONFIDENCE_LEVEL, count_effective, estimate_mean, sum_by_cluster

MOST_QUERIES = 10_000_000
_OF_DIFFERENCES = (1.0, -1.0)
_TYPICAL = 1000  # queries, of a share that differs
_STEPS = 30  # of the fixed point, which needs about 5


@dataclass(frozen=True, slots=True)
class QuerySampleSize:
    """The queries that find a true difference with this power, and those with which a gate whose margin is as large
    passes an equal system (None: more than ten million). `variance`: of the differences, with that of clusters."""

    difference: float
    power: float
    variance: float
    queries: int
    queries_to_pass: int | None


def plan_for_discordance(discordance: float, difference: float, power: float = 0.8) -> QuerySampleSize:
    """Returns the size for hit rates of two systems that differ on this share of the queries."""
    variance = discordance - difference**2
    half = round(discordance * _TYPICAL / 2)
    typical = np.repeat([1.0, -1.0, 0.0], [half, half, _TYPICAL - 2 * half])[:, None]
    luck = float(ndtri(power)) * float(estimate_mean(typical, np.ones(_TYPICAL), ())[1][0])
    to_pass = _count_to_pass(typical, np.ones(_TYPICAL), difference, luck)
    return QuerySampleSize(difference, power, variance, _count_queries(variance, difference, power), to_pass)


def plan_for_pilot(
    differences: pd.Series,
    difference: float,
    power: float = 0.8,
    *,
    clusters: Any = None,
) -> QuerySampleSize:
    """Returns the size from a pilot: the differences of two systems by query."""
    sums, sizes = sum_by_cluster(differences.to_numpy(), clusters)
    own = float(sums.sum() / sizes.sum())
    largest = float(np.abs(sums).max()) or float(sizes.max())  # where none differs, one that nobody saw does
    seen = float(estimate_mean(sums, sizes, ())[1][0]) if len(sizes) > 1 else 0.0
    error = float(np.hypot(seen, largest / sizes.sum()))
    freedom = count_effective(sizes) - 1
    variance = error**2 * float(sizes.sum())
    shifted, luck = sums + (difference - own) * sizes[:, None], float(ndtri(power)) * error

    def is_found(factor: float) -> bool:
        mean, error_then, freedom_then = estimate_mean(shifted, sizes, _OF_DIFFERENCES, times=factor)
        distance = mean[0] - luck / np.sqrt(factor)
        return bool(distance > 0 and 2 * stdtr(freedom_then, -distance / error_then[0]) <= 1 - CONFIDENCE_LEVEL)

    level = float(ndtri(1 - (1 - CONFIDENCE_LEVEL) / 2))
    wider = float(nctdtrit(max(freedom, 1.0), level, power)) / (level + float(ndtri(power)))
    factor = find_least_factor(is_found, float(sizes.sum())) or np.inf
    queries = ceil(min(factor * wider**2 * float(sizes.sum()), MOST_QUERIES))
    passes = _count_to_pass(sums - own * sizes[:, None], sizes, difference, luck)
    to_pass = None if passes is None else ceil(passes * wider**2)
    return QuerySampleSize(difference, power, variance, queries, to_pass)


def find_least_factor(is_enough: Callable[[float], bool], queries: float) -> float | None:
    """Returns how many times as many clusters are enough, to a query of so many at hand; None above MOST_QUERIES."""
    low, high = 0.0, 1.0
    while not is_enough(high):
        low, high = high, 2 * high
        if high * queries > MOST_QUERIES:
            return None
    while (high - low) * queries > 1 and high > 1.001 * low:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _count_to_pass(sums: FloatArray, sizes: FloatArray, margin: float, luck: float) -> int | None:
    """Returns the queries, in clusters like these, with which a gate passes a system whose true difference is 0, as it
    is of these sums. `luck`: how much less may be found on as many queries."""
    queries = float(sizes.sum())

    def is_passed(factor: float) -> bool:
        at = luck / np.sqrt(factor) - margin
        return bool(at < 0 and find_p_value(sums, sizes, at, -1.0, factor)[0] <= 1 - CONFIDENCE_LEVEL)

    factor = find_least_factor(is_passed, queries)
    return None if factor is None else ceil(factor * queries)


def _count_queries(variance: float, difference: float, power: float) -> int:
    level, luck = float(ndtri(1 - (1 - CONFIDENCE_LEVEL) / 2)), float(ndtri(power))
    count = 1.0
    for _ in range(_STEPS):  # the test counts two more queries, one at each end
        wanted = level * np.sqrt(variance + 2 / count) + luck * np.sqrt(variance)
        count = max(2.0, float(wanted / difference) ** 2)
    return ceil(count)
