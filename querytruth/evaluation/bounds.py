"""Bounds of figures: of one query where results are unjudged, and of a mean over queries whatever their distribution.

The figure itself counts unjudged results as not relevant. The upper bound counts the best-ranked ones as relevant, each
with the highest grade. They also raise the number of relevant images, by which a figure is divided; hence all numbers
of them are tried. (Where grades differ, the divisor of nDCG grows by the lowest one only: still a bound, but not the
least.) At the cut R, the cut grows with them; the bound of ap@r is that of p@r, which is never lower.

The bound by which a gate passes is Gaffke's ("Three test statistics for a nonparametric one-sided hypothesis on the
mean of a nonnegative variable", Mathematical Methods of Statistics 14, 2005; Learned-Miller and Thomas, "A new
confidence interval for the mean of a bounded random variable", 2019): the quantile of a Bayesian bootstrap (Rubin,
Annals of Statistics 9, 1981) in which one more query, which nobody saw, has the worst value. For hits it is Clopper and
Pearson's exact bound; in general it is a conjecture. Queries that share a topic or an image are one draw, and so is the
one that nobody saw: it has as many queries as the topic of a query has on average. The bootstrap is not drawn: its
weights are exponential, and the probability of their sum has Lugannani and Rice's saddlepoint approximation (Advances
in Applied Probability 12, 1980), here within some per cent of the exact one.
"""

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from querytruth.array_types import FloatArray, RowIndices
from querytruth.evaluation.metrics import (
    Metric,
    compute_metric,
    compute_metric_from_hits,
    dcg,
    dcg_gains,
    grade_weights,
    ideal_hits,
)
from querytruth.evaluation.ranking import UNJUDGED, Hits, RankedRun, collect_hits

_STEPS = 50  # of Newton's method at most: both loops need about 5
_FLAT = 1e-4  # of a signed root: its correction is the limit there
_TOLERANCE = 1e-9


def compute_upper_bound(ranked: RankedRun, metric: Metric) -> FloatArray:
    """Returns the bound per query (queries,): from the figure itself, where all results are judged, to 1."""
    value = compute_metric(ranked, metric)
    if metric.cut == "r":
        return np.maximum(value, _best_cut(ranked))
    cut = metric.cut if isinstance(metric.cut, int) else np.iinfo(np.int64).max
    unjudged_rows = np.flatnonzero((ranked.rank <= cut) & (ranked.grade == UNJUDGED))
    if metric.name in ("ap", "ap_graded", "ap_trapezoid", "ndcg"):
        return np.maximum(value, _best_number(ranked, metric, unjudged_rows, value))
    return np.maximum(value, _all_relevant(ranked, metric, unjudged_rows))


def _all_relevant(ranked: RankedRun, metric: Metric, at: RowIndices) -> FloatArray:
    """Returns the metric with the highest grade for these rows: no other judgments give more."""
    grade, held = ranked.grade.copy(), ranked.truth.counts_by_level.copy()
    grade[at] = ranked.truth.relevant_grades[0]
    held[:, 0] += np.bincount(ranked.query[at], minlength=len(held))
    return compute_metric_from_hits(collect_hits(ranked.query, ranked.rank, grade, ranked.truth, held), metric)


def _best_cut(ranked: RankedRun) -> FloatArray:
    """Returns the highest precision at R with one, two, … unjudged results as relevant, of which as many as can are
    above the cut: R = 2 of a, u, v, of which a is relevant, becomes 3 with u (2 of 3), and 4 with v (3 of 4)."""
    is_open, start = ranked.grade == UNJUDGED, np.searchsorted(ranked.query, np.arange(len(ranked.returned_counts)))
    query = ranked.query[is_open]
    number = np.arange(1, len(query) + 1) - np.searchsorted(query, query)  # from 1 within each query
    cut = ranked.truth.relevant_counts[query] + number
    last = start[query] + np.minimum(cut, ranked.returned_counts[query]) - 1
    hits, open_ones = (_running(mark.astype(np.float64), ranked.query)[last] for mark in (ranked.grade > 0, is_open))
    highest = np.zeros(len(start))
    np.maximum.at(highest, query, (hits + np.minimum(number, open_ones)) / cut)
    return highest


def _best_number(ranked: RankedRun, metric: Metric, at: RowIndices, figure: FloatArray) -> FloatArray:
    """Returns the highest value with the first one, two, … of these rows as relevant."""
    query, rank = ranked.query[at], ranked.rank[at]
    number = np.arange(1, len(query) + 1) - np.searchsorted(query, query)  # from 1 within each query
    hits = ranked.hits.within_cut(metric.cut if isinstance(metric.cut, int) else None)
    if metric.name == "ndcg":
        lift = dcg_gains(hits.relevant_grades[0], dict(metric.options)["gain"]) / np.log2(rank + 1)
        before, after = _ideals(hits, metric, query, number)
    else:
        lift = _lifts(hits, metric, query, rank, number)
        if metric.name == "ap_graded":  # all judged with the highest grade of the set
            highest_grade = int(hits.relevant_grades[0])
            lift *= grade_weights(highest_grade, highest_grade, dict(metric.options)["scale"])
        most = metric.cut if dict(metric.options).get("norm") == "min" and metric.cut else np.iinfo(np.int64).max
        before, after = np.minimum(hits.relevant_counts, most), np.minimum(hits.relevant_counts[query] + number, most)
    values = (figure * before)[query] + _running(lift, query)
    highest = np.zeros(len(figure))
    np.maximum.at(highest, query, values / after)
    return np.minimum(highest, 1)


def _lifts(hits: Hits, metric: Metric, query: RowIndices, rank: RowIndices, number: RowIndices) -> FloatArray:
    """Returns by how much the sum of precisions grows when a row becomes relevant after those before it: its own
    precision, and the gain of each later hit."""
    wide = max(int(hits.rank.max(initial=0)), int(rank.max(initial=0))) + 1
    place = np.searchsorted(hits.query * wide + hits.rank, query * wide + rank)
    before = place - np.searchsorted(hits.query, query)
    end = np.searchsorted(hits.query, query, side="right")
    gained = np.append(0, np.cumsum(_slope(hits.rank, metric)))
    own = (before + number) * _slope(rank, metric)
    if metric.name == "ap_trapezoid":
        own -= np.where(rank > 1, 0.5 / np.maximum(rank - 1, 1), 0)
    lifts: FloatArray = own + gained[end] - gained[place]
    return lifts


def _slope(rank: RowIndices, metric: Metric) -> FloatArray:
    """Returns the gain of a hit at this rank from one more hit before it."""
    if metric.name != "ap_trapezoid":
        return 1 / rank
    return np.where(rank > 1, (1 / rank + 1 / np.maximum(rank - 1, 1)) / 2, 1)


def _ideals(hits: Hits, metric: Metric, query: RowIndices, number: RowIndices) -> tuple[FloatArray, FloatArray]:
    """Returns the ideal DCG per query as judged, and per row with `number` more images of grade 1."""
    gain = dict(metric.options)["gain"]
    cut = metric.cut if isinstance(metric.cut, int) else None
    ideal = dcg(ideal_hits(hits, cut), gain)
    most = int(hits.relevant_counts.max()) + int(number.max(initial=0))
    discounts = np.append(0, np.cumsum(1 / np.log2(np.arange(2, most + 2))))
    held, more = hits.relevant_counts[query], hits.relevant_counts[query] + number
    if cut is not None:
        held, more = np.minimum(held, cut), np.minimum(more, cut)
    return ideal, ideal[query] + float(dcg_gains(1, gain)) * (discounts[more] - discounts[held])


def _running(values: FloatArray, query: RowIndices) -> FloatArray:
    """Returns cumulative sums within each query."""
    sums = np.append(0, np.cumsum(values))
    running: FloatArray = sums[1:] - sums[np.searchsorted(query, query)]
    return running


def bound_mean(sums: FloatArray, sizes: FloatArray, worst: Any, level: float) -> FloatArray:
    """Returns the lower bound at this level of the mean of each column, from sums (clusters, columns) and sizes
    (clusters,). `worst`: the lowest mean that an unseen cluster may have, one or (columns,). An upper bound is that of
    the negative sums."""
    low = np.array(np.broadcast_to(np.asarray(worst, dtype=np.float64), sums.shape[1:]))
    high = sums.sum(axis=0) / sizes.sum()
    bound: FloatArray = np.minimum(low, high)
    (open_,) = np.nonzero(high > low + _TOLERANCE)
    if not len(open_):
        return bound
    sums, end, low, high = sums[:, open_], low[open_], low[open_], high[open_]
    wanted, point = ndtri(1 - level), np.zeros(len(open_))
    unseen = _find_unseen_size(sizes)
    at = (sums.sum(axis=0) + end * unseen) / (sizes.sum() + unseen)
    for _ in range(_STEPS):
        root, slope, point = _find_root(sums, sizes, at, end, 1.0, point)
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


def _find_unseen_size(sizes: FloatArray) -> float:
    """Returns the mean size of the cluster of a query, of sizes (clusters,)."""
    return float((sizes**2).sum() / np.maximum(sizes.sum(), 1e-300))


def _find_root(
    sums: FloatArray, sizes: FloatArray, at: Any, worst: Any, shape: float, point: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns the deviate of the probability that the weighted mean is `at` or less, its slope in `at`, and the
    saddlepoint, of which `point` is a guess."""
    sizes = np.append(sizes, _find_unseen_size(sizes))[:, None]
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
