"""Systems side by side on the same queries, and whether a set still tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from builders.array_types import FloatArray
from builders.errors import UserError
from evaluation.statistics import (
    ConfidenceInterval,
    bootstrap_interval,
    correct_holm,
    detectable_difference,
    permutation_test,
)

_EQUAL = 1e-9
_NEARLY_ALL = 0.9  # of the queries
_FEW = 30  # queries
COMPARISON_COLUMNS = [
    "metric",
    "one",
    "other",
    "difference",
    "low",
    "high",
    "p",
    "p_holm",
    "wins",
    "ties",
    "losses",
    "detectable",
]


@dataclass(frozen=True, slots=True)
class EvaluationWarning:
    """A reason to distrust a figure: a code, the metric ("" for all), and what to think of it."""

    code: str
    metric: str
    detail: str


def compare_systems(
    systems: Mapping[str, pd.DataFrame], metrics: Sequence[str], *, clusters: Any = None
) -> pd.DataFrame:
    """A row per metric and pair of systems, given as figures per query (columns: COLUMNS).

    `difference` is one's mean less the other's, `low` and `high` its 95% interval; wins are the queries on which one is
    better. `p_holm` is corrected for all pairs of the metric; `detectable` is the smallest difference that a test finds
    with a power of 80% where systems differ as unevenly as these two."""
    names = list(systems)
    for name in names[1:]:
        if not systems[name].index.equals(systems[names[0]].index):
            reason = f"has figures of other queries than {names[0]}"
            raise UserError("compare", name, reason, "evaluate both systems on the same set")
    rows = []
    for metric in metrics:
        pair_rows = [
            _pair(metric, one, other, (systems[one][metric] - systems[other][metric]).to_numpy(), clusters)
            for one, other in combinations(names, 2)
        ]
        corrected = correct_holm(np.array([row["p"] for row in pair_rows]))
        rows += [row | {"p_holm": float(p)} for row, p in zip(pair_rows, corrected, strict=True)]
    return pd.DataFrame(rows, columns=COMPARISON_COLUMNS)


def _pair(metric: str, one: str, other: str, differences: FloatArray, clusters: Any) -> dict[str, Any]:
    interval = bootstrap_interval(differences, clusters=clusters)
    return {
        "metric": metric,
        "one": one,
        "other": other,
        "difference": float(differences.mean()),
        "low": float(interval.low[0]),
        "high": float(interval.high[0]),
        "p": permutation_test(differences, np.zeros_like(differences), clusters=clusters),
        **count_wins_ties_losses(differences),
        "detectable": detectable_difference(differences, clusters=clusters),
    }


def count_wins_ties_losses(differences: FloatArray) -> dict[str, int]:
    """On how many queries the first of two systems is better, as good, worse."""
    wins, losses = int((differences > _EQUAL).sum()), int((differences < -_EQUAL).sum())
    return {"wins": wins, "ties": len(differences) - wins - losses, "losses": losses}


def find_most_different_queries(differences: pd.Series, count: int) -> list[str]:
    """The queries on which two systems differ most, either way; equal ones by id."""
    sizes = differences.abs().where(differences.abs() > _EQUAL).dropna().round(9)
    order = np.lexsort([sizes.index.to_numpy(dtype=str), -sizes.to_numpy()])
    return [str(name) for name in sizes.index[order[:count]]]


def find_warnings(
    per_query: pd.DataFrame,
    metrics: Sequence[str],
    chance: Mapping[str, float],
    interval: ConfidenceInterval,
    *,
    clusters: Any = None,
) -> list[EvaluationWarning]:
    """What speaks against trusting the figures: `few_queries`, or few of their `clusters` (a cluster per query);
    `saturated`, as nearly all queries have the highest value; `floor`, as nearly all have 0; `like_chance`, as the
    interval reaches down to what a random order gets (`chance`, by metric: evaluation.chance)."""
    warnings = []
    independent = len(per_query) if clusters is None else len(set(clusters))
    if independent < _FEW:
        groups = "" if independent == len(per_query) else f", of {independent} topics or pictures"
        warnings.append(
            EvaluationWarning("few_queries", "", f"{len(per_query)} queries{groups}: the intervals are rough")
        )
    for place, metric in enumerate(metrics):
        values = per_query[metric].to_numpy()
        best, worst = float((values > 1 - _EQUAL).mean()), float((values < _EQUAL).mean())
        if best >= _NEARLY_ALL:
            detail = f"{best:.0%} of the queries have the highest value: a better system would hardly show"
            warnings.append(EvaluationWarning("saturated", metric, detail))
        if worst >= _NEARLY_ALL:
            warnings.append(
                EvaluationWarning("floor", metric, f"{worst:.0%} of the queries have 0: systems are hardly told apart")
            )
        if metric in chance and interval.low[place] <= chance[metric] + _EQUAL:
            warnings.append(
                EvaluationWarning("like_chance", metric, f"a random order gets {chance[metric]:.4f} on average")
            )
    return warnings


def kendall_tau_b(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Kendall's tau-b of the systems' order by two sets of means (two versions or sizes of a set): 1 the same order, -1
    the reverse, NaN where one of them tells no systems apart. Only systems that both have count."""
    names = sorted(set(one) & set(other))
    signs = [np.array([_sign(means[a] - means[b]) for a, b in combinations(names, 2)]) for means in (one, other)]
    denominator = np.sqrt(float((signs[0] ** 2).sum()) * float((signs[1] ** 2).sum()))
    return float((signs[0] * signs[1]).sum() / denominator) if denominator else float("nan")


def _sign(difference: float) -> float:
    return 0.0 if abs(difference) < _EQUAL else float(np.sign(difference))
