"""Whether two versions or sizes of a set order systems alike, and how many systems each of them distinguishes."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from evaluation.comparison import compare_systems, kendall_tau_b

_DISTINGUISHED = ["told_apart_one", "told_apart_other", "told_apart_swapped"]
STABILITY_COLUMNS = ["metric", "systems", "correlation", "pairs", *_DISTINGUISHED]
_LEVEL = 0.05
ScoresBySystem = Mapping[str, pd.DataFrame]


def measure_stability(
    first_set: ScoresBySystem,
    second_set: ScoresBySystem,
    metrics: Sequence[str],
    *,
    clusters: tuple[Any, Any] = (None, None),
) -> pd.DataFrame:
    """Returns a row per metric (STABILITY_COLUMNS) for the systems of both sets, given as figures per query by name.

    `correlation`: Kendall's tau-b of the two orders; `told_apart_…`: how many pairs differ on that set (paired
    permutation test, Holm over the pairs, 5%), and how many do on both in opposite directions (`swapped`)."""
    names = sorted(set(first_set) & set(second_set))
    signs = []
    for systems, shared in zip((first_set, second_set), clusters, strict=True):
        compared = compare_systems({name: systems[name] for name in names}, metrics, clusters=shared)
        # 1 where the first system is better, -1 where the other is, 0 where neither is.
        verdicts = np.where(compared["p_holm"] <= _LEVEL, np.sign(compared["difference"]), 0).astype(int)
        signs.append(dict(zip(compared[["metric", "one", "other"]].itertuples(index=False), verdicts, strict=True)))
    rows = []
    for metric in metrics:
        means = [{name: float(systems[name][metric].mean()) for name in names} for systems in (first_set, second_set)]
        pairs = combinations(names, 2)
        verdicts = np.array([[sign[metric, *pair] for sign in signs] for pair in pairs]).reshape(-1, 2)
        distinguished = (verdicts != 0).sum(axis=0).tolist()
        swapped = int((verdicts[:, 0] * verdicts[:, 1] < 0).sum())
        rows.append((metric, len(names), kendall_tau_b(*means), len(verdicts), *distinguished, swapped))
    return pd.DataFrame(rows, columns=STABILITY_COLUMNS)
