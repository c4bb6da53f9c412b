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


def draw_roc(people: Sequence[int], judge: Sequence[int], weights: Sequence[float]) -> dict[str, Any]:
    """Returns by cut of the judge's grades the rates of relevant and of other pairs with at least this grade, and the
    area under the curve, None where people called all or none relevant."""
    model, weight, relevant = np.asarray(judge), np.asarray(weights, dtype=np.float64), np.asarray(people) > 0
    if relevant.all() or not relevant.any():
        return {"points": [], "area": None}
    cuts = [int(cut) for cut in sorted(set(judge), reverse=True)]
    rates = [
        [float(np.average(model[side] >= cut, weights=weight[side])) for side in (relevant, ~relevant)] for cut in cuts
    ]
    curve = np.array([[0.0, 0.0], *rates])
    area = float(np.trapezoid(curve[:, 0], curve[:, 1]))
    points = [{"grade": cut, "relevant": hit, "others": miss} for cut, (hit, miss) in zip(cuts, rates, strict=True)]
    return {"points": points, "area": area}


def estimate_precisions(
    people: Sequence[int], judge: Sequence[int], weights: Sequence[float]
) -> dict[int, IntervalEstimate]:
    """Returns by grade of the judge, the highest first, the share of its pairs that people call relevant."""
    model, weight, relevant = np.asarray(judge), np.asarray(weights, dtype=np.float64), np.asarray(people) > 0
    grades = sorted({int(grade) for grade in judge}, reverse=True)
    return {grade: _rate(relevant[model == grade], weight[model == grade]) for grade in grades}


def describe_probe(people: Sequence[int], before: Sequence[int], after: Sequence[int]) -> dict[str, Any]:
    """Returns what a probe changed, on pairs that people graded: the share of grades that stayed, the shares called
    relevant, and kappa of relevant or not with people, before and after."""
    ones = [1.0] * len(people)
    sides: dict[str, Any] = {}
    for name, grades in (("before", before), ("after", after)):
        sides[f"relevant_{name}"] = float(np.mean([grade > 0 for grade in grades])) if grades else None
        sides[f"kappa_{name}"] = (
            weighted_kappa([int(grade > 0) for grade in people], [int(grade > 0) for grade in grades], ones)
            if grades
            else None
        )
    same = float(np.mean([one == other for one, other in zip(before, after, strict=True)])) if before else None
    return {"pairs": len(before), "same": same, **sides}


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
