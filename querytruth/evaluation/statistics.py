"""The reliability of means, proportions, sums and ratios: intervals, tests and detectable differences.

The queries are a sample of those that people might ask; these functions estimate what another sample could show.
Queries that share a topic or an image are not independent: as one cluster, they are sampled together.
Strata are the last axis where a function sums over them; all arguments are arrays of one shape.

A mean, and a difference of means, have one method: a t interval of clusters, with one unseen cluster added at each
extreme of what a figure can be (`estimate_mean`). For proportions it is that of Agresti and Coull (American
Statistician 52, 1998), for differences of paired ones that of Bonett and Price (Journal of Educational and Behavioral
Statistics 37, 2012). Test and detectable difference are its inversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv, ndtri, stdtr, stdtrit

from querytruth.array_types import AnyArray, BoolArray, FloatArray

_TAIL = 0.025  # of a 95% interval, at each end
CONFIDENCE_LEVEL = 0.95
FEWEST_QUERIES, FEWEST_CLUSTERS = 20, 8  # below, an interval says little: these are the promises of docs/evaluation.md
_OF_DIFFERENCES = (-1.0, 1.0)  # the ends of a difference of two figures


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """An estimate with the ends of its 95% interval: numbers, or arrays of one shape."""

    value: Any
    low: Any
    high: Any

    def scale(self, factor: float | FloatArray) -> IntervalEstimate:
        """Return the estimate times a known factor that is not negative."""
        return IntervalEstimate(self.value * factor, self.low * factor, self.high * factor)

    def clip(self, low: float = 0.0, high: float = np.inf) -> IntervalEstimate:
        """Return the estimate within known bounds."""
        return IntervalEstimate(*(np.clip(end, low, high) for end in (self.value, self.low, self.high)))

    def complement(self) -> IntervalEstimate:
        """Return 1 less the estimate."""
        return IntervalEstimate(1 - self.value, 1 - self.high, 1 - self.low)


def estimate_proportion(
    positives: float | FloatArray, drawn: float | FloatArray, size: float | FloatArray
) -> IntervalEstimate:
    """Return the share of positives among `size` items, of which `drawn` were drawn at random without replacement;
    infinity means that the size has no influence.

    Jeffreys' interval (Brown, Cai and DasGupta, Statistical Science 16, 2001) with the effective number of draws
    n (N - 1) / (N - n), so that the interval of a census is a point. Its end is 0 or 1 where all draws are equal.
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
    """Return the exact upper 95% bound of a proportion (Clopper and Pearson, Biometrika 26, 1934); 1 without a
    draw."""
    return 1.0 if positives >= drawn else float(betaincinv(positives + 1, drawn - positives, 0.95))


def sum_estimates(parts: IntervalEstimate) -> IntervalEstimate:
    """Return the sum over the last axis of independent estimates.

    The interval joins the distances of their ends (MOVER; Zou and Donner, Statistics in Medicine 27, 2008), which keeps
    the asymmetry of small counts, unlike a sum of variances."""
    value = parts.value.sum(axis=-1)
    below = np.sqrt(((parts.value - parts.low) ** 2).sum(axis=-1))
    above = np.sqrt(((parts.high - parts.value) ** 2).sum(axis=-1))
    return IntervalEstimate(value, value - below, value + above)


def divide_estimates(top: IntervalEstimate, bottom: IntervalEstimate) -> IntervalEstimate:
    """Return the ratio of two independent estimates that are not negative (MOVER-R; Donner and Zou, Statistical
    Methods in Medical Research 21, 2012, equation 9); its end is infinite where the divisor may be 0."""
    a, b = np.asarray(top.value, dtype=np.float64), np.asarray(bottom.value, dtype=np.float64)
    low = _find_ratio_end(a, b, np.asarray(top.low), np.asarray(bottom.high), -1)
    high = _find_ratio_end(a, b, np.asarray(top.high), np.asarray(bottom.low), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A divisor whose end is more than twice its value has no such lower end: that of the corners holds.
        low = np.where(2 * b > bottom.high, low, top.low / bottom.high)
        return IntervalEstimate(a / b, np.clip(low, 0, None), np.where(np.asarray(bottom.low) > 0, high, np.inf))


def _find_ratio_end(a: FloatArray, b: FloatArray, top: FloatArray, bottom: FloatArray, sign: int) -> FloatArray:
    """Return the end that joins the distance of `top` from a and that of `bottom` from b."""
    divisor = bottom * (2 * b - bottom)
    inside = np.maximum((a * b) ** 2 - top * (2 * a - top) * divisor, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        end: FloatArray = (a * b + sign * np.sqrt(inside)) / divisor
    return end


def align_clusters(clusters: pd.Series | None, queries: pd.Index) -> Any:
    """Return a cluster per query, the query itself where it has none; None without clusters."""
    return None if clusters is None else clusters.reindex(queries).fillna(pd.Series(queries, queries)).to_numpy()


def estimate_mean(
    sums: FloatArray, sizes: FloatArray, unseen: Sequence[float], *, size: float | None = None, times: float = 1.0
) -> tuple[FloatArray, FloatArray, float]:
    """Return the mean of each column, its standard error (columns,) and the degrees of freedom (Kish, Survey Sampling,
    1965), from sums (clusters, columns) and sizes (clusters,), with one further cluster of each mean in `unseen`.

    Such a cluster has `size` queries, by default as many as the cluster of a query has on average. `times`: as if this
    many times as many clusters had been seen. The mean of clusters of different sizes is a ratio; its error is that of
    Cochran (Sampling Techniques, 1977, 9A.1)."""
    added = np.asarray(unseen, dtype=np.float64)[:, None]
    size = float((sizes**2).sum() / sizes.sum()) if size is None else size
    total = times * sizes.sum() + size * len(added)
    mean = (times * sums.sum(axis=0) + size * added.sum(axis=0)) / total
    squares = times * ((sums - sizes[:, None] * mean) ** 2).sum(axis=0) + ((size * (added - mean)) ** 2).sum(axis=0)
    count = times * len(sizes) + len(added)
    freedom = total**2 / (times * (sizes**2).sum() + len(added) * size**2) - 1
    return mean, np.sqrt(squares * count / (count - 1)) / total, max(float(freedom), 1e-3)


def find_p_value(
    sums: FloatArray,
    sizes: FloatArray,
    at: float,
    unseen: Sequence[float],
    *,
    size: float | None = None,
    times: float = 1.0,
) -> FloatArray:
    """Return by column the one-sided p-value of a mean above `at`; for the rest see `estimate_mean`."""
    mean, error, freedom = estimate_mean(sums, sizes, unseen, size=size, times=times)
    return np.asarray(stdtr(freedom, (at - mean) / np.maximum(error, 1e-300)))


def bound_mean(
    sums: FloatArray, sizes: FloatArray, unseen: Sequence[float], level: float, *, size: float | None = None
) -> FloatArray:
    """Return by column the lower bound of the mean at this level, at most the mean itself. An upper bound is that of
    the negative sums and `unseen`."""
    mean, error, freedom = estimate_mean(sums, sizes, unseen, size=size)
    return np.asarray(np.minimum(mean - stdtrit(freedom, level) * error, sums.sum(axis=0) / sizes.sum()))


def estimate_interval(
    values: FloatArray, *, clusters: AnyArray | None = None, ends: tuple[float, float] = (0.0, 1.0)
) -> IntervalEstimate:
    """Return the mean of each column of `values` (queries, metrics) in the range `ends`, with its interval."""
    sums, sizes = sum_by_cluster(values, clusters)
    low = bound_mean(sums, sizes, ends, 1 - _TAIL)
    high = -bound_mean(-sums, sizes, (-ends[0], -ends[1]), 1 - _TAIL)
    return IntervalEstimate(sums.sum(axis=0) / sizes.sum(), np.clip(low, *ends), np.clip(high, *ends))


def find_p_of_difference(ones: FloatArray, others: FloatArray, *, clusters: AnyArray | None = None) -> float:
    """Return the two-sided p-value of equal means of two systems' figures on the same queries (queries,): below .05
    where the 95% interval of their difference excludes 0."""
    sums, sizes = sum_by_cluster(np.asarray(ones, dtype=np.float64) - others, clusters)
    p = float(find_p_value(sums, sizes, 0.0, _OF_DIFFERENCES)[0])
    return 2 * min(p, 1 - p)


def compare_means(
    values: FloatArray, is_first: BoolArray, clusters: Any, *, ends: tuple[float, float] = (0.0, 1.0)
) -> tuple[IntervalEstimate, float]:
    """Return by how much the mean of some queries exceeds that of the others, with its interval, and the two-sided
    p-value (Welch, Biometrika 34, 1947), from values (queries,) between `ends` and a cluster per query."""
    mean, variance, freedom = (np.zeros(2) for _ in range(3))
    for number, side in enumerate((is_first, ~is_first)):
        found = estimate_mean(*sum_by_cluster(values[side], clusters[side]), ends)
        mean[number], variance[number], freedom[number] = found[0][0], found[1][0] ** 2, found[2]
    error, welch = float(np.sqrt(variance.sum())), float(variance.sum() ** 2 / (variance**2 / freedom).sum())
    middle, reach = float(mean[0] - mean[1]), float(stdtrit(welch, 1 - _TAIL)) * error
    own, most = float(values[is_first].mean() - values[~is_first].mean()), ends[1] - ends[0]
    interval = IntervalEstimate(own, max(min(middle - reach, own), -most), min(max(middle + reach, own), most))
    return interval, float(2 * stdtr(welch, -abs(middle) / error))


def correct_holm(p_values: FloatArray) -> FloatArray:
    """Return the corrected p-values of a family of tests, which bound the chance of any false finding (Holm 1979)."""
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    steps = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    corrected = np.empty_like(given)
    corrected[order] = np.minimum(steps, 1)
    return corrected


def detectable_difference(
    values: FloatArray, *, clusters: AnyArray | None = None, ends: tuple[float, float] = _OF_DIFFERENCES
) -> float:
    """Return the smallest true difference of two systems' means that a test at the 5% level finds with 80% power on as
    many queries, from their differences (queries,)."""
    _, error, freedom = estimate_mean(*sum_by_cluster(values, clusters), ends)
    return float(stdtrit(freedom, 1 - _TAIL) + ndtri(0.8)) * float(error[0])


def count_effective(sizes: FloatArray) -> float:
    """Return the number of equal clusters with the same information as clusters of these sizes (clusters,) (Kish,
    Survey Sampling, 1965)."""
    return float(sizes.sum() ** 2 / np.maximum((sizes**2).sum(), 1e-300))


def sum_by_cluster(values: FloatArray, clusters: AnyArray | None) -> tuple[FloatArray, FloatArray]:
    """Return sums (clusters, metrics) and sizes (clusters,); without clusters each query is its own."""
    columns = np.asarray(values, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    if clusters is None:
        return columns, np.ones(len(columns))
    code = pd.factorize(np.asarray(clusters, dtype=object), use_na_sentinel=False)[0]
    sums = np.stack([np.bincount(code, column).astype(np.float64) for column in columns.T], axis=1)
    return sums, np.bincount(code).astype(np.float64)
