"""Whether 95% intervals hold the truth 95 times in 100, and how wide they are, in worlds whose truth is known."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from querytruth.audit.pair_audit import estimate_total, estimate_truth
from querytruth.audit.query_audit import estimate_mean, estimate_ratio, estimate_share
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
            ("missing", truth.missing, total),
            ("wrong_share", truth.wrong_share, WRONG / JUDGED),
            ("missing_share", truth.missing_share, total / (total + right)),
            ("multiplier", truth.multiplier, (total + right) / JUDGED),
        ):
            covered.setdefault(name, []).append(coverage(estimate, planted))
        widths.append(mean_width(truth.missing) / mean_width(estimate_total(alone)))
    means = {name: float(np.mean(values)) for name, values in covered.items()}
    assert all(0.93 - slack <= value <= 0.97 + slack for value in means.values()), means
    assert np.mean(widths) <= 1.05 + slack, widths
    if (judge, prevalence) == ("good", 0.02):
        assert np.mean(widths) <= 0.8, widths


@pytest.mark.parametrize(("samples", "slack"), [(1000, 0.005), pytest.param(20_000, 0, marks=pytest.mark.slow)])
def test_a_hundred_whole_queries_hold_eccvs_figures(shared: Callable[[str], Path], samples: int, slack: float) -> None:
    positives = json.loads(shared("multi_positive_gt/eccv_caption_to_image.json").read_text())
    relevant = np.array([len(set(images)) for images in positives.values()], dtype=np.float64)
    assert (len(relevant), relevant.sum()) == (1332, 11_279)
    rng = np.random.default_rng(5)
    drawn = np.stack([rng.choice(len(relevant), 100, replace=False) for _ in range(samples)])
    found, ones = relevant[drawn], np.ones(drawn.shape)
    multiplier, share = estimate_ratio(found, ones, 1332, 60), estimate_share(found - 1, found, 1332)
    assert 0.94 - slack <= coverage(multiplier, 11_279 / 1332) <= 0.98 + slack
    assert 0.94 - slack <= coverage(share, 9947 / 11_279) <= 0.98 + slack
    assert (share.high <= 1).all() and mean_width(multiplier) < 1.4


def test_a_mean_with_a_known_figure_is_narrower_and_still_holds() -> None:
    rng = np.random.default_rng(3)
    known = rng.random(1000)
    judged = np.clip(0.3 + 0.6 * known + rng.normal(0, 0.1, 1000), 0, 1)
    drawn = np.stack([rng.choice(1000, 60, replace=False) for _ in range(2000)])
    helped = estimate_mean(judged[drawn], known[drawn], known.mean(), 1000)
    alone = estimate_mean(judged[drawn], np.zeros(drawn.shape), 0.0, 1000)
    assert 0.94 <= coverage(helped, judged.mean()) <= 0.985 and 0.94 <= coverage(alone, judged.mean()) <= 0.985
    assert mean_width(helped) < 0.6 * mean_width(alone)


@pytest.mark.parametrize("share", [0.05, 0.97, *(pytest.param(s, marks=pytest.mark.thorough) for s in (0.1, 0.5))])
def test_means_of_zeros_and_ones_hold_near_the_ends(share: float) -> None:
    """As hit@k, of which the set's own judgments tell something."""
    rng = np.random.default_rng(4)
    judged = rng.random(1300) < share
    known = judged & (rng.random(1300) < 0.5)
    drawn = np.stack([rng.choice(1300, 100, replace=False) for _ in range(2000)])
    found = estimate_mean(judged[drawn].astype(float), known[drawn].astype(float), float(known.mean()), 1300)
    assert coverage(found, float(judged.mean())) >= 0.95  # of a few expected positives an interval holds too often
    assert (found.high > found.low).all() and (found.high <= 1).all() and (found.low >= 0).all()
