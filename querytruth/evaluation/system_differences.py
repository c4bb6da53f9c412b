"""Differences of systems, query by query: of two, and of one between leaked and clean queries."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from querytruth.array_types import AnyArray
from querytruth.evaluation.comparison import EvaluationWarning, compare_systems, find_most_different_queries
from querytruth.evaluation.evaluation_result import EvaluationResult, SystemComparison
from querytruth.evaluation.statistics import CONFIDENCE_LEVEL, align_clusters, compare_means, correct_holm

_DECIMALS = 9
LEAKED, CLEAN = "leaked", "clean"
LEAKED_COLUMNS = [
    *("metric", "leaked", "clean", "queries_leaked", "queries_clean"),
    *("difference", "low", "high", "p", "p_holm"),
]
_FEWEST = 5  # queries of each side


def compare_all_pairs(results: Sequence[EvaluationResult], clusters: pd.Series | None) -> pd.DataFrame:
    """Return a row (COMPARISON_COLUMNS) per pair of systems and metric that all have. Raises UserError where their
    queries differ."""
    metrics = [name for name in results[0].metrics if all(name in result.metrics for result in results)]
    figures = {name: result.per_query for name, result in zip(make_unique_names(results), results, strict=True)}
    return compare_systems(figures, metrics, clusters=align_clusters(clusters, results[0].per_query.index))


def compare_two_systems(
    first: EvaluationResult, second: EvaluationResult, clusters: pd.Series | None, max_queries: int = 50
) -> SystemComparison:
    """Return the comparison of two systems. Queries with the same difference by the first metric are ordered by the
    metric with the most distinct differences."""
    table = compare_all_pairs([first, second], clusters)
    by_metric = [first.per_query[name] - second.per_query[name] for name in table["metric"]]
    absolute_differences = [found.abs().round(_DECIMALS) for found in by_metric]
    most_graded = max(absolute_differences, key=lambda differences: int(differences.nunique()))
    names = find_most_different_queries(by_metric[0], len(by_metric[0]))
    names.sort(key=lambda name: (-absolute_differences[0][name], -most_graded[name], name))
    return SystemComparison(first, second, table, names[:max_queries], by_metric[0])


def make_unique_names(results: Sequence[EvaluationResult]) -> list[str]:
    """Return the systems' names, with a number for the later ones that share a name."""
    names: list[str] = []
    for result in results:
        name, number = str(result.system["name"]), 2
        while name in names:
            name, number = f"{result.system['name']} ({number})", number + 1
        names.append(name)
    return names


def compare_leaked(
    per_query: pd.DataFrame,
    overlap: pd.Series | None,
    metrics: Sequence[str],
    *,
    clusters: AnyArray | None = None,
    ends: tuple[float, float] = (0.0, 1.0),
) -> pd.DataFrame:
    """Return a row (LEAKED_COLUMNS) per metric: the mean of the leaked queries less that of the clean ones, with its
    95% interval and p-value (`compare_means`). No row with fewer than five queries on a side. `overlap`: leaked or
    clean by query id; `clusters`: one per query; `ends`: of the figures."""
    status = pd.Series(dtype="str") if overlap is None else overlap.reindex(per_query.index)
    is_leaked, is_clean = (status == LEAKED).to_numpy(bool), (status == CLEAN).to_numpy(bool)
    if min(is_leaked.sum(), is_clean.sum()) < _FEWEST:
        return pd.DataFrame(columns=LEAKED_COLUMNS)
    known = is_leaked | is_clean
    shared = np.arange(known.sum()) if clusters is None else np.asarray(clusters, dtype=object)[known]
    counts, rows = {"queries_leaked": int(is_leaked.sum()), "queries_clean": int(is_clean.sum())}, []
    for metric in metrics:
        values = per_query[metric].to_numpy(np.float64)
        found, p = compare_means(values[known], is_leaked[known], shared, ends=ends)
        means = {"leaked": float(values[is_leaked].mean()), "clean": float(values[is_clean].mean())}
        ends_of = {"difference": found.value, "low": found.low, "high": found.high}
        rows.append({"metric": metric, **means, **counts, **ends_of, "p": p})
    return pd.DataFrame(rows).assign(p_holm=correct_holm(np.array([row["p"] for row in rows])))[LEAKED_COLUMNS]


def find_leaked_warnings(rows: pd.DataFrame) -> list[EvaluationWarning]:
    """Return a warning `leaked` for each metric on which leaked queries do better by more than chance."""
    better = rows[(rows["difference"] > 0) & (rows["p_holm"] <= 1 - CONFIDENCE_LEVEL)]
    return [
        EvaluationWarning(
            "leaked",
            str(row.metric),
            f"{row.leaked:.4f} on the {row.queries_leaked:,} leaked queries, {row.clean:.4f} on the clean ones "
            f"(p {row.p_holm:.4f})",
        )
        for row in better.itertuples()
    ]


def compare_leaked_of_systems(
    systems: Mapping[str, pd.DataFrame],
    overlap: pd.Series | None,
    metrics: Sequence[str],
    *,
    clusters: AnyArray | None = None,
) -> pd.DataFrame:
    """Return the rows of `compare_leaked` of each `system`, and of the difference of each pair (`one less other`): how
    hard the leaked queries are has no effect on that."""
    tables = [(name, table, 0.0) for name, table in systems.items()]
    for one, other in combinations(systems, 2):
        tables.append((f"{one} minus {other}", systems[one][list(metrics)] - systems[other][list(metrics)], -1.0))
    found = [
        compare_leaked(table, overlap, metrics, clusters=clusters, ends=(lowest, 1.0)).assign(system=name)
        for name, table, lowest in tables
    ]
    return pd.concat(found, ignore_index=True)[["system", *LEAKED_COLUMNS]]
