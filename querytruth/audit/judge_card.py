"""How a judge agrees with people, from a sample with known chances of being drawn.

The cards of judges, beside the versions of a set: <set>/judges/<model>.json.

Carries the error rates of a judge, measured on one set, over to another that no person judged.

Rogan and Gladen (American Journal of Epidemiology 107, 1978) find the share t of relevant pairs from the share f that
the judge calls relevant: f = t · sensitivity + (1 - t) · (1 - specificity).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from querytruth.array_types import FloatArray
from querytruth.audit.allocation import StratumCounts, estimate_total, share_of_ratio
from querytruth.backends.files.durable_files import make_durable_folder, write_atomically
from querytruth.backends.files.safe_paths import contained_path, read_regular
from querytruth.errors import UserError, translate_read_errors, translate_write_errors
from querytruth.evaluation.statistics import IntervalEstimate, divide_estimates, estimate_proportion, sum_estimates
from querytruth.sets.benchmark_set import canonical_json

_MAX_GRADE = 127
_FOLDER = "judges"
_STEPS = 4000  # shares that are tried: the ends are exact to 1 / _STEPS
_Z = 1.959964  # of a 95% interval


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


def write_judge_card(set_folder: Path, card: dict[str, Any]) -> Path:
    """Replaces the card of a model and returns its file. Raises UserError where it cannot be written."""
    path = _locate(set_folder, card["name"])
    with translate_write_errors("write judge card", path):
        make_durable_folder(path.parent)
        write_atomically(path, canonical_json(card))
    return path


def read_judge_card(set_folder: Path, judge: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the card of a judge (its name and digest), None without one. Raises UserError for a stale card: of
    another revision, other parameters, prompts, grades or sizes of images."""
    path = _locate(set_folder, judge["name"])
    if not path.is_file():
        return None
    with translate_read_errors("read judge card", path, "querytruth judge check SET", also=(ValueError,)):
        card: dict[str, Any] = json.loads(read_regular(path))
    if card.get("digest") != judge["digest"]:
        reason = "is stale: the model's revision or parameters, the prompt or the size of the images is another by now"
        raise UserError(
            "read judge card", path, reason, f"querytruth judge check {set_folder.name}, or remove the card"
        )
    return card


def _locate(set_folder: Path, name: str) -> Path:
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[:80] or "judge"
    return contained_path(set_folder, f"{_FOLDER}/{slug}.json", "read judge card")


@dataclass(frozen=True, slots=True)
class JudgeRates:
    """`sensitivity`: of relevant pairs, the share that the judge calls relevant; `false_rate`: of the others."""

    sensitivity: IntervalEstimate
    false_rate: IntervalEstimate


def estimate_rates(called: StratumCounts, others: StratumCounts) -> JudgeRates:
    """Returns the rates from the strata of pairs that the judge calls relevant, and of those that it does not. People
    called at least one drawn pair relevant, and one not."""
    relevant = [estimate_total(part) for part in (called, others)]
    wrong = [
        IntervalEstimate(size - total.value, max(size - total.high, 0.0), size - total.low)
        for total, size in zip(relevant, (np.sum(called.size), np.sum(others.size)), strict=True)
    ]
    return JudgeRates(_share_of_first(*relevant), _share_of_first(*wrong))


def carry_rates(rates: JudgeRates, called: int, pairs: int) -> IntervalEstimate:
    """Returns the share of relevant pairs among `pairs`, of which the judge calls so many relevant.

    The interval has every share at which the judge would call as many relevant: the errors of both rates and those that
    the judge makes by chance on these pairs are joined (MOVER), for each share anew, so that a judge that hardly
    tells relevant pairs from others gives an interval from 0 to 1 and not a wrong one."""
    share = np.linspace(0, 1, _STEPS + 1)
    parts = [rates.sensitivity.scale(share), rates.false_rate.scale(1 - share)]
    chance = sum(
        weight * rate.value * (1 - rate.value)
        for weight, rate in ((share, rates.sensitivity), (1 - share, rates.false_rate))
    )
    noise = _Z * np.sqrt(chance / pairs)
    parts.append(IntervalEstimate(np.zeros_like(share), -noise, noise))
    expected = sum_estimates(
        IntervalEstimate(
            *(np.stack([getattr(part, end) for part in parts], axis=-1) for end in ("value", "low", "high"))
        )
    )
    seen = called / pairs
    fits = share[(expected.low <= seen) & (seen <= expected.high)]
    skill = float(rates.sensitivity.value - rates.false_rate.value)
    value = float(np.clip((seen - float(rates.false_rate.value)) / skill, 0, 1)) if skill > 0 else 0.5
    return IntervalEstimate(value, min([value, *fits[:1]]), max([value, *fits[-1:]]))


def find_equal_draw(share: IntervalEstimate, pairs: int) -> int:
    """Returns how many of the pairs people would have to judge, drawn at random, for an interval as narrow."""
    drawn = np.arange(1, pairs + 1)
    alone = estimate_proportion(share.value * drawn, drawn, pairs)
    return int(np.argmax(alone.high - alone.low <= share.high - share.low)) + 1


def _share_of_first(first: IntervalEstimate, second: IntervalEstimate) -> IntervalEstimate:
    """The share of one estimated total in the sum of both."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = divide_estimates(second, first)
        ends = [float(share_of_ratio(end)) for end in (ratio.value, ratio.low, ratio.high)]
    return IntervalEstimate(*ends).complement()
