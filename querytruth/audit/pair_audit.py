"""The findings of an audit whose sample is of single pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.audit import allocation
from querytruth.audit.pool import JUDGED_RELEVANT, PAIR
from querytruth.evaluation.statistics import IntervalEstimate, divide_estimates, estimate_proportion

CUTS = (1, 5, 10, 20)


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
        """Joins the pool (querytruth.audit.pool) with answers: by query_id and image_id of a drawn pair whether it is
        relevant."""
        strata = tuple(sorted(pool["stratum"].unique()))
        stratum = pd.Index(strata).get_indexer(pool["stratum"])
        answers = relevant.astype("float64").reindex(pd.MultiIndex.from_frame(pool[PAIR])).to_numpy()
        return cls(pool, strata, stratum, ~np.isnan(answers), answers > 0)

    def count(self, chosen: BoolArray | None = None) -> allocation.StratumCounts:
        """Returns the counts by stratum of the chosen pairs of the pool: given how many of them were drawn, these are
        a random draw of them."""
        masks = [np.ones(len(self.pairs), dtype=bool), self.is_answered, self.is_answered & self.is_relevant]
        chosen = masks[0] if chosen is None else chosen
        size, drawn, relevant = (np.bincount(self.stratum[mask & chosen], minlength=len(self.strata)) for mask in masks)
        return allocation.StratumCounts(size, drawn, relevant)

    def estimate_truth(self, chosen: BoolArray | None = None) -> allocation.TruthEstimates:
        """Returns the estimates of the set, or of the chosen part of it."""
        counts = self.count(chosen)
        is_judged = np.array([name.startswith(JUDGED_RELEVANT) for name in self.strata])
        return allocation.estimate_truth(counts.pick(is_judged), counts.pick(~is_judged))

    def estimate_relevant(self, chosen: BoolArray) -> IntervalEstimate:
        """Returns the number of relevant pairs among the chosen ones. A stratum of which none of these was drawn has
        the share of the whole stratum, and is not bounded."""
        counts, whole = self.count(chosen), self.count()
        used = np.asarray(counts.size) > 0
        known = used & (np.asarray(counts.drawn) > 0)
        total = allocation.estimate_total(counts.pick(known))
        rest = estimate_proportion(whole.relevant, whole.drawn, whole.size).value[used & ~known]
        sizes = np.asarray(counts.size)[used & ~known].astype(np.float64)
        value = total.value + (rest * sizes).sum()
        below = np.hypot(total.value - total.low, np.linalg.norm(rest * sizes))
        above = np.hypot(total.high - total.value, np.linalg.norm((1 - rest) * sizes))
        return IntervalEstimate(value, max(value - below, 0.0), min(value + above, float(chosen.sum())))


def estimate_systems(audit: PairAudit, ranks: pd.DataFrame, query_count: int, depth: int) -> pd.DataFrame:
    """Returns by system and metric (`p@k`, `found@k`) the figure by the set's own judgments, the corrected one, and the
    ends of its interval.

    `p@k` is the mean over all queries of the set; `found@k` is the share of all relevant pairs of the pool that the
    system returns among its first k: recall over all pairs at once, which pairs drawn one by one can tell (a mean of
    each query's own recall they cannot)."""
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
            share = [allocation.share_of_ratio(end) for end in (found.value, found.low, found.high)]
            precision = inside.scale(1 / (k * query_count))
            before = float((marked & top).sum())
            rows.append((system, f"p@{k}", before / (k * query_count), *_numbers(precision)))
            rows.append((system, f"found@{k}", before / max(int(marked.sum()), 1), *map(float, share)))
    return pd.DataFrame(rows, columns=["system", "metric", "before", "value", "low", "high"])


def estimate_slices(
    audit: PairAudit, queries: pd.DataFrame, aspects: Sequence[str] = ("language", "style", "level")
) -> pd.DataFrame:
    """Returns the shares that the set lacks and that are wrong by aspect and value of its queries, where an aspect has
    several values."""
    rows: list[tuple[Any, ...]] = []
    known = queries.astype({"query_id": "str"}).set_index("query_id")
    for aspect in aspects:
        values = known[aspect].reindex(audit.pairs["query_id"]).astype("str").to_numpy()
        names = sorted(set(values))
        for name in names if len(names) > 1 else ():
            chosen = values == name
            truth = audit.estimate_truth(chosen)
            answered = int((audit.is_answered & chosen).sum())
            rows += [
                (aspect, name, measure, answered, *_numbers(getattr(truth, measure)))
                for measure in ("missing_share", "wrong_share")
            ]
    return pd.DataFrame(rows, columns=["aspect", "value", "measure", "answered", "estimate", "low", "high"])


def bound_undetermined(
    estimate: Callable[[pd.Series], allocation.TruthEstimates], relevant: pd.Series, undetermined: pd.MultiIndex
) -> Mapping[str, tuple[float, float]]:
    """Returns by measure the estimates if all pairs of which people could not tell were not relevant, and if all
    were."""
    ends = [estimate(pd.concat([relevant, pd.Series(value, undetermined, dtype=bool)])) for value in (False, True)]
    measures = ("wrong_share", "missing", "missing_share", "multiplier")
    return {name: (float(getattr(ends[0], name).value), float(getattr(ends[1], name).value)) for name in measures}


def _numbers(estimate: IntervalEstimate) -> tuple[float, float, float]:
    return float(estimate.value), float(estimate.low), float(estimate.high)


def forecast_width(audit: PairAudit, more: int) -> float:
    """Returns the width that the interval of the missing share would have with so many judgments more, drawn where
    they help most, if the strata are as relevant as so far."""
    counts, is_judged = audit.count(), np.array([name.startswith(JUDGED_RELEVANT) for name in audit.strata])
    shares = expect_shares(counts)
    drawn = np.asarray(counts.drawn) + allocate_more(counts, more)
    return expected_width(np.asarray(counts.size, dtype=np.float64), drawn.astype(np.float64), shares, is_judged)


def expect_shares(counts: allocation.StratumCounts) -> FloatArray:
    """Returns by stratum the share of relevant pairs to expect from those that were drawn (Jeffreys' mean)."""
    return np.asarray((np.asarray(counts.relevant) + 0.5) / (np.asarray(counts.drawn) + 1), dtype=np.float64)


def allocate_more(counts: allocation.StratumCounts, more: int) -> RowIndices:
    """Returns by stratum how many of so many further judgments help most."""
    return allocation.allocate_sample(
        np.asarray(counts.size) - np.asarray(counts.drawn), expect_shares(counts), more, 0
    )


def find_further(counts: allocation.StratumCounts, is_judged: BoolArray, width: float) -> int:
    """Returns how many further judgments make the interval of the missing share this narrow, by the shares of those
    that are there; all that are left where none do."""
    sizes, shares = np.asarray(counts.size, dtype=np.float64), expect_shares(counts)

    def is_narrow(more: int) -> bool:
        drawn = np.asarray(counts.drawn) + allocate_more(counts, more)
        return expected_width(sizes, drawn.astype(np.float64), shares, is_judged) <= width

    low, high = 0, int(sizes.sum() - np.sum(counts.drawn))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_narrow(middle) else (middle + 1, high)
    return low


def expected_width(sizes: FloatArray, drawn: FloatArray, shares: FloatArray, is_judged: BoolArray) -> float:
    """Returns the width that the interval of the missing share has where the drawn pairs are relevant as expected."""
    counts = allocation.StratumCounts(sizes, drawn, np.asarray(drawn) * shares)
    missing = allocation.estimate_truth(counts.pick(is_judged), counts.pick(~is_judged)).missing_share
    return float(missing.high - missing.low)
