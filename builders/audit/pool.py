"""The pool of an audit: the pairs that people may be asked about, each in one stratum.

A stratum is a part of the pool with a share of relevant pairs of its own. Pairs of the set that no system returned
near the top and that the set does not call relevant are outside the pool; a random draw of them bounds what the pool
cannot see.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

JUDGED_RELEVANT, JUDGED_ZERO, CANDIDATE = "judged_relevant", "judged_zero", "candidate"
FIRST_RANKS, LATER_RANKS, OUTSIDE = "first_ranks", "later_ranks", "outside"
STRATA = (JUDGED_RELEVANT, JUDGED_ZERO, CANDIDATE, FIRST_RANKS, LATER_RANKS)
FIRST_RANKS_UNTIL = 10
YES, NO, UNKNOWN = JUDGE_PARTS = ("yes", "no", "unknown")  # what a judge says of a pair: relevant, not, nothing
ADDED = "added"
NO_LABEL = -1
PAIR = ["query_id", "image_id"]
# Shares of relevant pairs that a plan expects before anything is known; they decide where people look, not the
# estimates.
EXPECTED_RELEVANT = {JUDGED_RELEVANT: 0.9, JUDGED_ZERO: 0.02, CANDIDATE: 0.3, FIRST_RANKS: 0.2, LATER_RANKS: 0.05}


# The same for the parts into which a judge divides a stratum.
_EXPECTED_OF_PART = {YES: 0.5, NO: 0.02}
_EXPECTED_OF_JUDGED_PART = {YES: 0.95, NO: 0.5}


@dataclass(frozen=True, slots=True)
class AuditPool:
    """`pairs`: query_id, image_id, relevance (the set's grade, -1 without one), best_rank (0 where no system returned
    it), judge (a judge's grade, -1 without one), reason (the judge's) and stratum, by query and image. With a judge
    each stratum has parts, such as `first_ranks.yes`; what a later system brought is in parts of its own, such as
    `first_ranks.added1.yes`. `ranks`: system, query_id, image_id and rank of all pooled
    results. `outside_size`: number of pairs of the set outside the pool."""

    pairs: pd.DataFrame
    ranks: pd.DataFrame
    outside_size: int

    def count_strata(self) -> dict[str, int]:
        """Returns the number of pairs by stratum or part of one, without empty ones."""
        counts = self.pairs["stratum"].value_counts()
        return {name: int(counts[name]) for name in sorted(counts.index, key=_place_stratum)}

    def divide_by_judge(self, grades: Sequence[int], reasons: Sequence[str]) -> "AuditPool":
        """Returns the pool with a judge's grade and reason per pair, and each stratum divided by the grades."""
        labels = np.asarray(grades, dtype=np.int64)
        part = np.select([labels > 0, labels == 0], [YES, NO], UNKNOWN)
        stratum = self.pairs["stratum"] + "." + pd.Series(part, dtype="str")
        divided = self.pairs.assign(judge=labels, reason=pd.array(list(reasons), dtype="str"), stratum=stratum)
        return replace(self, pairs=divided)


def build_audit_pool(
    qrels: pd.DataFrame,
    candidates: pd.DataFrame,
    ranked_runs: Mapping[str, pd.DataFrame],
    query_count: int,
    image_count: int,
) -> AuditPool:
    """Returns the pool of the first results of systems (query_id, image_id, rank, by the name of the system), the
    candidate judgments, and what the set calls relevant. The order of the systems has no influence."""
    ranks = pd.concat([run.assign(system=name) for name, run in sorted(ranked_runs.items())], ignore_index=True).astype(
        {"query_id": "str", "image_id": "str", "rank": "int64"}
    )[["system", *PAIR, "rank"]]
    ranks = ranks.sort_values(["system", "query_id", "rank"], ignore_index=True)
    best = ranks.groupby(PAIR)["rank"].min()
    judged = qrels.astype({"query_id": "str", "image_id": "str"}).set_index(PAIR)["relevance"].astype("int64")
    waiting = pd.MultiIndex.from_frame(candidates[PAIR].astype("str"))
    index = best.index.union(judged[judged > 0].index).union(waiting)
    relevance = judged.reindex(index).fillna(-1).astype("int64")
    best_rank = best.reindex(index).fillna(0).astype("int64")
    stratum = np.select(
        [relevance > 0, relevance == 0, index.isin(waiting), best_rank <= FIRST_RANKS_UNTIL],
        [JUDGED_RELEVANT, JUDGED_ZERO, CANDIDATE, FIRST_RANKS],
        LATER_RANKS,
    )
    pairs = index.to_frame(index=False).assign(
        relevance=relevance.to_numpy(),
        best_rank=best_rank.to_numpy(),
        judge=NO_LABEL,
        reason="",
        stratum=pd.array(stratum, dtype="str"),
    )
    return AuditPool(pairs.sort_values(PAIR, ignore_index=True), ranks, query_count * image_count - len(pairs))


def find_added_pairs(before: pd.DataFrame, pool: AuditPool) -> AuditPool:
    """Returns those pairs of a pool that an earlier one (its `pairs`) lacks, as a pool with nothing outside."""
    known = pd.MultiIndex.from_frame(before[PAIR])
    added = pool.pairs[~pd.MultiIndex.from_frame(pool.pairs[PAIR]).isin(known)]
    return AuditPool(added.reset_index(drop=True), pool.ranks, 0)


def mark_added(strata: pd.Series, number: int) -> pd.Series:
    """Returns strata as those of the pairs that the extension of this number added."""
    return strata.str.replace(r"^(\w+)", rf"\1.{ADDED}{number}", regex=True)


def number_extension(strata: pd.Series) -> pd.Series:
    """Returns by pair the number of the extension that added it, 0 for a pair of the first pool."""
    return strata.str.extract(rf"\.{ADDED}(\d+)", expand=False).fillna("0").astype("int64")


def _place_stratum(name: str) -> tuple[int, str, int]:
    """The place of a stratum or a part of one in lists."""
    whole, *parts = name.split(".")
    label = parts.pop() if parts and parts[-1] in JUDGE_PARTS else None
    return STRATA.index(whole), "".join(parts), -1 if label is None else JUDGE_PARTS.index(label)


def expect_relevant(stratum: str) -> float:
    """Returns the share of relevant pairs that a plan expects of a stratum or a part of one."""
    whole, part = stratum.partition(".")[0], stratum.rpartition(".")[2]
    parts = _EXPECTED_OF_JUDGED_PART if whole == JUDGED_RELEVANT else _EXPECTED_OF_PART
    return parts.get(part, EXPECTED_RELEVANT[whole])
