"""Estimates from pairs that were drawn at random within strata: Horvitz and Thompson's totals with the intervals of
each stratum joined.

The pairs of a stratum are drawn one by one over all queries, so that their answers are independent given the set, also
where pairs of one query are alike. Where whole queries were drawn, use `clustered`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.audit.intervals import IntervalEstimate, divide_estimates, estimate_proportion, sum_estimates


@dataclass(frozen=True, slots=True)
class StratumCounts:
    """Counts by stratum (…, strata): the pairs in it, those that were drawn and answered, and the relevant ones of
    these."""

    size: Any
    drawn: Any
    relevant: Any

    def pick(self, chosen: Any) -> StratumCounts:
        """Returns the chosen strata alone."""
        return StratumCounts(*(np.asarray(part)[..., chosen] for part in (self.size, self.drawn, self.relevant)))


@dataclass(frozen=True, slots=True)
class TruthEstimates:
    """What an audit says of a set's judgments. `wrong_share`: of the pairs that the set calls relevant, those that are
    not; `missing`: the number of relevant pairs that it does not call relevant; `missing_share`: of all relevant pairs,
    these; `multiplier`: relevant pairs for each that the set calls relevant."""

    wrong_share: IntervalEstimate
    missing: IntervalEstimate
    missing_share: IntervalEstimate
    multiplier: IntervalEstimate


def estimate_total(counts: StratumCounts) -> IntervalEstimate:
    """Returns the number of relevant pairs in all strata."""
    sizes = np.asarray(counts.size, dtype=np.float64)
    shares = estimate_proportion(counts.relevant, counts.drawn, sizes)
    parts = IntervalEstimate(shares.value * sizes, shares.low * sizes, shares.high * sizes)
    return sum_estimates(parts).clip(0)


def estimate_truth(judged_relevant: StratumCounts, others: StratumCounts) -> TruthEstimates:
    """Returns the estimates of a set from the strata of the pairs that it calls relevant and from all others."""
    positives = np.asarray(judged_relevant.size, dtype=np.float64).sum(axis=-1)
    right, missing = estimate_total(judged_relevant), estimate_total(others)
    positives = np.where(positives > 0, positives, np.nan)
    ratio = divide_estimates(missing, right)
    both = [np.stack(ends, axis=-1) for ends in zip(_ends(right), _ends(missing), strict=True)]
    return TruthEstimates(
        wrong_share=right.scale(1 / positives).complement().clip(0, 1),
        missing=missing,
        missing_share=IntervalEstimate(*(share_of_ratio(end) for end in _ends(ratio))),
        multiplier=sum_estimates(IntervalEstimate(*both)).scale(1 / positives),
    )


def _ends(estimate: IntervalEstimate) -> tuple[Any, Any, Any]:
    return estimate.value, estimate.low, estimate.high


def share_of_ratio(ratio: Any) -> Any:
    """Returns r / (1 + r), also of infinity."""
    return 1 - 1 / (1 + np.asarray(ratio, dtype=np.float64))
