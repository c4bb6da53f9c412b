"""All figures of one system, per query and on average, with intervals, conventions and the values of a random order.

In a random order, all orders of the gallery are equally likely. The image at a rank is relevant with probability R / N,
and the images at two given ranks both are with R (R - 1) / (N (N - 1)); every mean in closed form follows from these
two.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import AnyArray, FloatArray, RowIndices
from querytruth.evaluation import bounds, evaluation_result, ground_truth, statistics
from querytruth.evaluation.metrics import (
    Metric,
    compute_metric,
    dcg,
    dcg_gains,
    grade_weights,
    ideal_hits,
    judged_at_k,
    parse_metric,
)
from querytruth.evaluation.ranking import Hits, RankedRun
from querytruth.evaluation.run_matching import rank_first_results

DEFAULT_METRICS = (
    "hit@1", "hit@5", "hit@10", "p@1", "p@5", "p@10", "r@10", "r@15", "r@20", "rr@10", "ndcg@10", "ap@10", "p@r", "ap@r"
)  # fmt: skip

CONVENTIONS = {
    "mean": "over all queries that have at least one relevant image",
    "missing queries": "a query that the run omits counts as 0",
    "unknown ids": "in a run on a set, up to a share: a query is left out, a result keeps its rank and is unjudged",
    "ids of another version": "left out, counted and listed",
    "results that the set left out": "imported sets: unjudged at their ranks (keep); others: ranks close up (condense)",
    "near-duplicates": "an image of a duplicate group counts as its representative, once, at its best score",
    "order": "by score, highest first, compared in double precision as given",
    "ties": "by image id, highest first (UTF-8 bytes), regardless of the order of the rows",
    "unjudged images": "count as not relevant; bounds: the range that judging could give, also for queries that wait",
    "grades": "every grade above 0 is relevant; R is the number of relevant images that the qrels list for the query",
    "ranks": "start at 1",
    "interval": "95%, t over queries (or their clusters), with one more at each extreme of what a figure can be",
    "detectable": "the difference to an independent system of the same variance, detected in 80 of 100 cases at 5%",
}


def expected_by_chance(metric: Metric, truth: ground_truth.GroundTruth, gallery: int) -> FloatArray:
    """Return the expected value per query (queries,) for a random order of `gallery` images, judged ones included; NaN
    for a metric that has no closed form below."""
    empty = np.empty(0, dtype=np.int64)
    whole = Hits(empty, empty, empty.astype(np.int16), empty, truth.relevant_grades, truth.counts_by_level)
    relevant = whole.relevant_counts
    cut = relevant if metric.cut == "r" else np.full(len(relevant), metric.cut or gallery)
    expect = _EXPECTATIONS.get(metric.name)
    if expect is None:
        return np.full(len(relevant), np.nan)
    return expect(whole, cut, np.minimum(cut, gallery), gallery, metric)


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
    scale = dict(metric.options).get("scale")
    weights = np.ones(len(grades)) if scale is None else grade_weights(grades, int(grades[0]), scale)
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
    """Return per query the value at `seen` of `means`, a function of the probabilities that none of the first 0, 1, …
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


@dataclass(frozen=True, slots=True)
class MetricScores:
    """`per_query` and `upper_bounds`: a row per query of the truth, by id, a column per metric; `per_query` also has
    `returned` and judged@k. `interval` and `detectable`: an entry per metric. `missing_queries`: queries without
    results; `ties_by_cut`: per cut the number of queries with a tie there; `queries_without_relevant`: the number of
    queries without a relevant image; `clusters`: one per query, or None."""

    metrics: tuple[Metric, ...]
    per_query: pd.DataFrame
    upper_bounds: pd.DataFrame
    interval: statistics.IntervalEstimate
    detectable: tuple[float, ...]
    missing_queries: tuple[str, ...]
    ties_by_cut: dict[int, int]
    queries_without_relevant: int
    clusters: AnyArray | None = None

    def means(self) -> dict[str, float]:
        """Return by name the mean over all queries."""
        return {str(metric): float(self.per_query[str(metric)].mean()) for metric in self.metrics}

    def counts(self) -> dict[str, Any]:
        """Return the counts of a result file: all, missing and tied queries, and the judged share of results."""
        return {
            "queries": len(self.per_query),
            "queries_missing": len(self.missing_queries),
            "queries_without_relevant_images": self.queries_without_relevant,
            "queries_with_a_tie_at_the_cut": {str(k): count for k, count in sorted(self.ties_by_cut.items())},
            "judged": {name: float(self.per_query[name].mean()) for name in self.per_query if "judged@" in name},
        }

    def figures(
        self, chance: Mapping[str, float], waiting: Mapping[str, FloatArray] = MappingProxyType({})
    ) -> pd.DataFrame:
        """Return a row per metric (FIGURE_COLUMNS); `chance`: the mean of a random order by metric; `waiting`: the
        bounds of `bound_waiting`, which at_least and at_most include."""
        means = self.means()
        queries = len(self.per_query)
        every = queries + len(next(iter(waiting.values()), ()))
        highest = {name: float(self.upper_bounds[name].sum() + waiting.get(name, np.zeros(1)).sum()) for name in means}
        columns = {
            "metric": list(means),
            "value": list(means.values()),
            "low": self.interval.low,
            "high": self.interval.high,
            "at_least": [value * queries / every for value in means.values()],
            "at_most": [highest[name] / every for name in means],
            "chance": [chance.get(name, np.nan) for name in means],
            "detectable": np.where(np.isfinite(self.detectable), self.detectable, np.nan),
        }
        return pd.DataFrame(columns, columns=evaluation_result.FIGURE_COLUMNS)


def score_run(
    ranked: RankedRun, metrics: Sequence[str] = DEFAULT_METRICS, *, clusters: pd.Series | None = None
) -> MetricScores:
    """Return the figures of the named metrics, each once. `clusters`: per query id the topic or image that it shares
    with others. Raises UserError for an unknown metric."""
    chosen = tuple(dict.fromkeys(parse_metric(name) for name in metrics))
    cuts = sorted({metric.cut for metric in chosen if isinstance(metric.cut, int)})
    index = pd.Index(ranked.truth.query_ids.to_pandas(), name="query_id", dtype="str")
    columns = {str(metric): compute_metric(ranked, metric) for metric in chosen}
    shared = statistics.align_clusters(clusters, index)
    returned = ranked.returned_counts
    return MetricScores(
        metrics=chosen,
        per_query=pd.DataFrame(
            {"returned": returned, **columns, **{f"judged@{k}": judged_at_k(ranked, k) for k in cuts}}, index=index
        ),
        upper_bounds=pd.DataFrame(
            {str(metric): bounds.compute_upper_bound(ranked, metric) for metric in chosen}, index=index
        ),
        interval=statistics.estimate_interval(np.stack(list(columns.values()), axis=1), clusters=shared),
        detectable=tuple(  # to an unknown system that varies as much and independently
            float(np.sqrt(2)) * statistics.detectable_difference(values, clusters=shared, ends=(0.0, 1.0))
            for values in columns.values()
        ),
        missing_queries=tuple(index[returned == 0]),
        ties_by_cut={k: ranked.count_ties_at(k) for k in cuts},
        queries_without_relevant=len(ranked.truth.queries_without_relevant),
        clusters=shared,
    )


def bound_waiting(
    run: pd.DataFrame, qrels: pd.DataFrame, waiting: Sequence[str], metrics: Sequence[str]
) -> dict[str, FloatArray]:
    """Return by metric the highest value of each query that waits for judgments (waiting,), whose lowest is 0: the
    unjudged share of the first k for p@k, for others 1 where one of the first is unjudged; {} where none waits."""
    if not waiting:
        return {}
    first = rank_first_results(run[run["query_id"].isin(waiting)], np.iinfo(np.int64).max)
    pair = ["query_id", "image_id"]
    judged = pd.MultiIndex.from_frame(qrels.loc[qrels["query_id"].isin(waiting), pair].astype("str"))
    unjudged = first[~pd.MultiIndex.from_frame(first[pair].astype("str")).isin(judged)]
    highest = {}
    for metric in map(parse_metric, metrics):
        cut = metric.cut if isinstance(metric.cut, int) else np.inf
        counts = unjudged.loc[unjudged["rank"] <= cut, "query_id"].value_counts().reindex(list(waiting), fill_value=0)
        share = counts.to_numpy(dtype=np.float64) / (cut if metric.name == "p" and cut < np.inf else 1)
        highest[str(metric)] = np.minimum(share, 1.0)
    return highest


def average_directions(text_to_image: Mapping[str, float], image_to_text: Mapping[str, float]) -> dict[str, float]:
    """Return the mean of both directions per metric that both have: "Mean R@k" is `hit@k` here."""
    return {name: (value + image_to_text[name]) / 2 for name, value in text_to_image.items() if name in image_to_text}


def transpose_qrels(qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the judgments for the other direction, with images as queries and texts as results."""
    return qrels.rename(columns={"query_id": "image_id", "image_id": "query_id"})
