"""Expected figures of a random order, in closed form.

All orders of the gallery are equally likely. The image at a rank is relevant with probability R / N, and the images at
two given ranks both are with R (R - 1) / (N (N - 1)); every mean below follows from these two.
"""

from collections.abc import Callable

import numpy as np

from builders.array_types import FloatArray, RowIndices
from evaluation.ground_truth import GroundTruth
from evaluation.metric_names import Metric
from evaluation.metrics import dcg, dcg_gains, ideal_hits
from evaluation.ranking import Hits


def expected_by_chance(metric: Metric, truth: GroundTruth, gallery: int) -> FloatArray:
    """Returns the expected value per query (queries,) for a random order of `gallery` images, judged ones included."""
    empty = np.empty(0, dtype=np.int64)
    whole = Hits(empty, empty, empty.astype(np.int16), empty, truth.relevant_grades, truth.counts_by_level)
    relevant = whole.relevant_counts
    cut = relevant if metric.cut == "r" else np.full(len(relevant), metric.cut or gallery)
    return _EXPECTATIONS[metric.name](whole, cut, np.minimum(cut, gallery), gallery, metric)


def _precision(whole: Hits, cut: RowIndices, seen: RowIndices, gallery: int, _metric: Metric) -> FloatArray:
    return seen * whole.relevant_counts / gallery / cut


def _recall(_whole: Hits, _cut: RowIndices, seen: RowIndices, gallery: int, _metric: Metric) -> FloatArray:
    return seen / gallery


def _hit(whole: Hits, _cut: RowIndices, seen: RowIndices, gallery: int, _metric: Metric) -> FloatArray:
    return _by_count(whole.relevant_counts, seen, gallery, lambda missed: 1 - missed)


def _reciprocal_rank(whole: Hits, _cut: RowIndices, seen: RowIndices, gallery: int, _metric: Metric) -> FloatArray:
    def means(missed: FloatArray) -> FloatArray:
        first = missed[:-1] - missed[1:]  # the probability that the first relevant image has this rank
        return np.append(0, np.cumsum(first / np.arange(1, len(missed))))

    return _by_count(whole.relevant_counts, seen, gallery, means)


def _ndcg(whole: Hits, cut: RowIndices, seen: RowIndices, gallery: int, metric: Metric) -> FloatArray:
    gain = dict(metric.options)["gain"]
    mean = (whole.counts_by_level * dcg_gains(whole.relevant_grades, gain)).sum(axis=1) / gallery
    discounts = np.append(0, np.cumsum(1 / np.log2(np.arange(2, seen.max() + 2))))
    values: FloatArray = mean * discounts[seen] / dcg(ideal_hits(whole, cut), gain)
    return values


def _average_precision(whole: Hits, cut: RowIndices, seen: RowIndices, gallery: int, metric: Metric) -> FloatArray:
    relevant = whole.relevant_counts
    grades = whole.relevant_grades
    weights = grades / grades[0] if metric.name == "ap_graded" else np.ones(len(grades))
    worth = (whole.counts_by_level * weights).sum(axis=1)
    pairs = worth * (relevant - 1) / max(gallery * (gallery - 1), 1)  # both of two given ranks are relevant
    harmonic = np.append(0, np.cumsum(1 / np.arange(1, seen.max() + 1)))[seen]
    total = harmonic * worth / gallery + (seen - harmonic) * pairs
    if metric.name == "ap_trapezoid":  # half of it is P@(rank - 1): a pair at every rank but the first
        total = (total + worth / gallery + (seen - 1) * pairs) / 2
    values: FloatArray = total / (np.minimum(relevant, cut) if dict(metric.options).get("norm") == "min" else relevant)
    return values


def _by_count(
    relevant: RowIndices, seen: RowIndices, gallery: int, means: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Returns per query the value at `seen` of `means`, a function of the probabilities that none of the first 0, 1, …
    images is relevant; these depend only on the number of relevant images."""
    values = np.empty(len(relevant))
    ranks = np.arange(seen.max())
    for count in np.unique(relevant):
        left = np.maximum(gallery - count - ranks, 0) / (gallery - ranks)
        mine = relevant == count
        values[mine] = means(np.append(1, np.cumprod(left)))[seen[mine]]
    return values


_Expectation = Callable[[Hits, RowIndices, RowIndices, int, Metric], FloatArray]
_EXPECTATIONS: dict[str, _Expectation] = {
    "p": _precision,
    "r": _recall,
    "hit": _hit,
    "rr": _reciprocal_rank,
    "ndcg": _ndcg,
    "ap": _average_precision,
    "ap_graded": _average_precision,
    "ap_trapezoid": _average_precision,
}
