"""The reliability of means, proportions, sums and ratios: intervals, tests and detectable differences.

The queries are a sample of those that people might ask; these functions estimate what another sample could show.
Queries that share a topic or an image are not independent: as one cluster, they are sampled and swapped together.
Strata are the last axis where a function sums over them; all arguments are arrays of one shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv, ndtr, ndtri

from querytruth.array_types import FloatArray
from querytruth.evaluation.bounds import bound_mean

_TAIL = 0.025  # of a 95% interval, at each end
CONFIDENCE_LEVEL = 0.95
FEWEST_QUERIES, FEWEST_CLUSTERS = 20, 8  # below, an interval says little: these are the promises of docs/evaluation.md
_FEWEST_DIFFERENT, _FEWEST_EFFECTIVE = 16, 10  # to show what an unseen one may have
_EXACT = 13  # number of differences up to which all 2^n signs are tried
_EQUAL = 1e-9  # figures of one query that differ by less are the same
_STEPS = 100  # of Newton's method at most
_FLAT = 1e-3  # of a signed root: the probability is one half


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """An estimate with the ends of its 95% interval: numbers, or arrays of one shape."""

    value: Any
    low: Any
    high: Any

    def scale(self, factor: Any) -> IntervalEstimate:
        """Returns the estimate times a known factor that is not negative."""
        return IntervalEstimate(self.value * factor, self.low * factor, self.high * factor)

    def clip(self, low: float = 0.0, high: float = np.inf) -> IntervalEstimate:
        """Returns the estimate within known bounds."""
        return IntervalEstimate(*(np.clip(end, low, high) for end in (self.value, self.low, self.high)))

    def complement(self) -> IntervalEstimate:
        """Returns 1 less the estimate."""
        return IntervalEstimate(1 - self.value, 1 - self.high, 1 - self.low)


def estimate_proportion(positives: Any, drawn: Any, size: Any) -> IntervalEstimate:
    """Returns the share of positives among `size` items, of which `drawn` were drawn at random without replacement;
    infinity is so many that their number has no influence.

    Jeffreys' interval (Brown, Cai and DasGupta, Statistical Science 16, 2001) with the effective number of draws
    n (N - 1) / (N - n), so that the interval of a census is a point. Its end is 0 or 1 where all draws are alike.
    Without a draw the share is unknown: 0.5, from 0 to 1."""
    k, n, total = (np.asarray(given, dtype=np.float64) for given in (positives, drawn, size))
    share = np.where(n > 0, k / np.maximum(n, 1), 0.5)
    is_census = n >= total
    rest = np.where(is_census | np.isinf(total), 1, total - n)
    effective = np.where(is_census | np.isinf(total), n, n * np.maximum(total - 1, 0) / rest)
    a, b = share * effective + 0.5, (1 - share) * effective + 0.5
    low = np.where(share <= 0, 0.0, betaincinv(a, b, _TAIL))
    high = np.where(share >= 1, 1.0, betaincinv(a, b, 1 - _TAIL))
    low, high = np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)
    is_known = is_census & (n > 0)
    return IntervalEstimate(share, np.where(is_known, share, low), np.where(is_known, share, high))


def bound_proportion(positives: int, drawn: int) -> float:
    """Returns the exact upper 95% bound of a proportion (Clopper and Pearson, Biometrika 26, 1934); 1 without a
    draw."""
    return 1.0 if positives >= drawn else float(betaincinv(positives + 1, drawn - positives, 0.95))


def sum_estimates(parts: IntervalEstimate) -> IntervalEstimate:
    """Returns the sum over the last axis of independent estimates.

    The interval joins the distances of their ends (MOVER; Zou and Donner, Statistics in Medicine 27, 2008), which keeps
    the asymmetry of small counts, unlike a sum of variances."""
    value = parts.value.sum(axis=-1)
    below = np.sqrt(((parts.value - parts.low) ** 2).sum(axis=-1))
    above = np.sqrt(((parts.high - parts.value) ** 2).sum(axis=-1))
    return IntervalEstimate(value, value - below, value + above)


def divide_estimates(top: IntervalEstimate, bottom: IntervalEstimate) -> IntervalEstimate:
    """Returns the ratio of two independent estimates that are not negative (MOVER-R; Donner and Zou, Statistical
    Methods in Medical Research 21, 2012, equation 9); its end is infinite where the divisor may be 0."""
    a, b = np.asarray(top.value, dtype=np.float64), np.asarray(bottom.value, dtype=np.float64)
    low = _find_ratio_end(a, b, np.asarray(top.low), np.asarray(bottom.high), -1)
    high = _find_ratio_end(a, b, np.asarray(top.high), np.asarray(bottom.low), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A divisor whose end is more than twice its value has no such lower end: that of the corners holds.
        low = np.where(2 * b > bottom.high, low, top.low / bottom.high)
        return IntervalEstimate(a / b, np.clip(low, 0, None), np.where(np.asarray(bottom.low) > 0, high, np.inf))


def _find_ratio_end(a: FloatArray, b: FloatArray, top: FloatArray, bottom: FloatArray, sign: int) -> FloatArray:
    """The end that joins the distance of `top` from a and that of `bottom` from b."""
    divisor = bottom * (2 * b - bottom)
    inside = np.maximum((a * b) ** 2 - top * (2 * a - top) * divisor, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        end: FloatArray = (a * b + sign * np.sqrt(inside)) / divisor
    return end


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """The ends of the interval, each (metrics,)."""

    low: FloatArray
    high: FloatArray


def align_clusters(clusters: pd.Series | None, queries: pd.Index) -> Any:
    """Returns a cluster per query, the query itself where it has none; None without clusters."""
    return None if clusters is None else clusters.reindex(queries).fillna(pd.Series(queries, queries)).to_numpy()


def estimate_interval(
    values: FloatArray, *, clusters: Any = None, ends: tuple[float, float] = (0.0, 1.0), level: float = CONFIDENCE_LEVEL
) -> ConfidenceInterval:
    """Returns the interval of the mean of each column of `values` (queries, metrics), which lie between `ends`.

    Both ends are Gaffke's bound (`mean_bounds`): an unseen query or cluster is at most as extreme as the most extreme
    one that was seen, and where too few were seen to say that (`find_extremes`), anywhere between `ends`."""
    sums, sizes = sum_by_cluster(values, clusters)
    lowest, highest = find_extremes(sums, sizes, ends)
    tail = (1 + level) / 2
    return ConfidenceInterval(bound_mean(sums, sizes, lowest, tail), -bound_mean(-sums, sizes, -highest, tail))


def permutation_test(ones: FloatArray, others: FloatArray, *, clusters: Any = None) -> float:
    """Returns the two-sided p-value of two systems' figures on the same queries (queries,): how often random swaps of
    the systems, cluster by cluster, give as large a difference.

    All swaps of up to 13 differences are counted. Of more, Lugannani and Rice's saddlepoint approximation gives the
    share, with a continuity correction; where 13 clusters outweigh all others, their swaps are counted and the sum of
    the others is normal."""
    sums, _ = sum_by_cluster(np.asarray(ones, dtype=np.float64) - others, clusters)
    differences = np.sort(np.abs(sums[np.abs(sums[:, 0]) > _EQUAL, 0]))[::-1]  # a swap does not change the others
    whole = abs(float(sums[np.abs(sums[:, 0]) > _EQUAL, 0].sum()))
    if not len(differences):
        return 1.0
    large, rest = differences[:_EXACT], float((differences[_EXACT:] ** 2).sum())
    if (large**2).sum() < rest:
        return _approximate_swaps(differences / differences[0], whole / differences[0])
    signs = 1 - 2 * ((np.arange(1 << len(large))[:, None] >> np.arange(len(large))) & 1)
    if not rest:
        return float((np.abs(signs @ large) >= whole - _EQUAL).mean())
    return float(min(1, 2 * ndtr((signs @ large - whole + differences[-1]) / np.sqrt(rest)).mean()))


def _approximate_swaps(differences: FloatArray, whole: float) -> float:
    """Returns the share of swaps that give a sum of at least `whole` in size."""
    whole -= float(differences[-1])  # half a step between sums, where all differences are alike
    if whole <= _EQUAL:
        return 1.0
    low, high, point = 0.0, np.inf, whole / float((differences**2).sum())
    for _ in range(_STEPS):
        tanh = np.tanh(point * differences)
        miss = float(differences @ tanh) - whole
        low, high = (low, point) if miss > 0 else (point, high)
        step = point - miss / max(float((differences**2) @ (1 - tanh**2)), 1e-300)
        if not low < step < high:
            step = (low + high) / 2 if np.isfinite(high) else 2 * point
        if abs(step - point) <= _EQUAL * point:
            break
        point = step
    cumulant = float((point * differences + np.log1p(np.exp(-2 * point * differences)) - np.log(2)).sum())
    root = np.sqrt(max(2 * (point * whole - cumulant), 0.0))
    spread = point * np.sqrt(float((differences**2) @ (1 - np.tanh(point * differences) ** 2)))
    return float(min(1, 2 * ndtr(-(root + np.log(spread / root) / root)))) if root > _FLAT else 1.0


def correct_holm(p_values: FloatArray) -> FloatArray:
    """Returns the corrected p-values of a family of tests, which bound the chance of any false finding (Holm 1979)."""
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    steps = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    corrected = np.empty_like(given)
    corrected[order] = np.minimum(steps, 1)
    return corrected


def detectable_difference(differences: FloatArray, *, clusters: Any = None, power: float = 0.8) -> float:
    """Returns the smallest true difference of two systems' means that a test at the 5% level finds with this power on
    as many queries, from their differences (queries,). Normal approximation."""
    return _detectable(estimate_standard_error(differences, clusters=clusters)[0], power)


def detectable_difference_unpaired(values: FloatArray, *, clusters: Any = None) -> float:
    """Returns the same, with a power of 0.8, to an unknown system that varies as much and independently. Systems mostly
    agree on which queries are hard, so that smaller differences can be found."""
    return _detectable(float(np.sqrt(2)) * estimate_standard_error(values, clusters=clusters)[0], 0.8)


def _detectable(standard_error: float, power: float) -> float:
    return float(ndtri(1 - (1 - CONFIDENCE_LEVEL) / 2) + ndtri(power)) * standard_error


def estimate_standard_error(values: FloatArray, *, clusters: Any = None) -> tuple[float, int]:
    """Returns the standard error of the mean of values (queries,), NaN for fewer than two clusters, and the number of
    clusters."""
    sums, sizes = sum_by_cluster(values, clusters)
    count = len(sums)
    if count < 2:
        return float("nan"), count
    # The mean of clusters of different sizes is a ratio.
    residuals = sums[:, 0] - sizes * (sums[:, 0].sum() / sizes.sum())
    return float(np.sqrt((residuals**2).sum() * count / (count - 1)) / sizes.sum()), count


def find_extremes(sums: FloatArray, sizes: FloatArray, ends: tuple[Any, Any]) -> tuple[FloatArray, FloatArray]:
    """Returns the lowest and the highest mean that an unseen cluster may have (columns,), from sums (clusters, columns)
    and sizes (clusters,): those of the clusters at hand, and `ends` where these are too few (`count_effective`), or
    where many are alike and few differ."""
    means = sums / sizes[:, None]
    different = (np.abs(means - np.median(means, axis=0)) > _EQUAL).sum(axis=0)
    are_few = different < min(_FEWEST_DIFFERENT, len(sums) - 1)
    are_few |= count_effective(sizes) < _FEWEST_EFFECTIVE
    lowest, highest = means.min(axis=0), means.max(axis=0)
    low, high = np.minimum(ends[0], lowest), np.maximum(ends[1], highest)
    return np.where(are_few, low, lowest), np.where(are_few, high, highest)


def count_effective(sizes: FloatArray) -> float:
    """Returns the number of equal clusters that say as much as those of these sizes (clusters,) (Kish, Survey Sampling,
    1965)."""
    return float(sizes.sum() ** 2 / np.maximum((sizes**2).sum(), 1e-300))


def sum_by_cluster(values: FloatArray, clusters: Any) -> tuple[FloatArray, FloatArray]:
    """Returns sums (clusters, metrics) and sizes (clusters,); without clusters each query is one."""
    columns = np.asarray(values, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    if clusters is None:
        return columns, np.ones(len(columns))
    _, code = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    sums = np.stack([np.bincount(code, column).astype(np.float64) for column in columns.T], axis=1)
    return sums, np.bincount(code).astype(np.float64)
