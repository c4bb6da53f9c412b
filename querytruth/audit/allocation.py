"""How many pairs of each stratum people judge.

Estimates from pairs that were drawn at random within strata: Horvitz and Thompson's totals with the intervals of
each stratum joined.

The pairs of a stratum are drawn one by one over all queries, so that their answers are independent given the set, also
where pairs of one query are alike. Where whole queries were drawn, use `clustered`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from querytruth.array_types import FloatArray, RowIndices
from querytruth.evaluation.statistics import IntervalEstimate, divide_estimates, estimate_proportion, sum_estimates

_JUDGE_MARGIN = 1.07  # sampling variance that a useless judge may cost, as a factor


def allocate_sample(
    sizes: Sequence[int] | RowIndices, expected_shares: Sequence[float] | FloatArray, total: int, floor: int
) -> NDArray[np.int64]:
    """Returns the number of pairs to draw from each stratum: a floor, and the rest in proportion to size times the
    standard deviation that the expected share of positives gives (Neyman, Journal of the Royal Statistical Society 97,
    1934). No stratum gets more than it has; a total below the floors is shared in proportion to these."""
    size = np.asarray(sizes, dtype=np.int64)
    share = np.asarray(expected_shares, dtype=np.float64)
    drawn = np.minimum(size, floor)
    if drawn.sum() >= total:
        return _round_to(drawn * (total / max(int(drawn.sum()), 1)), drawn, total)
    return _fill(drawn, size, np.asarray(size * np.sqrt(share * (1 - share)), dtype=np.float64), total)


def split_by_judge(sizes: Sequence[int], expected_shares: Sequence[float], total: int) -> NDArray[np.int64]:
    """Returns the numbers to draw from the parts into which a judge's labels divide one stratum.

    Each part gets nearly its proportional number, and only the rest goes where Neyman's rule wants it: a judge whose
    labels mean nothing then widens intervals by the square root of 1.07 at most, whatever it says."""
    size = np.asarray(sizes, dtype=np.int64)
    share = np.asarray(expected_shares, dtype=np.float64)
    total = min(total, int(size.sum()))
    if not total:
        return np.zeros(len(size), dtype=np.int64)
    proportional = size / size.sum() * total / _JUDGE_MARGIN
    drawn = np.minimum(np.ceil(proportional).astype(np.int64), size)
    while drawn.sum() > total:  # a part that is there keeps one draw while others have more
        drawn[np.argmax(drawn)] -= 1
    weights = size * np.sqrt(share * (1 - share))
    wanted = weights / max(float(weights.sum()), 1e-12) * total
    return _fill(drawn, size, np.maximum(wanted - drawn, 1e-9), total)


def _fill(drawn: NDArray[np.int64], size: NDArray[np.int64], weights: FloatArray, total: int) -> NDArray[np.int64]:
    """Shares what is left of the total by weight; what a stratum cannot take goes to the others."""
    drawn = drawn.copy()
    while (rest := total - int(drawn.sum())) > 0 and (open_ := size > drawn).any():
        weight = np.where(open_, np.maximum(weights, 1e-12), 0)
        added = _round_to(weight / weight.sum() * rest, size - drawn, rest)
        drawn += added
        if not added.any():
            break
    return drawn


def _round_to(wanted: FloatArray, limits: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Rounds to whole numbers with the given sum, within the limits, by largest remainder."""
    whole = np.minimum(np.floor(wanted + 1e-9).astype(np.int64), limits)
    for place in np.argsort(-(wanted - whole), kind="stable"):
        if whole.sum() >= total:
            break
        whole[place] += int(whole[place] < limits[place])
    return whole


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
