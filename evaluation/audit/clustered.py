"""Estimates from whole queries: a sample of queries of which every pair in the pool was judged.

Pairs of one query are alike, so a query is one draw. Intervals are Student's t on the queries' own figures, with the
correction for a finite number of queries.
"""

import numpy as np
from scipy.special import ndtri, stdtrit

from builders.array_types import FloatArray
from evaluation.audit.intervals import IntervalEstimate, estimate_proportion

_NONE = 1e-12  # variance of figures that differ by rounding alone


def estimate_ratio(tops: FloatArray, bottoms: FloatArray, queries: int) -> IntervalEstimate:
    """Returns the ratio of two totals over all `queries` from those of the drawn ones, each (…, drawn): by linear
    approximation (Cochran, Sampling Techniques, 1977, 6.4), on the scale of logarithms, as ratios of few queries are
    skewed to the right. A ratio of 0 gets the interval of a share of as many draws as there are queries."""
    ratio, distance = _linearize(tops, bottoms, queries)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (np.where(ratio > 0, ratio * np.exp(sign * distance / ratio), 0.0) for sign in (-1, 1))
    return IntervalEstimate(ratio, low, np.where(ratio > 0, high, _bound_none(tops, queries)))


def estimate_share(tops: FloatArray, bottoms: FloatArray, queries: int) -> IntervalEstimate:
    """Returns the same for a part and its whole: on the scale of logits, within 0 and 1."""
    share, distance = _linearize(tops, bottoms, queries)
    inside = (share > 0) & (share < 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        odds, step = share / (1 - share), distance / (share * (1 - share))
        low, high = (1 - 1 / (1 + odds * np.exp(sign * step)) for sign in (-1, 1))
    rest = _bound_none(tops, queries)
    low = np.where(inside, low, np.where(share >= 1, 1 - rest, 0.0))
    return IntervalEstimate(share, low, np.where(inside, high, np.where(share <= 0, rest, 1.0)))


def _linearize(tops: FloatArray, bottoms: FloatArray, queries: int) -> tuple[FloatArray, FloatArray]:
    """Returns the ratio, NaN of nothing, and half the width of its plain interval."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = tops.sum(axis=-1) / bottoms.sum(axis=-1)
        errors = (tops - ratio[..., None] * bottoms) / bottoms.mean(axis=-1)[..., None]
    return ratio, _find_distance(errors, queries)


def _bound_none(values: FloatArray, queries: int) -> FloatArray:
    """The upper end of a share of which no draw was found."""
    return np.asarray(estimate_proportion(0, min(values.shape[-1], queries), queries).high)


def estimate_mean(
    judged: FloatArray, known: FloatArray, known_mean: float | FloatArray, queries: int
) -> IntervalEstimate:
    """Returns the mean of a figure from 0 to 1 over all `queries` from that of the drawn ones (…, drawn), with the help
    of a figure that is known of all: `known` of the drawn ones, `known_mean` of all.

    This is PPI++ (Angelopoulos, Duchi and Zrnic, "PPI++: Efficient prediction-powered inference", 2023) with the
    uncorrected figure in place of a model's prediction, the factor clipped to 0 to 1."""
    count = judged.shape[-1]
    centred = known - known.mean(axis=-1, keepdims=True)
    covariance = (centred * judged).sum(axis=-1) / max(count - 1, 1)
    variance = (centred**2).sum(axis=-1) / max(count - 1, 1)
    factor = np.clip(np.where(variance > 0, covariance / np.where(variance > 0, variance, 1), 0), 0, 1)[..., None]
    rest = judged - factor * known
    value = np.clip(rest.mean(axis=-1) + factor[..., 0] * known_mean, 0, 1)
    return _bound_mean(value, _find_distance(rest, queries), count, queries)


def _bound_mean(value: FloatArray, distance: FloatArray, count: int, queries: int) -> IntervalEstimate:
    """Returns Jeffreys' interval for as many draws of 0 and 1 as would have the same variance (Korn and Graubard,
    Survey Methodology 24, 1998). It stays within 0 and 1, and is no point where all drawn figures are alike."""
    if count >= queries:
        return IntervalEstimate(value, value, value)
    variance = (distance / ndtri(0.975)) ** 2
    spread = np.where((value > 0) & (value < 1), value * (1 - value), 0)
    draws = np.where((variance > _NONE) & (spread > 0), spread / np.maximum(variance, _NONE), count)
    found = estimate_proportion(value * draws, draws, np.inf)
    return IntervalEstimate(value, found.low, found.high)


def _find_distance(values: FloatArray, queries: int) -> FloatArray:
    """Half the width of the 95% interval of the mean of the last axis."""
    count = values.shape[-1]
    if count >= queries:
        return np.zeros(values.shape[:-1])
    if count < 2:
        return np.full(values.shape[:-1], np.inf)
    error = values.std(axis=-1, ddof=1) / np.sqrt(count) * np.sqrt(1 - count / queries)
    distance: FloatArray = stdtrit(count - 1, 0.975) * error
    return distance
