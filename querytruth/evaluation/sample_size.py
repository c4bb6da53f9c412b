"""The number of queries that a comparison of two systems needs, from how much their figures differ by query.

√n Δ = z_0.975 √(σ² + 2 / n) + z_power σ for the test at 5% of `compare`, which counts one more query at each end of
what a difference can be (`estimate_mean`). σ² is the variance of the differences, d - Δ² for hit rates of systems that
differ on a share d of the queries.

A pilot's variance is itself uncertain: z_0.975 + z_power grows as Julious and Owen have it ("Sample size calculations
for clinical studies allowing for uncertainty about the variance", Pharmaceutical Statistics 5, 2006), so that the power
is reached on average over pilots, and one more query, as different as the most different one, is added to the pilot.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import nctdtrit, ndtri

from querytruth.array_types import FloatArray
from querytruth.evaluation.statistics import CONFIDENCE_LEVEL, estimate_standard_error

_EQUAL = 1e-9
_STEPS = 30  # of the fixed point, which needs about 5


@dataclass(frozen=True, slots=True)
class StratumSize:
    """A stratum of the queries: its share, the standard deviation of the differences in it, and its queries of a
    proportional and of a Neyman allocation."""

    name: str
    share: float
    deviation: float
    proportional: int
    neyman: int


@dataclass(frozen=True, slots=True)
class QuerySampleSize:
    """The queries that find a true difference with this power. `variance`: of the differences, with the effect of
    clusters; `strata`: the same where queries are drawn by stratum; empty without strata."""

    difference: float
    power: float
    variance: float
    queries: int
    strata: tuple[StratumSize, ...] = ()


def plan_for_discordance(discordance: float, difference: float, power: float = 0.8) -> QuerySampleSize:
    """Returns the size for hit rates of two systems that differ on this share of the queries."""
    variance = discordance - difference**2
    return QuerySampleSize(difference, power, variance, _count_queries(variance, difference, power))


def plan_for_pilot(
    differences: pd.Series,
    difference: float,
    power: float = 0.8,
    *,
    clusters: Any = None,
    strata: Mapping[str, FloatArray] | None = None,
) -> QuerySampleSize:
    """Returns the size from a pilot: the differences of two systems by query. `strata`: by name the differences of the
    queries in it; strata with one query are planned with the deviation of all."""
    error, count = estimate_standard_error(differences.to_numpy(), clusters=clusters)
    different = differences.abs()[differences.abs() > _EQUAL]
    largest = float(different.max()) if len(different) else 1.0
    variance = error**2 * len(differences) + largest**2 / count
    sizes = _plan_strata(strata or {}, float(np.sqrt(variance)), difference, power)
    queries = _count_queries(variance, difference, power, count - 1)
    return QuerySampleSize(difference, power, variance, queries, sizes)


def _plan_strata(
    strata: Mapping[str, FloatArray], deviation: float, difference: float, power: float
) -> tuple[StratumSize, ...]:
    counts = np.array([len(values) for values in strata.values()], dtype=np.float64)
    deviations = np.array([np.std(one, ddof=1) if len(one) > 1 else deviation for one in strata.values()])
    if not len(counts):
        return ()
    shares = counts / counts.sum()
    spread = shares * deviations
    total = _count_queries(float((spread * deviations).sum()), difference, power)
    best = _count_queries(float(spread.sum() ** 2), difference, power)
    parts = zip(strata, shares.tolist(), deviations.tolist(), spread / max(spread.sum(), 1e-300), strict=True)
    return tuple(StratumSize(name, w, s, ceil(total * w), ceil(best * float(part))) for name, w, s, part in parts)


def _count_queries(variance: float, difference: float, power: float, freedom: float = np.inf) -> int:
    """Returns the size; `freedom`: of the variance, where a pilot measured it."""
    level, luck = float(ndtri(1 - (1 - CONFIDENCE_LEVEL) / 2)), float(ndtri(power))
    wider = float(nctdtrit(freedom, level, power)) / (level + luck) if np.isfinite(freedom) else 1.0
    count = 1.0
    for _ in range(_STEPS):  # the test counts two more queries, one at each end
        wanted = level * np.sqrt(variance + 2 / count) + luck * np.sqrt(variance)
        count = max(2.0, float(wider * wanted / difference) ** 2)
    return ceil(count)
