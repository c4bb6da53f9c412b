"""Compares the order of systems on two sets, by the results stored beside both."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from backends.sets import set_files
from builders.errors import UserError
from evaluation.evaluation_result import TEXT_TO_IMAGE
from evaluation.metric_names import parse_metric
from evaluation.stability import measure_stability
from evaluation.statistics import align_clusters
from flows.evaluation_run import load_stored_results
from flows.scoring.judged_sets import cluster_queries

MeansBySystem = dict[str, dict[str, list[float]]]


def compare_set_stability(
    first_set: Path, second_set: Path, metrics: Sequence[str] | None = None, direction: str = TEXT_TO_IMAGE
) -> tuple[pd.DataFrame, MeansBySystem]:
    """Returns evaluation.stability's table for two versions of sets, and by system and metric its mean on each. Systems
    are matched by the names of their results' folders, and compared on the queries that all of a set's results have
    (those of another version's runs lack some). Without `metrics`, the metrics that all results have."""
    results = [load_stored_results(path, direction) for path in (first_set, second_set)]
    names = sorted(results[0].keys() & results[1].keys())
    if len(names) < 2:
        sets = f"{first_set.parent.name}/{first_set.name} and {second_set.parent.name}/{second_set.name}"
        reason = f"have {len(names)} evaluated systems in common, at least two are needed"
        raise UserError("stability", sets, reason, "evaluate the same systems on both")
    figures = [_on_common_queries({name: set_results[name][1] for name in names}) for set_results in results]
    metrics_of_results = [
        [figure["metric"] for figure in set_results[name][0]["figures"]] for set_results in results for name in names
    ]
    common_metrics = [metric for metric in metrics_of_results[0] if all(metric in mine for mine in metrics_of_results)]
    chosen = common_metrics if metrics is None else [str(parse_metric(name)) for name in metrics]
    if lacking := [name for name in chosen if name not in common_metrics]:
        next_step = f"choose from {', '.join(common_metrics) or 'none'}"
        raise UserError("stability", lacking[0], "is not in all results", next_step)
    clusters = _clusters(first_set, figures[0], direction), _clusters(second_set, figures[1], direction)
    table = measure_stability(figures[0], figures[1], chosen, clusters=clusters)
    means = {name: {m: [float(mine[name][m].mean()) for mine in figures] for m in chosen} for name in names}
    return table, means


def _on_common_queries(figures: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    first = next(iter(figures.values())).index
    common = first[[all(name in one.index for one in figures.values()) for name in first]]
    return {system: one.loc[common] for system, one in figures.items()}


def _clusters(path: Path, figures: dict[str, pd.DataFrame], direction: str) -> Any:
    queries = set_files.read_set(path, ("queries",)).tables.queries if direction == TEXT_TO_IMAGE else None
    return align_clusters(cluster_queries(queries), next(iter(figures.values())).index)
