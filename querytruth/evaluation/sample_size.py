"""The number of queries that a comparison of two systems needs, from how much their figures differ by query.

The plan is as many clusters as the test itself needs where the difference is Δ and chance takes z_power standard errors
of it: the test of `compare` at 5%, and that by which a gate passes an equal system. The variance is d - Δ² for hit
rates of systems that differ on a share d of the queries, else that of a pilot. This is uncertain: z_0.975 + z_power
grows as in Julious and Owen ("Sample size calculations for clinical studies allowing for uncertainty about the
variance", Pharmaceutical Statistics 5, 2006), so that the power is reached on average over pilots, and one more
cluster, as different as the most different one, is added to the pilot.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
import pandas as pd
from scipy.special import nctdtrit, ndtri

from querytruth.array_types import AnyArray, FloatArray
from querytruth.evaluation.statistics import (
    CONFIDENCE_LEVEL,
    count_effective,
    estimate_mean,
    find_p_value,
    sum_by_cluster,
)

MOST_QUERIES = 10_000_000
_OF_DIFFERENCES = (1.0, -1.0)
_TYPICAL = 1000  # queries, of a share that differs


@dataclass(frozen=True, slots=True)
class QuerySampleSize:
    """The number of queries that detects a true difference with this power, and the number with which a gate of that
    margin passes an equal system (None: more than ten million). `variance`: of differences, with that of clusters."""

    difference: float
    power: float
    variance: float
    queries: int
    queries_to_pass: int | None


def plan_for_discordance(discordance: float, difference: float, power: float = 0.8) -> QuerySampleSize:
    """Return the size for hit rates of two systems that differ on this share of the queries."""
    spread = np.sqrt(discordance - difference**2)
    typical = np.tile([spread, -spread], _TYPICAL // 2)[:, None]
    return _plan(typical, np.ones(_TYPICAL), difference, power, spread / np.sqrt(_TYPICAL))


def plan_for_pilot(
    differences: pd.Series, difference: float, power: float = 0.8, *, clusters: AnyArray | None = None
) -> QuerySampleSize:
    """Return the size from a pilot: the differences of two systems by query."""
    sums, sizes = sum_by_cluster(differences.to_numpy(), clusters)
    largest = float(np.abs(sums).max()) or float(sizes.max())  # where none differs, one that nobody saw does
    seen = float(estimate_mean(sums, sizes, ())[1][0]) if len(sizes) > 1 else 0.0
    level = float(ndtri((1 + CONFIDENCE_LEVEL) / 2))
    wider = float(nctdtrit(max(count_effective(sizes) - 1, 1.0), level, power)) / (level + float(ndtri(power)))
    centred = sums - sums.sum() / sizes.sum() * sizes[:, None]
    return _plan(centred, sizes, difference, power, float(np.hypot(seen, largest / sizes.sum())), wider**2)


def _plan(
    centred: FloatArray, sizes: FloatArray, difference: float, power: float, error: float, wider: float = 1.0
) -> QuerySampleSize:
    """Solve both tests for the number of clusters like these (sums about their mean), where luck takes z_power
    standard errors of the difference; the result is `wider` times that."""
    queries = float(sizes.sum())

    def count(unseen: tuple[float, ...], level: float) -> int | None:
        def is_enough(factor: float) -> bool:
            at = float(ndtri(power)) * error / np.sqrt(factor) - difference
            return bool(find_p_value(centred, sizes, at, unseen, times=factor)[0] <= level)

        factor = find_least_factor(is_enough, queries)
        return None if factor is None else ceil(factor * wider * queries)

    found, to_pass = count(_OF_DIFFERENCES, (1 - CONFIDENCE_LEVEL) / 2), count((-1.0,), 1 - CONFIDENCE_LEVEL)
    most = min(found or MOST_QUERIES, MOST_QUERIES)
    return QuerySampleSize(difference, power, error**2 * queries, most, to_pass)


def find_least_factor(is_enough: Callable[[float], bool], queries: float) -> float | None:
    """Return how many times as many clusters are enough, to a query of so many at hand; None above MOST_QUERIES."""
    low, high = 0.0, 1.0
    while not is_enough(high):
        low, high = high, 2 * high
        if high * queries > MOST_QUERIES:
            return None
    while (high - low) * queries > 1:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
