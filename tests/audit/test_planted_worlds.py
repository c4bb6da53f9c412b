"""Whether 95% intervals hold the truth 95 times in 100, and how wide they are, in worlds whose truth is known."""

import numpy as np
import pytest

from querytruth.audit.pair_audit import estimate_total, estimate_truth
from tests.audit.planted_worlds import (
    JUDGED,
    JUDGES,
    PREVALENCES,
    WRONG,
    coverage,
    mean_width,
    plant_world,
    sample_alone,
    sample_judged,
    sample_with_judge,
)

# A quick look at each kind of world with wide bounds, and many samples with the bounds that are promised.
SIZES = [
    pytest.param(4, 250, 0.02, id="quick"),
    pytest.param(40, 1000, 0.0, id="all", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("prevalence", PREVALENCES)
@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(("worlds", "samples", "slack"), SIZES)
def test_intervals_hold_the_truth_of_planted_worlds(
    judge: str, prevalence: float, worlds: int, samples: int, slack: float
) -> None:
    rng = np.random.default_rng(7)
    covered: dict[str, list[float]] = {}
    widths = []
    for _ in range(worlds):
        world = plant_world(prevalence, judge, rng)
        total, right = world.total, JUDGED - WRONG
        counts, alone = sample_with_judge(world, 200, samples, rng), sample_alone(world, 200, samples, rng)
        truth = estimate_truth(sample_judged(samples, rng), counts)
        for name, estimate, planted in (
            ("alone", estimate_total(alone), total),
            ("missing", truth["missing"], total),
            ("wrong_share", truth["wrong_share"], WRONG / JUDGED),
            ("missing_share", truth["missing_share"], total / (total + right)),
            ("multiplier", truth["multiplier"], (total + right) / JUDGED),
        ):
            covered.setdefault(name, []).append(coverage(estimate, planted))
        widths.append(mean_width(truth["missing"]) / mean_width(estimate_total(alone)))
    means = {name: float(np.mean(values)) for name, values in covered.items()}
    assert all(0.93 - slack <= value <= 0.97 + slack for value in means.values()), means
    assert np.mean(widths) <= 1.05 + slack, widths
    if (judge, prevalence) == ("good", 0.02):
        assert np.mean(widths) <= 0.8, widths
