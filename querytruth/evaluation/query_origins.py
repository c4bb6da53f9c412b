"""How far figures and the order of systems move between queries that people typed and queries that were made.

Made queries order systems much as typed ones do, but their figures are biased, and favour systems that are akin to what
made them (Rahmani et al., "Towards Understanding Bias in Synthetic Data for Evaluation", arXiv 2506.10301). A set with
both shows how far that holds for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import RowIndices
from querytruth.evaluation.comparison import EvaluationWarning, kendall_tau_b
from querytruth.evaluation.system_differences import CLEAN, LEAKED, compare_leaked, compare_leaked_of_systems

TYPED, MADE = "typed", "made"
TYPED_STYLE = "query"  # the style of queries that people typed into a search; captions, phrases and words were made
MOVE_COLUMNS = [
    *("system", "metric", "made", "typed", "queries_made", "queries_typed"),
    *("difference", "low", "high", "p_holm"),
]
_AS_SIDES = {MADE: LEAKED, TYPED: CLEAN}
_RENAMED = {"leaked": "made", "clean": "typed", "queries_leaked": "queries_made", "queries_clean": "queries_typed"}
_RESAMPLES = 999


def find_origins(queries: pd.DataFrame | None) -> pd.Series | None:
    """Returns typed or made by query id; None where all queries are of one kind."""
    if queries is None or "style" not in queries:
        return None
    origins = queries["style"].eq(TYPED_STYLE).map({True: TYPED, False: MADE})
    origins.index = pd.Index(queries["query_id"])
    return origins if origins.nunique() == 2 else None


def measure_moves(
    systems: Mapping[str, pd.DataFrame], origins: pd.Series, metrics: Sequence[str], *, clusters: Any = None
) -> pd.DataFrame:
    """Returns a row (MOVE_COLUMNS) per system and pair of systems (`one less other`) and metric: the mean of made
    queries less that of the typed ones, with its 95% interval, and Holm's p-value of a permutation of the two. Of a
    pair that is how far their difference moves. No row with fewer than five queries of a kind."""
    found = compare_leaked_of_systems(systems, origins.map(_AS_SIDES), metrics, clusters=clusters)
    return found.rename(columns=_RENAMED)[MOVE_COLUMNS]


def measure_order(
    systems: Mapping[str, pd.DataFrame], origins: pd.Series, metric: str, *, clusters: Any = None
) -> dict[str, Any] | None:
    """Returns Kendall's tau-b of the orders of the systems on the made and on the typed queries, with its 95% interval
    by resampling the clusters of both (percentiles), and which pairs change places in the means. None for fewer than
    two systems or five queries of a kind, and where all systems are alike."""
    index = next(iter(systems.values())).index
    sides = origins.reindex(index).to_numpy()
    parts = [np.flatnonzero(sides == side) for side in (MADE, TYPED)]
    if len(systems) < 2 or min(map(len, parts)) < 5:
        return None
    figures = np.stack([table[metric].to_numpy(np.float64) for table in systems.values()])
    units = np.arange(len(index)) if clusters is None else pd.factorize(np.asarray(clusters, dtype=object))[0]
    rng = np.random.default_rng(0)
    taus = [_tau(figures, [_resample(part, units, rng) for part in parts]) for _ in range(_RESAMPLES)]
    correlation = _tau(figures, parts)
    if np.isnan(correlation):
        return None  # all means of a kind are equal: there is no order
    low, high = np.nanpercentile(taus, [2.5, 97.5]).tolist()
    names, means = list(systems), [figures[:, part].mean(axis=1) for part in parts]
    swapped = [
        [names[one], names[other]]
        for one in range(len(names))
        for other in range(one + 1, len(names))
        if (means[0][one] - means[0][other]) * (means[1][one] - means[1][other]) < 0
    ]
    return {"correlation": correlation, "low": low, "high": high, "swapped": swapped}


def _tau(figures: Any, parts: Sequence[RowIndices]) -> float:
    means = [figures[:, part].mean(axis=1).tolist() for part in parts]
    made, typed = ({str(n): mean for n, mean in enumerate(of_side)} for of_side in means)
    return kendall_tau_b(made, typed)


def _resample(part: RowIndices, units: RowIndices, rng: np.random.Generator) -> RowIndices:
    """Returns the queries of as many of the part's clusters, drawn with replacement."""
    of_part = units[part]
    order = np.argsort(of_part, kind="stable")
    members = np.split(part[order], np.flatnonzero(np.diff(of_part[order])) + 1)
    return np.concatenate([members[n] for n in rng.integers(0, len(members), len(members))])


def find_origin_warnings(
    per_query: pd.DataFrame, queries: pd.DataFrame | None, metrics: Sequence[str], *, clusters: Any = None
) -> list[EvaluationWarning]:
    """Returns a warning `made_queries` for each metric that made queries move by more than chance."""
    if (origins := find_origins(queries)) is None:
        return []
    rows = compare_leaked(per_query, origins.map(_AS_SIDES), metrics, clusters=clusters)
    return [
        EvaluationWarning(
            "made_queries",
            str(row.metric),
            f"{row.leaked:.4f} on the {row.queries_leaked:,} made queries, {row.clean:.4f} on the "
            f"{row.queries_clean:,} typed ones: {row.difference:+.4f}, {row.low:+.4f} to {row.high:+.4f}",
        )
        for row in rows[rows["p_holm"] <= 0.05].itertuples()
    ]
