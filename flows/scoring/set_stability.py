"""Whether two sets order systems alike, by the results that lie beside both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from backends.sets import set_files
from builders.errors import UserError
from evaluation.evaluated import TEXT_TO_IMAGE
from evaluation.evaluating import aligned
from evaluation.metric_names import parse
from evaluation.stability import stability
from flows.scoring.judged_sets import clusters_of
from flows.scoring_run import results_beside

Means = dict[str, dict[str, list[float]]]


def stability_of(
    one: Path, other: Path, metrics: Sequence[str] | None = None, direction: str = TEXT_TO_IMAGE
) -> tuple[pd.DataFrame, Means]:
    """evaluation.stability's table for two versions of sets, and by system and metric its mean on each. Systems go by
    the names of their results' folders. Without `metrics` those count that all results have."""
    results = [results_beside(path, direction) for path in (one, other)]
    names = sorted(results[0].keys() & results[1].keys())
    if len(names) < 2:
        sets = f"{one.parent.name}/{one.name} and {other.parent.name}/{other.name}"
        reason = f"have {len(names)} evaluated systems in common, at least two are needed"
        raise UserError("stability", sets, reason, "evaluate the same systems on both")
    figures = [{name: found[name][1] for name in names} for found in results]
    told = [[figure["metric"] for figure in found[name][0]["figures"]] for found in results for name in names]
    known = [metric for metric in told[0] if all(metric in mine for mine in told)]
    chosen = known if metrics is None else [str(parse(name)) for name in metrics]
    if lacking := [name for name in chosen if name not in known]:
        raise UserError("stability", lacking[0], "is not in all results", f"choose from {', '.join(known) or 'none'}")
    clusters = _clusters(one, figures[0], direction), _clusters(other, figures[1], direction)
    table = stability(figures[0], figures[1], chosen, clusters=clusters)
    means = {name: {m: [float(mine[name][m].mean()) for mine in figures] for m in chosen} for name in names}
    return table, means


def _clusters(path: Path, figures: dict[str, pd.DataFrame], direction: str) -> Any:
    queries = set_files.read(path, ("queries",)).tables.queries if direction == TEXT_TO_IMAGE else None
    return aligned(clusters_of(queries), next(iter(figures.values())).index)
