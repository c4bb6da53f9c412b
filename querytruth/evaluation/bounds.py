"""The bounds of a figure where results are unjudged.

The figure itself counts unjudged results as not relevant. The upper bound counts the best-ranked ones as relevant, each
with the highest grade. They also raise the number of relevant images, which is the divisor of a figure; hence all
numbers of them are tried. (Where grades differ, the divisor of nDCG grows by the lowest one only: still a bound, but
not the least.) At the cut R, the cut grows with them; the bound of ap@r is that of p@r, which is never lower.
"""

import numpy as np

from querytruth.array_types import FloatArray, RowIndices
from querytruth.evaluation import metrics
from querytruth.evaluation.ranking import UNJUDGED, Hits, RankedRun, collect_hits


def compute_upper_bound(ranked: RankedRun, metric: metrics.Metric) -> FloatArray:
    """Return the bound per query (queries,): from the figure itself, where all results are judged, to 1."""
    value = metrics.compute_metric(ranked, metric)
    if metric.cut == "r":
        return np.maximum(value, _best_cut(ranked))
    cut = metric.cut if isinstance(metric.cut, int) else np.iinfo(np.int64).max
    unjudged_rows = np.flatnonzero((ranked.rank <= cut) & (ranked.grade == UNJUDGED))
    if metric.name in ("ap", "ap_graded", "ap_trapezoid", "ndcg"):
        return np.maximum(value, _best_number(ranked, metric, unjudged_rows, value))
    return np.maximum(value, _all_relevant(ranked, metric, unjudged_rows))


def _all_relevant(ranked: RankedRun, metric: metrics.Metric, at: RowIndices) -> FloatArray:
    """Return the metric with the highest grade for these rows: no other judgments give more."""
    grade, held = ranked.grade.copy(), ranked.truth.counts_by_level.copy()
    grade[at] = ranked.truth.relevant_grades[0]
    held[:, 0] += np.bincount(ranked.query[at], minlength=len(held))
    return metrics.compute_metric_from_hits(collect_hits(ranked.query, ranked.rank, grade, ranked.truth, held), metric)


def _best_cut(ranked: RankedRun) -> FloatArray:
    """Return the highest precision at R with one, two, … unjudged results as relevant, as many of them as possible
    above the cut: R = 2 of a, u, v with a relevant becomes 3 with u (2 of 3), and 4 with v (3 of 4)."""
    is_open, start = ranked.grade == UNJUDGED, np.searchsorted(ranked.query, np.arange(len(ranked.returned_counts)))
    query = ranked.query[is_open]
    number = np.arange(1, len(query) + 1) - _find_starts(query)  # from 1 within each query
    cut = ranked.truth.relevant_counts[query] + number
    last = start[query] + np.minimum(cut, ranked.returned_counts[query]) - 1
    hits, open_ones = (_running(mark.astype(np.float64), ranked.query)[last] for mark in (ranked.grade > 0, is_open))
    highest = np.zeros(len(start))
    np.maximum.at(highest, query, (hits + np.minimum(number, open_ones)) / cut)
    return highest


def _best_number(ranked: RankedRun, metric: metrics.Metric, at: RowIndices, figure: FloatArray) -> FloatArray:
    """Return the highest value with the first one, two, … of these rows as relevant."""
    query, rank = ranked.query[at], ranked.rank[at]
    number = np.arange(1, len(query) + 1) - _find_starts(query)  # from 1 within each query
    hits = ranked.hits.within_cut(metric.cut if isinstance(metric.cut, int) else None)
    if metric.name == "ndcg":
        lift = metrics.dcg_gains(hits.relevant_grades[0], dict(metric.options)["gain"]) / np.log2(rank + 1)
        before, after = _ideals(hits, metric, query, number)
    else:
        lift = _lifts(hits, metric, query, rank, number)
        if metric.name == "ap_graded":  # all judged with the highest grade of the set
            highest_grade = int(hits.relevant_grades[0])
            lift *= metrics.grade_weights(highest_grade, highest_grade, dict(metric.options)["scale"])
        most = metric.cut if dict(metric.options).get("norm") == "min" and metric.cut else np.iinfo(np.int64).max
        before, after = np.minimum(hits.relevant_counts, most), np.minimum(hits.relevant_counts[query] + number, most)
    values = (figure * before)[query] + _running(lift, query)
    highest = np.zeros(len(figure))
    np.maximum.at(highest, query, values / after)
    return np.minimum(highest, 1)


def _lifts(hits: Hits, metric: metrics.Metric, query: RowIndices, rank: RowIndices, number: RowIndices) -> FloatArray:
    """Return by how much the sum of precisions grows when a row becomes relevant after those before it: its own
    precision, and the gain of each later hit."""
    wide = max(int(hits.rank.max(initial=0)), int(rank.max(initial=0))) + 1
    place = np.searchsorted(hits.query * wide + hits.rank, query * wide + rank)
    ends = np.searchsorted(hits.query, np.arange(len(hits.counts_by_level) + 1))  # of the hits of the query before
    before, end = place - ends[query], ends[query + 1]
    gained = np.append(0, np.cumsum(_slope(hits.rank, metric)))
    own = (before + number) * _slope(rank, metric)
    if metric.name == "ap_trapezoid":
        own -= np.where(rank > 1, 0.5 / np.maximum(rank - 1, 1), 0)
    lifts: FloatArray = own + gained[end] - gained[place]
    return lifts


def _slope(rank: RowIndices, metric: metrics.Metric) -> FloatArray:
    """Return the gain of a hit at this rank from one more hit before it."""
    if metric.name != "ap_trapezoid":
        return 1 / rank
    return np.where(rank > 1, (1 / rank + 1 / np.maximum(rank - 1, 1)) / 2, 1)


def _ideals(hits: Hits, metric: metrics.Metric, query: RowIndices, number: RowIndices) -> tuple[FloatArray, FloatArray]:
    """Return the ideal DCG per query as judged, and per row with `number` more images of grade 1."""
    gain = dict(metric.options)["gain"]
    cut = metric.cut if isinstance(metric.cut, int) else None
    ideal = metrics.dcg(metrics.ideal_hits(hits, cut), gain)
    most = int(hits.relevant_counts.max()) + int(number.max(initial=0))
    discounts = np.append(0, np.cumsum(1 / np.log2(np.arange(2, most + 2))))
    held, more = hits.relevant_counts[query], hits.relevant_counts[query] + number
    if cut is not None:
        held, more = np.minimum(held, cut), np.minimum(more, cut)
    return ideal, ideal[query] + float(metrics.dcg_gains(1, gain)) * (discounts[more] - discounts[held])


def _running(values: FloatArray, query: RowIndices) -> FloatArray:
    """Return cumulative sums within each query."""
    sums = np.append(0, np.cumsum(values))
    running: FloatArray = sums[1:] - sums[_find_starts(query)]
    return running


def _find_starts(query: RowIndices) -> RowIndices:
    """Return per row the first row of its query; the rows are by query."""
    return np.maximum.accumulate(np.arange(len(query)) * np.append(True, query[1:] != query[:-1])[: len(query)])
