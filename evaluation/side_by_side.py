"""Evaluations of several systems, compared query by query."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from evaluation.comparison import compare, most_different
from evaluation.evaluated import Compared, Evaluated
from evaluation.evaluating import aligned

_DECIMALS = 9


def all_pairs(results: Sequence[Evaluated], clusters: pd.Series | None) -> pd.DataFrame:
    """A row per metric and pair of systems (evaluation.comparison's columns), by the metrics that all of them have."""
    metrics = [name for name in results[0].metrics if all(name in found.metrics for found in results)]
    figures = {name: found.per_query for name, found in zip(named_apart(results), results, strict=True)}
    return compare(figures, metrics, clusters=aligned(clusters, results[0].per_query.index))


def compared(one: Evaluated, other: Evaluated, clusters: pd.Series | None, most: int = 50) -> Compared:
    """Two systems in full. Of queries that differ as much by the first metric (of hits and misses most do) those come
    first that differ more by the metric with the most shades."""
    table = all_pairs([one, other], clusters)
    by_metric = [one.per_query[name] - other.per_query[name] for name in table["metric"]]
    shades = [found.abs().round(_DECIMALS) for found in by_metric]
    finest = max(shades, key=lambda found: int(found.nunique()))
    names = most_different(by_metric[0], len(by_metric[0]))
    names.sort(key=lambda name: (-shades[0][name], -finest[name], name))
    return Compared(one, other, table, names[:most], by_metric[0])


def named_apart(results: Sequence[Evaluated]) -> list[str]:
    """The systems' names; of those that share one the later have a number."""
    found: list[str] = []
    for result in results:
        name, number = str(result.system["name"]), 2
        while name in found:
            name, number = f"{result.system['name']} ({number})", number + 1
        found.append(name)
    return found
