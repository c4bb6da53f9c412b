"""Bounds of a mean over queries that hold for any distribution of their figures, also near the ends of the range.

The bound is Gaffke's ("Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable", Mathematical Methods of Statistics 14, 2005; Learned-Miller and Thomas, "A new confidence interval for the
mean of a bounded random variable", 2019): the quantile of a Bayesian bootstrap (Rubin, Annals of Statistics 9, 1981) in
which one more query, which nobody saw, has the worst value. For hits it is Clopper and Pearson's exact bound. Queries
that share a topic or an image are one draw, and so is the one that nobody saw: it has as many queries as the topic of a
query has on average.

The bootstrap is not drawn: its weights are exponential, and the probability of their sum has Lugannani and Rice's
saddlepoint approximation (Advances in Applied Probability 12, 1980), here within some per cent of the exact one.
"""

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from builders.array_types import FloatArray

_STEPS = 50  # of Newton's method at most: both loops need about 5
_FLAT = 1e-4  # of a signed root: its correction is the limit there
_TOLERANCE = 1e-9


def bound_mean(sums: FloatArray, sizes: FloatArray, worst: Any, level: float, shape: float = 1.0) -> FloatArray:
    """Returns the lower bound at this level of the mean of each column, from sums (clusters, columns) and sizes
    (clusters,) or (clusters, columns). `worst`: the lowest mean that an unseen cluster may have, one or (columns,);
    `shape`: the draws that each cluster is worth, more than 1 where there are few others. An upper bound is that of the
    negative sums."""
    low = np.array(np.broadcast_to(np.asarray(worst, dtype=np.float64), sums.shape[1:]))
    sizes = sizes.reshape(len(sums), -1)
    high = sums.sum(axis=0) / sizes.sum(axis=0)
    bound: FloatArray = np.minimum(low, high)
    (open_,) = np.nonzero(high > low + _TOLERANCE)
    if not len(open_):
        return bound
    sums, end, low, high = sums[:, open_], low[open_], low[open_], high[open_]
    sizes = sizes[:, open_] if sizes.shape[1] > 1 else sizes
    wanted, point = ndtri(1 - level), np.zeros(len(open_))
    unseen = find_unseen_size(sizes)
    at = (sums.sum(axis=0) * shape + end * unseen) / (sizes.sum(axis=0) * shape + unseen)
    for _ in range(_STEPS):
        root, slope, point = _find_root(sums, sizes, at, end, shape, point)
        low, high = np.where(root < wanted, at, low), np.where(root > wanted, at, high)
        step = at + (wanted - root) / slope
        step = np.where((step > low) & (step < high), step, (low + high) / 2)
        done, at = bool((np.abs(step - at) <= _TOLERANCE).all()), step
        if done:
            break
    bound[open_] = at
    return bound


def find_p_value(sums: FloatArray, sizes: FloatArray, at: float, worst: Any, shape: float = 1.0) -> FloatArray:
    """Returns by column (columns,) the p-value of the mean being higher than `at`, which is above `worst`: the level at
    which the lower bound reaches `at`."""
    root, _, _ = _find_root(sums, sizes, at, worst, shape, np.zeros(sums.shape[1]))
    return np.asarray(ndtr(root))


def find_unseen_size(sizes: FloatArray) -> FloatArray:
    """Returns the mean size of the cluster of a query, of sizes (clusters,) or (clusters, columns)."""
    return np.asarray((sizes**2).sum(axis=0) / np.maximum(sizes.sum(axis=0), 1e-300))


def _find_root(
    sums: FloatArray, sizes: FloatArray, at: Any, worst: Any, shape: float, point: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns the deviate of the probability that the weighted mean is `at` or less, its slope in `at`, and the
    saddlepoint, of which `point` is a guess."""
    sizes = sizes.reshape(len(sums), -1)
    sizes = np.vstack([sizes, find_unseen_size(sizes)])
    places = np.vstack([sums, np.broadcast_to(worst * sizes[-1], sums.shape[1:])]) - sizes * at
    shapes = np.full((len(sizes), 1), shape)
    shapes[-1] = 1.0
    least, most = places.min(axis=0), places.max(axis=0)
    is_inside = (least < 0) & (most > 0)
    places = np.where(is_inside, places, 0)
    point = _find_saddlepoint(places, shapes, np.where(is_inside, least, -1), np.where(is_inside, most, 1), point)
    rest = 1 - point * places
    part = places / rest
    root = np.sign(point) * np.sqrt(np.maximum(2 * (shapes * np.log(rest)).sum(axis=0), 0))
    second = np.maximum((shapes * part**2).sum(axis=0), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        limit = (shapes * part**3).sum(axis=0) / 3 / second**1.5
        corrected = root + np.log(point * np.sqrt(second) / root) / root
        slope = point * (shapes * sizes / rest).sum(axis=0) / root
    is_flat = np.abs(root) < _FLAT
    deviate = np.where(is_inside, np.where(is_flat, root + limit, corrected), np.where(least >= 0, -np.inf, np.inf))
    return deviate, np.where(is_flat, (shapes * sizes).sum(axis=0) / np.sqrt(second), slope), point


def _find_saddlepoint(
    places: FloatArray, shapes: FloatArray, least: FloatArray, most: FloatArray, point: FloatArray
) -> FloatArray:
    """Returns where the slope of the cumulants is 0, between the poles of the `least` and the `most` place."""
    low, high = 1 / least, 1 / most
    point = np.where((point > low) & (point < high), point, 0)
    for _ in range(_STEPS):
        part = places / (1 - point * places)
        slope, bend = (shapes * part).sum(axis=0), (shapes * part**2).sum(axis=0)
        low, high = np.where(slope < 0, point, low), np.where(slope > 0, point, high)
        step = point - slope / np.maximum(bend, 1e-300)
        step = np.where((step > low) & (step < high), step, (low + high) / 2)
        if (np.abs(step - point) <= 1e-7 * np.minimum(-1 / least, 1 / most)).all():
            break
        point = step
    return point
