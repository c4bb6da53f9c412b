"""How a judge agrees with people, from a sample with known chances of being drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from builders.array_types import FloatArray
from evaluation.audit.intervals import IntervalEstimate, estimate_proportion

_MAX_GRADE = 127


def weighted_kappa(people: Sequence[int], judge: Sequence[int], weights: Sequence[float]) -> float | None:
    """Returns Cohen's kappa of two lists of categories with a weight per item; None where it is not defined."""
    table = _cross(people, judge, weights)
    expected = float((table.sum(axis=0) * table.sum(axis=1)).sum())
    return None if expected >= 1 - 1e-12 else float((np.trace(table) - expected) / (1 - expected))


def describe_agreement(people: Sequence[int], judge: Sequence[int], weights: Sequence[float]) -> dict[str, Any]:
    """Returns the agreement of the judge's grades with people's, each pair weighted by 1 / its chance of being drawn:
    kappa of grades and of relevant or not, beside the shares that each calls relevant; sensitivity and specificity with
    intervals; how often (of drawn pairs) each grade of people met each grade of the judge."""
    person, model, weight = (np.asarray(given) for given in (people, judge, weights))
    says, is_relevant = model > 0, person > 0
    confusion: dict[str, dict[str, int]] = {}
    for one, other in zip(person.tolist(), model.tolist(), strict=True):
        row = confusion.setdefault(str(one), {})
        row[str(other)] = row.get(str(other), 0) + 1
    return {
        "pairs": len(person),
        "kappa": weighted_kappa(people, judge, weights),
        "kappa_relevant": weighted_kappa(is_relevant.astype(int).tolist(), says.astype(int).tolist(), weights),
        "relevant_by_people": float(np.average(is_relevant, weights=weight)),
        "relevant_by_judge": float(np.average(says, weights=weight)),
        "sensitivity": _describe(_rate(says[is_relevant], weight[is_relevant])),
        "specificity": _describe(_rate(~says[~is_relevant], weight[~is_relevant])),
        "confusion": {grade: dict(sorted(row.items())) for grade, row in sorted(confusion.items())},
    }


def _cross(people: Sequence[int], judge: Sequence[int], weights: Sequence[float]) -> FloatArray:
    table = np.zeros((_MAX_GRADE + 1, _MAX_GRADE + 1))
    np.add.at(table, (np.asarray(people, dtype=int), np.asarray(judge, dtype=int)), np.asarray(weights, dtype=float))
    total: FloatArray = table / max(table.sum(), 1e-300)
    return total


def _rate(hits: Any, weight: Any) -> IntervalEstimate:
    """A weighted share with Jeffreys' interval of the effective number of draws, (sum w)^2 / sum w^2 (Kish 1965)."""
    if not len(hits):
        return estimate_proportion(0, 0, np.inf)
    draws = weight.sum() ** 2 / (weight**2).sum()
    return estimate_proportion(np.average(hits, weights=weight) * draws, draws, np.inf)


def _describe(estimate: IntervalEstimate) -> dict[str, float]:
    return {end: float(getattr(estimate, end)) for end in ("value", "low", "high")}
