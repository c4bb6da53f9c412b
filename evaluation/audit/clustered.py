"""Estimates from whole queries: a sample of queries of which every pair in the pool was judged.

Pairs of one query are alike, so a query is one draw. Intervals are Gaffke's bounds (`evaluation.mean_bounds`), as those
of `evaluate`: where few of the drawn queries have what is counted, an unseen one may have as much as its pool holds. A
draw of a finite number of queries N is worth (N - 1) / (N - n) draws, at most 3; the interval of a census is a point.
"""

from typing import Any

import numpy as np

from builders.array_types import FloatArray
from evaluation.audit.intervals import IntervalEstimate
from evaluation.mean_bounds import bound_mean, find_unseen_size
from evaluation.statistics import CONFIDENCE_LEVEL, find_extremes

_TAIL = (1 + CONFIDENCE_LEVEL) / 2
_FEWEST_DRAWN = 16  # fewer do not show how much an unseen query may have
_FEWEST_FITTED = 40  # a factor that is fitted to fewer fits these alone
_MOST_WORTH = 3.0


def estimate_ratio(tops: FloatArray, bottoms: FloatArray, queries: int, most: Any) -> IntervalEstimate:
    """Returns the ratio of two totals over all `queries` from those of the drawn ones, each (…, drawn); NaN of nothing.
    `most`: the highest top that a query can have, one or (…,)."""
    tops, bottoms = np.moveaxis(np.asarray(tops), -1, 0), np.moveaxis(np.asarray(bottoms), -1, 0)
    shape, (tops, bottoms) = tops.shape[1:], (part.reshape(len(tops), -1) for part in (tops, bottoms))
    lowest, highest = _find_extremes(tops, np.ones_like(tops), (0.0, np.ravel(most)))
    unseen = find_unseen_size(bottoms)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = _estimate(tops, bottoms, lowest / unseen, highest / unseen, queries)
    return IntervalEstimate(*(np.reshape(end, shape) for end in (found.value, found.low, found.high)))


def estimate_share(tops: FloatArray, bottoms: FloatArray, queries: int) -> IntervalEstimate:
    """Returns the same for a part and its whole, within 0 and 1."""
    tops, bottoms = np.moveaxis(np.asarray(tops), -1, 0), np.moveaxis(np.asarray(bottoms), -1, 0)
    shape, (tops, bottoms) = tops.shape[1:], (part.reshape(len(tops), -1) for part in (tops, bottoms))
    found = _estimate(tops, bottoms, *_find_extremes(tops, bottoms, (0.0, 1.0)), queries)
    return IntervalEstimate(*(np.reshape(end, shape) for end in (found.value, found.low, found.high)))


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
    if count < _FEWEST_FITTED:
        variance = np.zeros_like(variance)
    factor = np.clip(np.where(variance > 0, covariance / np.where(variance > 0, variance, 1), 0), 0, 1)
    rest = np.moveaxis(judged - factor[..., None] * known, -1, 0).reshape(count, -1)
    shift, ones = factor * known_mean, np.ones((count, 1))
    extremes = _find_extremes(rest, ones, (-np.ravel(factor), 1.0), _FEWEST_FITTED)
    found = _estimate(rest, ones, *extremes, queries)
    ends = (np.reshape(end, factor.shape) + shift for end in (found.value, found.low, found.high))
    return IntervalEstimate(*(np.clip(end, 0, 1) for end in ends))


def _find_extremes(
    tops: FloatArray, bottoms: FloatArray, ends: tuple[Any, Any], fewest: int = _FEWEST_DRAWN
) -> tuple[FloatArray, FloatArray]:
    """Returns the lowest and the highest ratio that an unseen query may have (columns,)."""
    lowest, highest = find_extremes(tops, bottoms, ends, fewest)
    if len(tops) >= _FEWEST_DRAWN:
        return lowest, highest
    return np.minimum(lowest, ends[0]), np.maximum(highest, ends[1])


def _estimate(
    tops: FloatArray, bottoms: FloatArray, lowest: FloatArray, highest: FloatArray, queries: int
) -> IntervalEstimate:
    """Returns the ratio of the totals of each column (drawn, columns), where an unseen query has a ratio from `lowest`
    to `highest`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = tops.sum(axis=0) / bottoms.sum(axis=0)
    if len(tops) >= queries:
        return IntervalEstimate(value, value, value)
    known = np.isfinite(value)
    low, high = np.array(lowest), np.array(highest)
    worth = min((queries - 1) / (queries - len(tops)), _MOST_WORTH)
    if known.any():
        top, bottom = tops[:, known], bottoms[:, known] if bottoms.shape[1] > 1 else bottoms
        low[known] = bound_mean(top, bottom, lowest[known], _TAIL, worth)
        high[known] = -bound_mean(-top, bottom, -highest[known], _TAIL, worth)
    return IntervalEstimate(value, low, high)
