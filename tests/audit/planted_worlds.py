"""Planted worlds: pools whose truth is known, of queries of unequal difficulty, with a judge of known error."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from querytruth.audit.pair_audit import StratumCounts, split_by_judge
from querytruth.evaluation.statistics import IntervalEstimate

JUDGES = {"good": (0.85, 0.97), "weak": (0.6, 0.8), "biased": (0.95, 0.6), "adversarial": (0.05, 0.9)}
PREVALENCES = (0.02, 0.05, 0.1, 0.3)
QUERIES, PAIRS_OF_QUERY = 400, 50
WRONG, JUDGED, JUDGED_DRAWN = 133, 1332, 60


@dataclass(frozen=True, slots=True)
class PlantedWorld:
    """By query and pair: what is relevant, and what the judge says. Queries differ in their shares."""

    relevant: NDArray[np.bool_]
    label: NDArray[np.bool_]

    @property
    def total(self) -> int:
        """The number of relevant pairs."""
        return int(self.relevant.sum())


def plant_world(prevalence: float, judge: str, rng: np.random.Generator) -> PlantedWorld:
    """Shares of relevant pairs vary between queries as a beta distribution; so do the errors of the judge."""
    share = rng.beta(prevalence * 4, (1 - prevalence) * 4, (QUERIES, 1))
    relevant = rng.random((QUERIES, PAIRS_OF_QUERY)) < share
    sensitivity, specificity = (np.clip(rate + rng.normal(0, 0.05, (QUERIES, 1)), 0, 1) for rate in JUDGES[judge])
    says = np.where(relevant, sensitivity, 1 - specificity)
    return PlantedWorld(relevant, rng.random(relevant.shape) < says)


def draw_counts(relevant: NDArray[np.bool_], drawn: int, samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """By sample the number of relevant ones among `drawn` pairs that are drawn without replacement."""
    flat = relevant.ravel()
    return rng.hypergeometric(int(flat.sum()), int((~flat).sum()), drawn, samples)


def sample_with_judge(world: PlantedWorld, drawn: int, samples: int, rng: np.random.Generator) -> StratumCounts:
    """The pool split by the judge's labels, sampled many times; the axis of strata is the last."""
    parts = [world.relevant[world.label], world.relevant[~world.label]]
    sizes = [part.size for part in parts]
    split = split_by_judge(sizes, [0.5, 0.02], drawn)
    counts = [draw_counts(part, int(count), samples, rng) for part, count in zip(parts, split, strict=True)]
    return StratumCounts(np.array(sizes), split, np.stack(counts, axis=-1))


def sample_alone(world: PlantedWorld, drawn: int, samples: int, rng: np.random.Generator) -> StratumCounts:
    """The pool as one stratum."""
    counts = draw_counts(world.relevant, drawn, samples, rng)
    return StratumCounts(np.array([world.relevant.size]), np.array([drawn]), counts[:, None])


def sample_judged(samples: int, rng: np.random.Generator) -> StratumCounts:
    """Pairs that the set calls relevant, one in ten of them wrong."""
    counts = rng.hypergeometric(JUDGED - WRONG, WRONG, JUDGED_DRAWN, samples)
    return StratumCounts(np.array([JUDGED]), np.array([JUDGED_DRAWN]), counts[:, None])


def coverage(estimate: IntervalEstimate, truth: float) -> float:
    """The share of intervals that hold the truth."""
    return float(((estimate.low <= truth) & (truth <= estimate.high)).mean())


def mean_width(estimate: IntervalEstimate) -> float:
    """The mean width of intervals."""
    return float(np.mean(estimate.high - estimate.low))
