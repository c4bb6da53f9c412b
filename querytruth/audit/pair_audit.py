"""The sample of an audit: how many pairs of each stratum people judge, and what their answers say.

Estimates are Horvitz and Thompson's totals, with the intervals of each stratum joined. The pairs of a stratum are drawn
one by one over all queries, so that their answers are independent given the set, also where pairs of one query are
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.audit.pool import JUDGED_RELEVANT, PAIR
from querytruth.evaluation.statistics import IntervalEstimate, divide_estimates, estimate_proportion, sum_estimates

CUTS = (1, 5, 10, 20)
_JUDGE_MARGIN = 1.07  # sampling variance that a useless judge may cost, as a factor


def allocate_sample(
    sizes: Sequence[int] | RowIndices, expected_shares: Sequence[float] | FloatArray, total: int, floor: int
) -> NDArray[np.int64]:
    """Return the number of pairs to draw from each stratum: a floor, and the rest in proportion to size times the
    standard deviation that the expected share of positives gives (Neyman, Journal of the Royal Statistical Society 97,
    1934). No stratum gets more than it has; a total below the floors is shared in proportion to these."""
    size = np.asarray(sizes, dtype=np.int64)
    share = np.asarray(expected_shares, dtype=np.float64)
    drawn = np.minimum(size, floor)
    if drawn.sum() >= total:
        return _round_to(drawn * (total / max(int(drawn.sum()), 1)), drawn, total)
    return _fill(drawn, size, np.asarray(size * np.sqrt(share * (1 - share)), dtype=np.float64), total)


def split_by_judge(sizes: Sequence[int], expected_shares: Sequence[float], total: int) -> NDArray[np.int64]:
    """Return the numbers of pairs to draw from the parts into which a judge's grades divide one stratum.

    Each part gets almost its proportional number, and the rest follows Neyman's rule: a judge whose grades mean nothing
    then widens intervals by at most the square root of 1.07."""
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
    """Share what is left of the total by weight; what a stratum cannot take goes to the others."""
    drawn = drawn.copy()
    while (rest := total - int(drawn.sum())) > 0 and (open_ := size > drawn).any():
        weight = np.where(open_, np.maximum(weights, 1e-12), 0)
        added = _round_to(weight / weight.sum() * rest, size - drawn, rest)
        drawn += added
        if not added.any():
            break
    return drawn


def _round_to(wanted: FloatArray, limits: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Round to whole numbers with the given sum, within the limits, by largest remainder."""
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
        """Return the chosen strata alone."""
        return StratumCounts(*(np.asarray(part)[..., chosen] for part in (self.size, self.drawn, self.relevant)))


# What an audit says of a set's judgments, by measure. `wrong_share`: of the pairs that the set calls relevant, those
# that are not; `missing`: the number of relevant pairs that it does not call relevant; `missing_share`: of all relevant
# pairs, these; `multiplier`: relevant pairs for each that the set calls relevant.
TruthEstimates = Mapping[str, IntervalEstimate]


def estimate_total(counts: StratumCounts) -> IntervalEstimate:
    """Return the number of relevant pairs in all strata."""
    sizes = np.asarray(counts.size, dtype=np.float64)
    shares = estimate_proportion(counts.relevant, counts.drawn, sizes)
    return sum_estimates(IntervalEstimate(shares.value * sizes, shares.low * sizes, shares.high * sizes)).clip(0)


def estimate_truth(judged_relevant: StratumCounts, others: StratumCounts) -> TruthEstimates:
    """Return the estimates of a set from the strata of the pairs that it calls relevant and from all others."""
    positives = np.asarray(judged_relevant.size, dtype=np.float64).sum(axis=-1)
    right, missing = estimate_total(judged_relevant), estimate_total(others)
    positives = np.where(positives > 0, positives, np.nan)
    ratio = divide_estimates(missing, right)
    both = [np.stack(ends, axis=-1) for ends in zip(_ends(right), _ends(missing), strict=True)]
    return {
        "wrong_share": right.scale(1 / positives).complement().clip(0, 1),
        "missing": missing,
        "missing_share": IntervalEstimate(*(share_of_ratio(end) for end in _ends(ratio))),
        "multiplier": sum_estimates(IntervalEstimate(*both)).scale(1 / positives),
    }


def _ends(estimate: IntervalEstimate) -> tuple[Any, Any, Any]:
    return estimate.value, estimate.low, estimate.high


def share_of_ratio(ratio: object) -> Any:
    """Return r / (1 + r), also of infinity."""
    return 1 - 1 / (1 + np.asarray(ratio, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class PairAudit:
    """Answers on a stratified sample of a pool. By pair of the pool: `stratum` (a place in `strata`), the query, and
    whether it was answered and is relevant."""

    pairs: pd.DataFrame
    strata: tuple[str, ...]
    stratum: Any
    is_answered: BoolArray
    is_relevant: BoolArray

    @classmethod
    def from_answers(cls, pool: pd.DataFrame, relevant: pd.Series) -> PairAudit:
        """Join the pool (querytruth.audit.pool) with answers: by query_id and image_id of a drawn pair whether it is
        relevant."""
        strata = tuple(sorted(pool["stratum"].unique()))
        stratum = pd.Index(strata).get_indexer(pool["stratum"])
        answers = relevant.astype("float64").reindex(pd.MultiIndex.from_frame(pool[PAIR])).to_numpy()
        return cls(pool, strata, stratum, ~np.isnan(answers), answers > 0)

    def count(self, chosen: BoolArray | None = None) -> StratumCounts:
        """Return the counts by stratum of the chosen pairs of the pool: given how many of them were drawn, these are
        a random draw of them."""
        masks = [np.ones(len(self.pairs), dtype=bool), self.is_answered, self.is_answered & self.is_relevant]
        chosen = masks[0] if chosen is None else chosen
        size, drawn, relevant = (np.bincount(self.stratum[mask & chosen], minlength=len(self.strata)) for mask in masks)
        return StratumCounts(size, drawn, relevant)

    def estimate_truth(self, chosen: BoolArray | None = None) -> TruthEstimates:
        """Return the estimates of the set, or of the chosen part of it."""
        counts = self.count(chosen)
        is_judged = np.array([name.startswith(JUDGED_RELEVANT) for name in self.strata])
        return estimate_truth(counts.pick(is_judged), counts.pick(~is_judged))

    def estimate_relevant(self, chosen: BoolArray) -> IntervalEstimate:
        """Return the number of relevant pairs among the chosen ones. A stratum without a drawn pair among them gets the
        share of the whole stratum and has no bound."""
        counts, whole = self.count(chosen), self.count()
        used = np.asarray(counts.size) > 0
        known = used & (np.asarray(counts.drawn) > 0)
        total = estimate_total(counts.pick(known))
        rest = estimate_proportion(whole.relevant, whole.drawn, whole.size).value[used & ~known]
        sizes = np.asarray(counts.size)[used & ~known].astype(np.float64)
        value = total.value + (rest * sizes).sum()
        below = np.hypot(total.value - total.low, np.linalg.norm(rest * sizes))
        above = np.hypot(total.high - total.value, np.linalg.norm((1 - rest) * sizes))
        return IntervalEstimate(value, max(value - below, 0.0), min(value + above, float(chosen.sum())))


def estimate_systems(audit: PairAudit, ranks: pd.DataFrame, query_count: int, depth: int) -> pd.DataFrame:
    """Return by system and metric (`p@k`, `found@k`) the figure by the set's own judgments, the corrected figure, and
    the ends of its interval.

    `p@k` is the mean over all queries of the set. `found@k` is the share of all relevant pairs of the pool among the
    first k results of the system: recall over all pairs at once, because pairs drawn one by one cannot estimate a mean
    of per-query recall."""
    index = pd.MultiIndex.from_frame(audit.pairs[PAIR])
    marked = audit.pairs["relevance"].to_numpy() > 0
    rows: list[tuple[Any, ...]] = []
    for system, results in ranks.groupby("system", sort=True):
        place = index.get_indexer(pd.MultiIndex.from_frame(results[PAIR]))
        for k in (cut for cut in CUTS if cut <= depth):
            top = np.zeros(len(audit.pairs), dtype=bool)
            top[place[results["rank"].to_numpy() <= k]] = True
            inside, outside = audit.estimate_relevant(top), audit.estimate_relevant(~top)
            found = divide_estimates(inside, outside)
            share = [share_of_ratio(end) for end in (found.value, found.low, found.high)]
            precision = inside.scale(1 / (k * query_count))
            before = float((marked & top).sum())
            rows.append((system, f"p@{k}", before / (k * query_count), *map(float, _ends(precision))))
            rows.append((system, f"found@{k}", before / max(int(marked.sum()), 1), *map(float, share)))
    return pd.DataFrame(rows, columns=["system", "metric", "before", "value", "low", "high"])


def estimate_slices(audit: PairAudit, queries: pd.DataFrame) -> pd.DataFrame:
    """Return the shares that the set lacks and that are wrong by aspect and value of its queries, where an aspect has
    several values."""
    rows: list[tuple[Any, ...]] = []
    known = queries.astype({"query_id": "str"}).set_index("query_id")
    for aspect in ("language", "style", "level"):
        values = known[aspect].reindex(audit.pairs["query_id"]).astype("str").to_numpy()
        names = sorted(set(values))
        for name in names if len(names) > 1 else ():
            chosen = values == name
            truth = audit.estimate_truth(chosen)
            answered = int((audit.is_answered & chosen).sum())
            rows += [
                (aspect, name, measure, answered, *map(float, _ends(truth[measure])))
                for measure in ("missing_share", "wrong_share")
            ]
    return pd.DataFrame(rows, columns=["aspect", "value", "measure", "answered", "estimate", "low", "high"])


def bound_undetermined(
    estimate: Callable[[pd.Series], TruthEstimates], relevant: pd.Series, undetermined: pd.MultiIndex
) -> Mapping[str, tuple[float, float]]:
    """Return by measure the estimates if all undecided pairs were not relevant, and if all were relevant."""
    ends = [estimate(pd.concat([relevant, pd.Series(value, undetermined, dtype=bool)])) for value in (False, True)]
    return {name: (float(ends[0][name].value), float(ends[1][name].value)) for name in ends[0]}


def expected_width(sizes: FloatArray, drawn: FloatArray, shares: FloatArray, is_judged: BoolArray) -> float:
    """Return the width that the interval of the missing share has where the drawn pairs are relevant as expected."""
    counts = StratumCounts(sizes, drawn, np.asarray(drawn) * shares)
    missing = estimate_truth(counts.pick(is_judged), counts.pick(~is_judged))["missing_share"]
    return float(missing.high - missing.low)
