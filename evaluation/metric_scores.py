"""All figures of one system, per query and on average, with intervals and conventions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evaluation.bounds import compute_upper_bound
from evaluation.evaluation_result import FIGURE_COLUMNS
from evaluation.metric_names import Metric, compute_metric, parse_metric
from evaluation.metrics import judged_at_k
from evaluation.ranking import RankedRun
from evaluation.statistics import ConfidenceInterval, align_clusters, detectable_difference_unpaired, estimate_interval

DEFAULT_METRICS = (
    "hit@1",
    "hit@5",
    "hit@10",
    "p@1",
    "p@5",
    "p@10",
    "r@10",
    "r@15",
    "r@20",
    "rr@10",
    "ndcg@10",
    "ap@10",
    "p@r",
    "ap@r",
)

CONVENTIONS = {
    "mean": "over all queries that have at least one relevant image",
    "missing queries": "a query that the run leaves out counts as 0",
    "unknown ids": "of a run on a set: left out, counted and listed, up to a share; those of another version: left out",
    "near-duplicates": "an image of a duplicate group counts as its representative, once, at its best score",
    "order": "by score, highest first, compared in double precision as given",
    "ties": "by image id, highest first (UTF-8 bytes), whatever the order of the rows",
    "unjudged images": "count as not relevant; the upper bound is what judging those that came back could at most give",
    "grades": "every grade above 0 is relevant; R is the number of relevant images that the qrels list for the query",
    "ranks": "start at 1",
    "interval": "95%, Gaffke's bounds: queries (or their clusters) as if one more, as extreme as any, had been seen",
    "detectable": "the difference to a system that varies as much, independently, found in 80 of 100 cases at 5%",
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
    interval: ConfidenceInterval
    detectable: tuple[float, ...]
    missing_queries: tuple[str, ...]
    ties_by_cut: dict[int, int]
    queries_without_relevant: int
    clusters: Any = None

    def means(self) -> dict[str, float]:
        """Returns by name the mean over all queries."""
        return {str(metric): float(self.per_query[str(metric)].mean()) for metric in self.metrics}

    def counts(self) -> dict[str, Any]:
        """Returns the counts of a result file: all, missing and tied queries, and the judged share of results."""
        return {
            "queries": len(self.per_query),
            "queries_missing": len(self.missing_queries),
            "queries_without_relevant_images": self.queries_without_relevant,
            "queries_with_a_tie_at_the_cut": {str(k): count for k, count in sorted(self.ties_by_cut.items())},
            "judged": {name: float(self.per_query[name].mean()) for name in self.per_query if "judged@" in name},
        }

    def figures(self, chance: Mapping[str, float]) -> pd.DataFrame:
        """Returns a row per metric (FIGURE_COLUMNS); `chance`: by metric the mean of a random order."""
        means = self.means()
        columns = {
            "metric": list(means),
            "value": list(means.values()),
            "low": self.interval.low,
            "high": self.interval.high,
            "at_least": list(means.values()),
            "at_most": [float(self.upper_bounds[name].mean()) for name in means],
            "chance": [chance.get(name, np.nan) for name in means],
            "detectable": np.where(np.isfinite(self.detectable), self.detectable, np.nan),
        }
        return pd.DataFrame(columns, columns=FIGURE_COLUMNS)


def score_run(
    ranked: RankedRun, metrics: Sequence[str] = DEFAULT_METRICS, *, clusters: pd.Series | None = None
) -> MetricScores:
    """Returns the figures of the named metrics, each once. `clusters`: per query id the topic or image that it shares
    with others. Raises UserError for an unknown metric."""
    chosen = tuple(dict.fromkeys(parse_metric(name) for name in metrics))
    cuts = sorted({metric.cut for metric in chosen if isinstance(metric.cut, int)})
    index = pd.Index(ranked.truth.query_ids.to_pandas(), name="query_id", dtype="str")
    columns = {str(metric): compute_metric(ranked, metric) for metric in chosen}
    shared = align_clusters(clusters, index)
    returned = ranked.returned_counts
    return MetricScores(
        metrics=chosen,
        per_query=pd.DataFrame(
            {"returned": returned, **columns, **{f"judged@{k}": judged_at_k(ranked, k) for k in cuts}}, index=index
        ),
        upper_bounds=pd.DataFrame({str(metric): compute_upper_bound(ranked, metric) for metric in chosen}, index=index),
        interval=estimate_interval(np.stack(list(columns.values()), axis=1), clusters=shared),
        detectable=tuple(detectable_difference_unpaired(values, clusters=shared) for values in columns.values()),
        missing_queries=tuple(index[returned == 0]),
        ties_by_cut={k: ranked.count_ties_at(k) for k in cuts},
        queries_without_relevant=len(ranked.truth.queries_without_relevant),
        clusters=shared,
    )


def average_directions(text_to_image: Mapping[str, float], image_to_text: Mapping[str, float]) -> dict[str, float]:
    """Returns the mean of both directions per metric that both have: "Mean R@k" is `hit@k` here."""
    return {name: (value + image_to_text[name]) / 2 for name, value in text_to_image.items() if name in image_to_text}


def transpose_qrels(qrels: pd.DataFrame) -> pd.DataFrame:
    """Returns the judgments for the other direction, with images as queries and texts as results."""
    return qrels.rename(columns={"query_id": "image_id", "image_id": "query_id"})
