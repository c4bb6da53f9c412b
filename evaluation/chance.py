"""What a random order gets, in closed form: the floor below every figure.

All orders of the gallery are equally likely. A picture of one rank is then relevant with a chance of R / N, and
pictures of two given ranks both are with R (R - 1) / (N (N - 1)); every mean below follows from these two.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from evaluation.identifiers import Rows
from evaluation.metric_names import Metric
from evaluation.metrics import discounted, gains, ideal_hits
from evaluation.ranking import Hits, Values
from evaluation.truth import Truth


def expected(metric: Metric, truth: Truth, gallery: int) -> Values:
    """The expected value per query for a random order of `gallery` pictures, which the judged ones are among."""
    empty = np.empty(0, dtype=np.int64)
    whole = Hits(empty, empty, empty.astype(np.int16), empty, truth.levels, truth.held)
    relevant = whole.relevant
    cut = relevant if metric.cut == "r" else np.full(len(relevant), metric.cut or gallery)
    return _EXPECTED[metric.name](whole, cut, np.minimum(cut, gallery), gallery, metric)


def _precision(whole: Hits, cut: Rows, seen: Rows, gallery: int, _metric: Metric) -> Values:
    return seen * whole.relevant / gallery / cut


def _recall(_whole: Hits, _cut: Rows, seen: Rows, gallery: int, _metric: Metric) -> Values:
    return seen / gallery


def _hit(whole: Hits, _cut: Rows, seen: Rows, gallery: int, _metric: Metric) -> Values:
    return _by_count(whole.relevant, seen, gallery, lambda missed: 1 - missed)


def _reciprocal_rank(whole: Hits, _cut: Rows, seen: Rows, gallery: int, _metric: Metric) -> Values:
    def means(missed: Values) -> Values:
        first = missed[:-1] - missed[1:]  # the chance that the first relevant picture has this rank
        return np.append(0, np.cumsum(first / np.arange(1, len(missed))))

    return _by_count(whole.relevant, seen, gallery, means)


def _ndcg(whole: Hits, cut: Rows, seen: Rows, gallery: int, metric: Metric) -> Values:
    gain = dict(metric.options)["gain"]
    mean = (whole.held * gains(whole.levels, gain)).sum(axis=1) / gallery
    discounts = np.append(0, np.cumsum(1 / np.log2(np.arange(2, seen.max() + 2))))
    values: Values = mean * discounts[seen] / discounted(ideal_hits(whole, cut), gain)
    return values


def _average_precision(whole: Hits, cut: Rows, seen: Rows, gallery: int, metric: Metric) -> Values:
    relevant = whole.relevant
    worth = _worth(whole, metric)
    pairs = worth * (relevant - 1) / max(gallery * (gallery - 1), 1)  # both of two given ranks hold relevant ones
    harmonic = np.append(0, np.cumsum(1 / np.arange(1, seen.max() + 1)))[seen]
    total = harmonic * worth / gallery + (seen - harmonic) * pairs
    if (
        metric.name == "ap_trapezoid"
    ):  # half of it from P@(rank - 1), which is one pair's chance at every rank but the first
        total = (total + worth / gallery + (seen - 1) * pairs) / 2
    values: Values = total / (np.minimum(relevant, cut) if dict(metric.options).get("norm") == "min" else relevant)
    return values


def _worth(whole: Hits, metric: Metric) -> Values:
    weights = whole.levels / whole.levels[0] if metric.name == "ap_graded" else np.ones(len(whole.levels))
    worth: Values = (whole.held * weights).sum(axis=1)
    return worth


def _by_count(relevant: Rows, seen: Rows, gallery: int, means: Callable[[Values], Values]) -> Values:
    """Per query the place `seen` of what `means` makes of the chances that none of the first 0, 1, … pictures is
    relevant; they depend on the number of relevant ones alone."""
    values = np.empty(len(relevant))
    ranks = np.arange(seen.max())
    for count in np.unique(relevant):
        left = np.maximum(gallery - count - ranks, 0) / (gallery - ranks)
        mine = relevant == count
        values[mine] = means(np.append(1, np.cumprod(left)))[seen[mine]]
    return values


_Expectation = Callable[[Hits, Rows, Rows, int, Metric], NDArray[np.float64]]
_EXPECTED: dict[str, _Expectation] = {
    "p": _precision,
    "r": _recall,
    "hit": _hit,
    "rr": _reciprocal_rank,
    "ndcg": _ndcg,
    "ap": _average_precision,
    "ap_graded": _average_precision,
    "ap_trapezoid": _average_precision,
}
