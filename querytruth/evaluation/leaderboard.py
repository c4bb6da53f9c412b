"""Orders systems by a metric, with rank intervals that hold for all at once.

A system's rank is at least one more than the number of systems that are better by a test, and at most the number of
systems minus those that are worse. The test is that of `compare`, the t test of clusters. The tests of all pairs are
corrected together (Holm), so all intervals contain the true ranks in 95% of boards (as in Al Mohamad, Goeman and van
Zwet, "Simultaneous confidence intervals for ranks", 2022).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from querytruth.array_types import AnyArray, FloatArray
from querytruth.evaluation.statistics import CONFIDENCE_LEVEL, correct_holm, find_p_of_difference


@dataclass(frozen=True, slots=True)
class SystemRank:
    """A system's mean and the ends of its rank interval, 1 being the best."""

    name: str
    mean: float
    best_rank: int
    worst_rank: int


def rank_systems(
    figures: Mapping[str, FloatArray],
    *,
    clusters: AnyArray | None = None,
    bounds: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> tuple[list[SystemRank], list[list[str]]]:
    """Return systems by the mean of their figures on the same queries (queries,), the best first, those of equal mean
    in the order of their names; and the largest groups of neighbours without a significant difference. `bounds`: the
    least and greatest possible mean by system, where judgments are missing."""
    names = sorted(figures, key=lambda name: (-float(np.mean(figures[name])), name))
    is_better = _find_better([figures[name] for name in names], clusters)
    ends = np.array([bounds.get(name, (np.inf, -np.inf)) for name in names]).reshape(-1, 2)
    is_better &= ends[:, :1] >= ends[None, :, 1]
    count = len(names)
    ranks = [
        SystemRank(name, float(np.mean(figures[name])), 1 + int(is_better[:, n].sum()), count - int(is_better[n].sum()))
        for n, name in enumerate(names)
    ]
    return ranks, _find_groups(names, is_better)


def _find_better(values: list[FloatArray], clusters: AnyArray | None) -> NDArray[np.bool_]:
    """Return whether the row's system is better than the column's by the corrected tests."""
    is_better = np.zeros((len(values), len(values)), dtype=bool)
    pairs = list(combinations(range(len(values)), 2))
    if not pairs:
        return is_better
    p_values = correct_holm(
        np.array([find_p_of_difference(values[one], values[other], clusters=clusters) for one, other in pairs])
    )
    for (one, other), p in zip(pairs, p_values.tolist(), strict=True):
        if p <= 1 - CONFIDENCE_LEVEL:
            is_better[(one, other) if (values[one].mean() > values[other].mean()) else (other, one)] = True
    return is_better


def _find_groups(names: list[str], is_better: NDArray[np.bool_]) -> list[list[str]]:
    groups: list[tuple[int, int]] = []
    for start in range(len(names)):
        end = start + 1
        while end < len(names) and not (is_better[start:end, end] | is_better[end, start:end]).any():
            end += 1
        if not groups or end > groups[-1][1]:
            groups.append((start, end))
    return [names[start:end] for start, end in groups]
