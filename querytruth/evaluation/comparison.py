"""Comparison of systems on the same queries, and warnings: figures that show little, words that a system ignores.

A system takes a shortcut where it answers a question of a family as if its number, size, place, absence or attribute
were not there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import AnyArray, FloatArray
from querytruth.errors import UserError
from querytruth.evaluation import statistics
from querytruth.evaluation.ground_truth import find_positions
from querytruth.evaluation.ranking import RankedRun, find_grades

_EQUAL = 1e-9
_NEARLY_ALL = 0.9  # of the queries
_COUNTS = ["wins", "ties", "losses"]
COMPARISON_COLUMNS = ["metric", "one", "other", "difference", "low", "high", "p", "p_holm", *_COUNTS, "detectable"]
SHORTCUT_DEPTH = 10
SHORTCUT_COLUMNS = [f"shortcut@{SHORTCUT_DEPTH}", f"kept@{SHORTCUT_DEPTH}"]
_MOST = 0.5  # of the twin's explicit negatives; and of the questions of a family
_DROPPED = {
    "count": "the number",
    "size": "the size",
    "spatial": "the place",
    "negation": "the absence",
    "attribute": "the attribute",
}


@dataclass(frozen=True, slots=True)
class EvaluationWarning:
    """A reason to distrust a figure: a code, the metric ("" for all), and an explanation."""

    code: str
    metric: str
    detail: str


def compare_systems(
    systems: Mapping[str, pd.DataFrame], metrics: Sequence[str], *, clusters: AnyArray | None = None
) -> pd.DataFrame:
    """Return a row per metric and pair of systems (COMPARISON_COLUMNS), given as figures per query.

    `difference` is the mean of `one` less that of `other`, `low` and `high` its 95% interval; wins are the queries on
    which `one` is better. `p_holm` is corrected for all pairs of the metric; `detectable` is the smallest difference
    that a test finds with a power of 80%. Raises UserError where the queries of the systems differ."""
    names = list(systems)
    for name in names[1:]:
        if not systems[name].index.equals(systems[names[0]].index):
            reason = f"has figures for other queries than {names[0]}"
            raise UserError("compare", name, reason, "evaluate both systems on the same set")
    rows = []
    for metric in metrics:
        pair_rows = [
            _pair(metric, one, other, (systems[one][metric] - systems[other][metric]).to_numpy(), clusters)
            for one, other in combinations(names, 2)
        ]
        corrected = statistics.correct_holm(np.array([row["p"] for row in pair_rows]))
        rows += [row | {"p_holm": float(p)} for row, p in zip(pair_rows, corrected, strict=True)]
    return pd.DataFrame(rows, columns=COMPARISON_COLUMNS)


def _pair(metric: str, one: str, other: str, differences: FloatArray, clusters: AnyArray | None) -> dict[str, Any]:
    interval = statistics.estimate_interval(differences, clusters=clusters, ends=(-1.0, 1.0))
    return {
        "metric": metric,
        "one": one,
        "other": other,
        "difference": float(differences.mean()),
        "low": float(interval.low[0]),
        "high": float(interval.high[0]),
        "p": statistics.find_p_of_difference(differences, np.zeros_like(differences), clusters=clusters),
        **count_wins_ties_losses(differences),
        "detectable": statistics.detectable_difference(differences, clusters=clusters),
    }


def count_wins_ties_losses(differences: FloatArray) -> dict[str, int]:
    """Return on how many queries the first of two systems is better, equal and worse."""
    wins, losses = int((differences > _EQUAL).sum()), int((differences < -_EQUAL).sum())
    return {"wins": wins, "ties": len(differences) - wins - losses, "losses": losses}


def find_most_different_queries(differences: pd.Series, count: int) -> list[str]:
    """Return the queries with the largest differences of either sign; equal ones by id."""
    sizes = differences.abs().where(differences.abs() > _EQUAL).dropna().round(9)
    order = np.lexsort([sizes.index.to_numpy(dtype=str), -sizes.to_numpy()])
    return [str(name) for name in sizes.index[order[:count]]]


def find_warnings(
    per_query: pd.DataFrame,
    metrics: Sequence[str],
    chance: Mapping[str, float],
    interval: statistics.IntervalEstimate,
    *,
    clusters: AnyArray | None = None,
    waiting: int = 0,
) -> list[EvaluationWarning]:
    """Return the reasons to distrust the figures: `waiting`, so many further queries that nobody has judged;
    `few_queries`, or few `clusters` (one per query), or one that outweighs the others; `saturated`: nearly all queries
    have the highest value; `floor`: nearly all have 0; `like_chance`: the interval includes the mean of a random order
    (`chance`, by metric)."""
    warnings = []
    if waiting:
        every = len(per_query) + waiting
        detail = f"{waiting:,} of {every:,} queries wait for judgments: they count in the bounds, but not in the mean"
        warnings.append(EvaluationWarning("waiting", "", detail))
    sizes = np.ones(len(per_query)) if clusters is None else pd.Series(clusters).value_counts().to_numpy(np.float64)
    if len(per_query) < statistics.FEWEST_QUERIES or statistics.count_effective(sizes) < statistics.FEWEST_CLUSTERS:
        detail = f"only {len(per_query)} queries count: too few for a tight interval"
        if len(sizes) != len(per_query):
            detail = f"{len(sizes)} topics or images, not {len(per_query)} queries, count: too few for a tight interval"
        warnings.append(EvaluationWarning("few_queries", "", detail))
    for place, metric in enumerate(metrics):
        values = per_query[metric].to_numpy()
        every = len(values) + waiting
        best, worst = float((values > 1 - _EQUAL).sum() / every), float((values < _EQUAL).sum() / every)
        random = chance.get(metric, np.nan)
        saturation = f"{best:.0%} of the queries have the highest value: a better system can hardly be detected"
        findings = [
            ("saturated", best >= _NEARLY_ALL, saturation),
            ("floor", worst >= _NEARLY_ALL, f"{worst:.0%} of the queries have 0: systems can hardly be distinguished"),
            ("like_chance", interval.low[place] <= random + _EQUAL, f"a random order gets {random:.4f} on average"),
        ]
        warnings += [EvaluationWarning(code, metric, detail) for code, applies, detail in findings if applies]
    return warnings


def measure_shortcuts(ranked: RankedRun, queries: pd.DataFrame | None) -> pd.DataFrame:
    """Return by query_id, for each query whose twin (the same question without number, size, place, absence or
    attribute) has an explicit negative of the query among its first ten: whether both have the same images among the
    first ten, and the share of these explicit negatives that the query keeps."""
    if queries is None or "twin" not in queries:
        return pd.DataFrame(columns=SHORTCUT_COLUMNS, dtype="float64")
    row_by_id = {name: row for row, name in enumerate(ranked.truth.query_ids.to_pylist())}
    starts = np.searchsorted(ranked.query, np.arange(len(row_by_id) + 1))
    place_of_image = find_positions(ranked.truth.image_ids, ranked.image_ids).astype(np.int64)
    known = queries.dropna(subset="twin")
    found: dict[str, tuple[float, float]] = {}
    for query_id, twin in zip(known["query_id"], known["twin"], strict=True):
        row, twin_row = row_by_id.get(query_id), row_by_id.get(twin)
        if row is None or twin_row is None:
            continue
        own, others = _first(ranked, starts, row), _first(ranked, starts, twin_row)
        grades = find_grades(np.full(len(others), row, dtype=np.int64), place_of_image[others], ranked.truth)
        if len(wrong := others[grades == 0]):
            is_same = set(own.tolist()) == set(others.tolist())
            found[query_id] = float(is_same), float(np.isin(wrong, own).mean())
    table = pd.DataFrame.from_dict(found, orient="index", columns=SHORTCUT_COLUMNS, dtype="float64")
    return table.rename_axis("query_id").sort_index()


def _first(ranked: RankedRun, starts: Any, row: int) -> Any:
    """Return the codes of the first ten images of a query."""
    return ranked.image_code[starts[row] : min(starts[row + 1], starts[row] + SHORTCUT_DEPTH)]


def find_ignored_families(shortcuts: pd.DataFrame, queries: pd.DataFrame | None) -> list[EvaluationWarning]:
    """Return a warning per family that the system ignores: it keeps most of the twin's explicit negatives for more
    than half of the questions, with a confidence of 95% (Clopper and Pearson). Phrasings of a question count once."""
    if queries is None or not len(shortcuts):
        return []
    known = queries.set_index("query_id").reindex(shortcuts.index)
    question = [known["family"], known["labels"].map("&".join)]
    kept = shortcuts.groupby(question).mean()
    warnings = []
    for family, rows in kept.groupby(kept.index.get_level_values(0).str.split("/").str[0]):
        ignored = int((rows[SHORTCUT_COLUMNS[1]] > _MOST).sum())
        if 1 - statistics.bound_proportion(len(rows) - ignored, len(rows)) > _MOST:
            detail = (
                f"in {ignored:,} of {len(rows):,} questions most of the wrong images returned without "
                f"{_DROPPED.get(str(family), 'it')} remain, {rows[SHORTCUT_COLUMNS[0]].mean():.0%} of all in the "
                f"first {SHORTCUT_DEPTH} images"
            )
            warnings.append(EvaluationWarning("ignored_family", str(family), detail))
    return warnings
