"""The reliability of means over queries: intervals, tests and detectable differences.

The queries are a sample of those that people might ask; these functions estimate what another sample could show.
Queries that share a topic or an image are not independent: as one cluster, they are sampled and swapped together.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtrit

from builders.array_types import FloatArray

CONFIDENCE_LEVEL = 0.95
BOOTSTRAP_SAMPLES = 2_000
_SWAPS = 10_000
_AT_ONCE = 1 << 22  # numbers sampled at a time
_EXACT = 13  # number of differences up to which all 2^n signs are tried
_EQUAL = 1e-9  # figures of one query that differ by less are the same


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """The ends of the interval, each (metrics,)."""

    low: FloatArray
    high: FloatArray


def align_clusters(clusters: pd.Series | None, queries: pd.Index) -> Any:
    """Returns a cluster per query, the query itself where it has none; None without clusters."""
    return None if clusters is None else clusters.reindex(queries).fillna(pd.Series(queries, queries)).to_numpy()


def bootstrap_interval(
    values: FloatArray, *, clusters: Any = None, level: float = CONFIDENCE_LEVEL, seed: int = 0
) -> ConfidenceInterval:
    """Returns the interval of the mean of each column of `values` (queries, metrics): expanded percentile
    bootstrap.

    The percentiles are widened by the ratio of Student's t to the normal (Hesterberg 2015, "What teachers should know
    about the bootstrap", 5.3), as plain ones are too narrow for few queries. With fewer than two queries or clusters
    the interval is the whole range of the metrics."""
    sums, sizes = _clustered(values, clusters)
    count = len(sums)
    if count < 2:
        return ConfidenceInterval(np.zeros(sums.shape[1]), np.ones(sums.shape[1]))
    rng = np.random.default_rng(seed)
    means = np.empty((BOOTSTRAP_SAMPLES, sums.shape[1]))
    columns = np.ascontiguousarray(np.column_stack([sums, sizes]).T)
    step = max(1, _AT_ONCE // count)
    for start in range(0, BOOTSTRAP_SAMPLES, step):
        draws = min(step, BOOTSTRAP_SAMPLES - start)
        samples = rng.integers(0, count, (draws, count)) + count * np.arange(draws)[:, None]
        times = np.bincount(samples.ravel(), minlength=draws * count).reshape(draws, count).astype(np.float64)
        # einsum, not BLAS: of a product this small its second thread spends more than the first.
        drawn = np.einsum("ij,kj->ik", times, columns)
        means[start : start + draws] = drawn[:, :-1] / drawn[:, -1:]
    tail = ndtr(np.sqrt(count / (count - 1)) * stdtrit(count - 1, (1 - level) / 2))
    low, high = np.array([_quantiles(column, [tail, 1 - tail]) for column in means.T]).T
    return ConfidenceInterval(low, high)


def _quantiles(values: FloatArray, shares: list[float]) -> FloatArray:
    """Values that occur again count half above and half below themselves: means of hits are steps of 1 / n, and
    ordinary quantiles of them make intervals that hold the truth too often."""
    steps, counts = np.unique(values.round(12), return_counts=True)
    return np.interp(shares, (np.cumsum(counts) - counts / 2) / len(values), steps)


def permutation_test(ones: FloatArray, others: FloatArray, *, clusters: Any = None, seed: int = 0) -> float:
    """Returns the two-sided p-value of two systems' figures on the same queries (queries,): how often random swaps of
    the systems, query by query, give as large a difference. All swaps are tried where few queries differ, else
    10,000."""
    sums, _ = _clustered(np.asarray(ones, dtype=np.float64) - others, clusters)
    differences = sums[np.abs(sums[:, 0]) > _EQUAL, 0]  # a swap does not change the others
    count, whole = len(differences), abs(differences.sum()) - _EQUAL
    if count <= _EXACT:
        signs = 1 - 2 * ((np.arange(1 << count)[:, None] >> np.arange(count)) & 1)
        return float((np.abs(signs @ differences) >= whole).mean())
    rng = np.random.default_rng(seed)
    larger, step = 0, max(1, _AT_ONCE // count)
    for start in range(0, _SWAPS, step):
        swaps = min(step, _SWAPS - start)
        bits = np.unpackbits(np.frombuffer(rng.bytes(swaps * -(-count // 8)), np.uint8).reshape(swaps, -1), axis=1)
        unswapped = bits[:, :count].astype(np.float64) @ differences
        larger += int((np.abs(2 * unswapped - differences.sum()) >= whole).sum())
    return (larger + 1) / (_SWAPS + 1)


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
    sums, sizes = _clustered(values, clusters)
    count = len(sums)
    if count < 2:
        return float("nan"), count
    # The mean of clusters of different sizes is a ratio.
    residuals = sums[:, 0] - sizes * (sums[:, 0].sum() / sizes.sum())
    return float(np.sqrt((residuals**2).sum() * count / (count - 1)) / sizes.sum()), count


def _clustered(values: FloatArray, clusters: Any) -> tuple[FloatArray, FloatArray]:
    """Returns sums (clusters, metrics) and sizes (clusters,); without clusters each query is one."""
    columns = np.asarray(values, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    if clusters is None:
        return columns, np.ones(len(columns))
    _, code = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    sums = np.stack([np.bincount(code, column).astype(np.float64) for column in columns.T], axis=1)
    return sums, np.bincount(code).astype(np.float64)
