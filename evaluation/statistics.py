"""The reliability of means over queries: intervals, tests and detectable differences.

The queries are a sample of those that people might ask; these functions estimate what another sample could show.
Queries that share a topic or an image are not independent: as one cluster, they are sampled and swapped together.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from builders.array_types import FloatArray
from evaluation.mean_bounds import bound_mean

CONFIDENCE_LEVEL = 0.95
FEWEST_QUERIES, FEWEST_CLUSTERS = 20, 8  # below, an interval says little: these are the promises of docs/evaluation.md
_FEWEST_DIFFERENT, _FEWEST_EFFECTIVE = 16, 10  # to show what an unseen one may have
_EXACT = 13  # number of differences up to which all 2^n signs are tried
_EQUAL = 1e-9  # figures of one query that differ by less are the same
_STEPS = 100  # of Newton's method at most
_FLAT = 1e-3  # of a signed root: the probability is one half


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


def find_extremes(
    sums: FloatArray, sizes: FloatArray, ends: tuple[Any, Any], fewest: int = _FEWEST_DIFFERENT
) -> tuple[FloatArray, FloatArray]:
    """Returns the lowest and the highest mean that an unseen cluster may have (columns,), from sums (clusters, columns)
    and sizes (clusters,) or (clusters, columns): those of the clusters at hand, and `ends` where these are too few
    (`count_effective`), or where many are alike and fewer than `fewest` differ. Empty clusters do not count."""
    sizes = sizes.reshape(len(sums), -1)
    filled = sizes > 0
    means = np.where(filled | ~filled.any(axis=0), sums / np.where(filled, sizes, 1), np.nan)
    different = (np.abs(means - np.nanmedian(means, axis=0)) > _EQUAL).sum(axis=0)
    are_few = different < np.minimum(fewest, filled.sum(axis=0) - 1)
    are_few |= count_effective(sizes) < _FEWEST_EFFECTIVE
    lowest, highest = np.nanmin(means, axis=0), np.nanmax(means, axis=0)
    low, high = np.minimum(ends[0], lowest), np.maximum(ends[1], highest)
    return np.where(are_few, low, lowest), np.where(are_few, high, highest)


def count_effective(sizes: FloatArray) -> FloatArray:
    """Returns the number of equal clusters that say as much as those of these sizes (clusters,) or (clusters, columns)
    (Kish, Survey Sampling, 1965)."""
    return np.asarray(sizes.sum(axis=0) ** 2 / np.maximum((sizes**2).sum(axis=0), 1e-300))


def sum_by_cluster(values: FloatArray, clusters: Any) -> tuple[FloatArray, FloatArray]:
    """Returns sums (clusters, metrics) and sizes (clusters,); without clusters each query is one."""
    columns = np.asarray(values, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    if clusters is None:
        return columns, np.ones(len(columns))
    _, code = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    sums = np.stack([np.bincount(code, column).astype(np.float64) for column in columns.T], axis=1)
    return sums, np.bincount(code).astype(np.float64)
