"""Whether a judge's rates, measured in one planted world, bound what another lacks."""

import numpy as np
import pytest

from querytruth.audit.allocation import StratumCounts
from querytruth.audit.judge_card import JudgeRates, carry_rates, estimate_rates, find_equal_draw
from querytruth.evaluation.statistics import IntervalEstimate
from tests.audit.planted_worlds import JUDGES, plant_world, sample_with_judge


def exact(rate: float) -> IntervalEstimate:
    return IntervalEstimate(rate, rate, rate)


def test_with_known_rates_the_estimate_is_rogan_and_gladens() -> None:
    share = carry_rates(JudgeRates(exact(0.85), exact(0.03)), called=1_120, pairs=10_000)
    assert share.value == pytest.approx((0.112 - 0.03) / (0.85 - 0.03)) and share.value == pytest.approx(0.1)
    # The judge's own chance: 1.96 * sqrt((0.1 * 0.85 * 0.15 + 0.9 * 0.03 * 0.97) / 10,000) / 0.82 = 0.0047.
    assert share.low == pytest.approx(0.0953, abs=5e-4) and share.high == pytest.approx(0.1047, abs=5e-4)
    # n judgments of 10,000: 1.96 * sqrt(0.09 / n * (1 - n / 10,000)) = 0.0047 at n = 6,100.
    assert 5_700 < find_equal_draw(share, 10_000) < 6_700


def test_a_judge_that_tells_nothing_bounds_nothing() -> None:
    share = carry_rates(JudgeRates(exact(0.3), exact(0.3)), called=3_000, pairs=10_000)
    assert (share.low, share.high) == (0, 1)


def test_rates_are_those_of_the_drawn_pairs() -> None:
    called = StratumCounts(np.array([100]), np.array([100]), np.array([60]))
    others = StratumCounts(np.array([900]), np.array([90]), np.array([2]))
    rates = estimate_rates(called, others)
    assert rates.sensitivity.value == pytest.approx(60 / (60 + 20)) and rates.sensitivity.low < 0.75
    assert rates.false_rate.value == pytest.approx(40 / (40 + 880))


@pytest.mark.parametrize("judge", [one for one in JUDGES if one != "adversarial"])
@pytest.mark.parametrize(("measured", "carried"), [(0.1, 0.1), (0.3, 0.05), (0.1, 0.02), (0.3, 0.3)])
@pytest.mark.parametrize(
    ("worlds", "slack"),
    [pytest.param(40, 0.05, marks=pytest.mark.thorough), pytest.param(400, 0.005, marks=pytest.mark.slow)],
)
def test_intervals_hold_the_truth_of_another_world(
    judge: str, measured: float, carried: float, worlds: int, slack: float
) -> None:
    """At least 93 in 100; above 97 where both worlds are alike and the judge is weak, since the errors of the two rates
    are joined as if they were independent."""
    rng = np.random.default_rng(11)
    held = []
    for _ in range(worlds):
        first, second = plant_world(measured, judge, rng), plant_world(carried, judge, rng)
        drawn = sample_with_judge(first, 200, 3, rng)
        for relevant in drawn.relevant:
            counts = StratumCounts(drawn.size, drawn.drawn, relevant)
            rates = estimate_rates(counts.pick([0]), counts.pick([1]))
            share = carry_rates(rates, int(second.label.sum()), second.label.size)
            held.append(share.low <= second.relevant.mean() <= share.high)
    assert np.mean(held) >= 0.93 - slack, np.mean(held)
