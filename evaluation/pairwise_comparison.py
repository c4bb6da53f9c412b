"""Pairwise comparison of evaluation results, query by query."""

from collections.abc import Sequence

import pandas as pd

from evaluation.comparison import compare_systems, find_most_different_queries
from evaluation.evaluation_result import EvaluationResult, SystemComparison
from evaluation.statistics import align_clusters

_DECIMALS = 9


def compare_all_pairs(results: Sequence[EvaluationResult], clusters: pd.Series | None) -> pd.DataFrame:
    """Returns a row (COMPARISON_COLUMNS) per pair of systems and metric that all have. Raises UserError where their
    queries differ."""
    metrics = [name for name in results[0].metrics if all(name in result.metrics for result in results)]
    figures = {name: result.per_query for name, result in zip(make_unique_names(results), results, strict=True)}
    return compare_systems(figures, metrics, clusters=align_clusters(clusters, results[0].per_query.index))


def compare_two_systems(
    first: EvaluationResult, second: EvaluationResult, clusters: pd.Series | None, max_queries: int = 50
) -> SystemComparison:
    """Returns the comparison of two systems. Queries with the same difference by the first metric are ordered by the
    metric with the most distinct differences."""
    table = compare_all_pairs([first, second], clusters)
    by_metric = [first.per_query[name] - second.per_query[name] for name in table["metric"]]
    absolute_differences = [found.abs().round(_DECIMALS) for found in by_metric]
    most_graded = max(absolute_differences, key=lambda differences: int(differences.nunique()))
    names = find_most_different_queries(by_metric[0], len(by_metric[0]))
    names.sort(key=lambda name: (-absolute_differences[0][name], -most_graded[name], name))
    return SystemComparison(first, second, table, names[:max_queries], by_metric[0])


def make_unique_names(results: Sequence[EvaluationResult]) -> list[str]:
    """Returns the systems' names, with a number for the later ones that share a name."""
    names: list[str] = []
    for result in results:
        name, number = str(result.system["name"]), 2
        while name in names:
            name, number = f"{result.system['name']} ({number})", number + 1
        names.append(name)
    return names
