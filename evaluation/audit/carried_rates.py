"""Carries the error rates of a judge, measured on one set, over to another that no person judged.

Rogan and Gladen (American Journal of Epidemiology 107, 1978) find the share t of relevant pairs from the share f that
the judge calls relevant: f = t · sensitivity + (1 - t) · (1 - specificity).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.audit.intervals import IntervalEstimate, divide_estimates, estimate_proportion, sum_estimates
from evaluation.audit.stratified import StratumCounts, estimate_total, share_of_ratio

_STEPS = 4000  # shares that are tried: the ends are exact to 1 / _STEPS
_Z = 1.959964  # of a 95% interval


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
