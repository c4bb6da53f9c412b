"""How high a figure could be, were the unjudged images that came back judged.

The figure itself counts them as not relevant. The upper bound counts as many of them as relevant as lift it most: those
that rank best, each of the highest grade. They are more to be found, too, and raise what a figure is divided by; hence
more of them can be worth less, and all numbers of them are tried. (Where grades differ, the divisor of nDCG grows by
the lowest one only: still a bound, if not the least.) At the cut R, R stays as judged.
"""

from __future__ import annotations

import numpy as np

from builders.array_types import FloatArray, RowIndices
from evaluation.metric_names import Metric, compute_metric, compute_metric_from_hits
from evaluation.metrics import dcg, dcg_gains, ideal_hits
from evaluation.ranking import UNJUDGED, Hits, RankedRun, collect_hits


def compute_upper_bound(ranked: RankedRun, metric: Metric) -> FloatArray:
    """The bound per query: from the figure, where all that came back is judged, to 1."""
    value = compute_metric(ranked, metric)
    inside = ranked.rank <= _cuts(ranked, metric)[ranked.query]
    unjudged_rows = np.flatnonzero(inside & (ranked.grade == UNJUDGED))
    if metric.name in ("ap", "ap_graded", "ap_trapezoid", "ndcg") and metric.cut != "r":
        return np.maximum(value, _best_number(ranked, metric, unjudged_rows, value))
    return np.maximum(value, _all_relevant(ranked, metric, unjudged_rows))


def _cuts(ranked: RankedRun, metric: Metric) -> RowIndices:
    relevant = ranked.truth.relevant_counts
    if metric.cut == "r":
        return relevant
    return np.full(len(relevant), metric.cut or np.iinfo(np.int64).max)


def _all_relevant(ranked: RankedRun, metric: Metric, at: RowIndices) -> FloatArray:
    """The metric as if these rows had the highest grade: no other judging gives more."""
    grade, held = ranked.grade.copy(), ranked.truth.counts_by_level.copy()
    grade[at] = ranked.truth.relevant_grades[0]
    if metric.cut != "r":
        held[:, 0] += np.bincount(ranked.query[at], minlength=len(held))
    return compute_metric_from_hits(collect_hits(ranked.query, ranked.rank, grade, ranked.truth, held), metric)


def _best_number(ranked: RankedRun, metric: Metric, at: RowIndices, figure: FloatArray) -> FloatArray:
    """The highest value with the first one, two, … of these rows relevant."""
    query, rank = ranked.query[at], ranked.rank[at]
    number = _counted(query)
    hits = ranked.hits.within_cut(metric.cut if isinstance(metric.cut, int) else None)
    if metric.name == "ndcg":
        lift = dcg_gains(hits.relevant_grades[0], dict(metric.options)["gain"]) / np.log2(rank + 1)
        before, after = _ideals(hits, metric, query, number)
    else:
        lift = _lifts(hits, metric, query, rank, number)
        most = metric.cut if dict(metric.options).get("norm") == "min" and metric.cut else np.iinfo(np.int64).max
        before, after = np.minimum(hits.relevant_counts, most), np.minimum(hits.relevant_counts[query] + number, most)
    values = (figure * before)[query] + _running(lift, query)
    highest = np.zeros(len(figure))
    np.maximum.at(highest, query, values / after)
    return np.minimum(highest, 1)


def _lifts(hits: Hits, metric: Metric, query: RowIndices, rank: RowIndices, number: RowIndices) -> FloatArray:
    """By how much the sum of precisions grows when a row becomes relevant, those before it being so already: its own
    precision, and what each later hit gains by one more before it."""
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
    """What one more hit before it brings a hit of this rank."""
    if metric.name != "ap_trapezoid":
        return 1 / rank
    return np.where(rank > 1, (1 / rank + 1 / np.maximum(rank - 1, 1)) / 2, 1)


def _ideals(hits: Hits, metric: Metric, query: RowIndices, number: RowIndices) -> tuple[FloatArray, FloatArray]:
    """The ideal DCG of each query as judged, and of each row's with `number` more images of grade 1."""
    gain = dict(metric.options)["gain"]
    cut = metric.cut if isinstance(metric.cut, int) else None
    ideal = dcg(ideal_hits(hits, cut), gain)
    most = int(hits.relevant_counts.max()) + int(number.max(initial=0))
    discounts = np.append(0, np.cumsum(1 / np.log2(np.arange(2, most + 2))))
    held, more = hits.relevant_counts[query], hits.relevant_counts[query] + number
    if cut is not None:
        held, more = np.minimum(held, cut), np.minimum(more, cut)
    return ideal, ideal[query] + float(dcg_gains(1, gain)) * (discounts[more] - discounts[held])


def _counted(query: RowIndices) -> RowIndices:
    """Rows numbered from 1 within their query."""
    return np.arange(1, len(query) + 1) - np.searchsorted(query, query)


def _running(values: FloatArray, query: RowIndices) -> FloatArray:
    """Sums from the query's first row to each."""
    sums = np.append(0, np.cumsum(values))
    running: FloatArray = sums[1:] - sums[np.searchsorted(query, query)]
    return running
