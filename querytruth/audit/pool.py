"""The pool of an audit: the pairs of a set and of runs that people may be asked about, by strata.

A stratum is a part of the pool with a share of relevant pairs of its own. Pairs of the set that no system returned near
the top and that the set does not call relevant are outside the pool; a random draw of them bounds what the pool cannot
see. The sample is chosen by hash, so that the same seed draws the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from querytruth.array_types import Hashes
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.evaluation import ground_truth, result_files, run_files, run_matching
from querytruth.evaluation.judged_sets import JudgedSet, load_judged_set
from querytruth.evaluation.systems import find_run
from querytruth.records import content_id, stable_hash
from querytruth.sets.benchmark_set import open_candidate_judgments
from querytruth.sets.set_files import StoredSet

JsonRecord = dict[str, Any]
JudgeForm = Literal["grade", "yes", "pair"]
JUDGED_RELEVANT, JUDGED_ZERO, CANDIDATE = "judged_relevant", "judged_zero", "candidate"
FIRST_RANKS, LATER_RANKS, OUTSIDE = "first_ranks", "later_ranks", "outside"
STRATA = (JUDGED_RELEVANT, JUDGED_ZERO, CANDIDATE, FIRST_RANKS, LATER_RANKS)
FIRST_RANKS_UNTIL = 10
YES, NO, UNKNOWN = JUDGE_PARTS = ("yes", "no", "unknown")  # what a judge says of a pair: relevant, not, nothing
NO_LABEL = -1
PAIR = ["query_id", "image_id"]
# Shares of relevant pairs that a plan expects before anything is known; they decide where people look, not the
# estimates.
EXPECTED_RELEVANT = {JUDGED_RELEVANT: 0.9, JUDGED_ZERO: 0.02, CANDIDATE: 0.3, FIRST_RANKS: 0.2, LATER_RANKS: 0.05}

# The same for the parts into which a judge divides a stratum.
_EXPECTED_OF_PART = {YES: 0.5, NO: 0.02}
_EXPECTED_OF_JUDGED_PART = {YES: 0.95, NO: 0.5}
SAMPLE_COLUMNS = [*PAIR, "stratum", "probability", "order"]
AUDIT_STAGE = "audit"
_NO_RUN = "add --run RUN, list runs in the definition, or evaluate a search on this version"


@dataclass(frozen=True, slots=True)
class AuditPool:
    """`pairs`: query_id, image_id, relevance (the set's grade, -1 without one), best_rank (0 where no system returned
    it), judge (a judge's grade, -1 without one), reason (the judge's) and stratum, by query and image. With a judge
    each stratum has parts, such as `first_ranks.yes`. `ranks`: system, query_id, image_id and rank of all pooled
    results. `outside_size`: number of pairs of the set outside the pool."""

    pairs: pd.DataFrame
    ranks: pd.DataFrame
    outside_size: int

    def count_strata(self) -> dict[str, int]:
        """Return the number of pairs by stratum or part of one, without empty ones."""
        counts = self.pairs["stratum"].value_counts()
        return {name: int(counts[name]) for name in sorted(counts.index, key=_place_stratum)}

    def divide_by_judge(
        self, grades: Sequence[int], reasons: Sequence[str], scores: Sequence[float] | None = None
    ) -> "AuditPool":
        """Return the pool with a judge's grade and reason per pair, and each stratum divided by the grades; scores
        order cards, and divide nothing before they are calibrated."""
        if scores is not None:
            return replace(self, pairs=self.pairs.assign(score=np.asarray(scores, dtype=np.float64)))
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
    """Return the pool of the first results of systems (query_id, image_id, rank, by the name of the system), the
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


def _place_stratum(name: str) -> tuple[int, int]:
    """Return the place of a stratum or a part of one in lists."""
    whole, _, part = name.partition(".")
    return STRATA.index(whole), JUDGE_PARTS.index(part) if part else -1


def expect_relevant(stratum: str) -> float:
    """Return the share of relevant pairs that a plan expects of a stratum or a part of one."""
    whole, _, part = stratum.partition(".")
    parts = _EXPECTED_OF_JUDGED_PART if whole == JUDGED_RELEVANT else _EXPECTED_OF_PART
    return parts.get(part, EXPECTED_RELEVANT[whole])


def draw_pairs(pool: AuditPool, allocation: Mapping[str, int], seed: int) -> pd.DataFrame:
    """Return the drawn pairs (SAMPLE_COLUMNS): the allocated number of each stratum, those with the lowest hashes.
    `probability` is the chance of a pair to be drawn; `order` is the order in which pairs are shown, which reveals
    nothing about the stratum."""
    parts = []
    for stratum, pairs in pool.pairs.groupby("stratum", sort=True):
        count = min(allocation.get(str(stratum), 0), len(pairs))
        chosen = np.argsort(hash_pairs(pairs, seed, "draw"), kind="stable")[:count]
        parts.append(pairs.iloc[np.sort(chosen)].assign(probability=count / len(pairs)))
    return order_sample(pd.concat(parts, ignore_index=True), seed)


def draw_outside(
    pool: AuditPool, query_ids: Sequence[str], image_ids: Sequence[str], count: int, seed: int
) -> pd.DataFrame:
    """Return a random draw of pairs outside the pool (SAMPLE_COLUMNS, `order` is 0)."""
    count = min(count, pool.outside_size)
    known = set(pool.pairs[PAIR].itertuples(index=False, name=None))
    drawn: list[tuple[str, str]] = []
    for pair in _random_pairs(sorted(query_ids), sorted(image_ids), seed):
        if len(drawn) >= count:
            break
        if pair not in known:
            known.add(pair)
            drawn.append(pair)
    table = pd.DataFrame(drawn, columns=PAIR, dtype="str")
    return table.assign(stratum=OUTSIDE, probability=count / max(pool.outside_size, 1), order=0)


def order_sample(sample: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the sample with its order, by hash over all strata."""
    order = np.argsort(hash_pairs(sample, seed, "order"), kind="stable")
    ordered = sample.iloc[order].reset_index(drop=True)
    return ordered.assign(order=np.arange(1, len(ordered) + 1))[SAMPLE_COLUMNS]


def _random_pairs(query_ids: Sequence[str], image_ids: Sequence[str], seed: int) -> Iterator[tuple[str, str]]:
    total = len(query_ids) * len(image_ids)
    number = 0
    while total:
        place = stable_hash(str(seed), "outside", str(number)) % total
        yield query_ids[place // len(image_ids)], image_ids[place % len(image_ids)]
        number += 1


def hash_pairs(pairs: pd.DataFrame, seed: int, purpose: str) -> Hashes:
    """Return by pair a hash for this purpose."""
    columns = zip(pairs["query_id"], pairs["image_id"], strict=True)
    hashes = [stable_hash(str(seed), purpose, query, image) for query, image in columns]
    return np.asarray(hashes, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class PooledSet:
    """A set, the pool of an audit of it, and a digest of each system's pooled results by its name."""

    judged: JudgedSet
    stored: StoredSet
    pool: AuditPool
    systems: dict[str, str]
    judge_form: JudgeForm = "grade"  # what a judge is asked about a pair
    samples: int = 0  # how often, for a yes or no without probabilities

    @property
    def query_ids(self) -> list[str]:
        """Return the ids of all queries of the set."""
        return [str(name) for name in self.stored.tables.queries["query_id"]]

    @property
    def image_ids(self) -> list[str]:
        """Return the ids of all images, one per duplicate group."""
        return [str(name) for name in self.stored.tables.images["image_id"]]

    @property
    def name(self) -> str:
        """Return the set's name and version."""
        return f"{self.judged.description['name']}/v{self.judged.description['version']}"


@step("pool results")
def pool_set(path: Path, runs: Sequence[Path], depth: int) -> PooledSet:
    """Load the set at `path` and pool the first `depth` results of each run. Raises UserError for a run on another set,
    for two runs with one name, and where no run is that deep."""
    if not runs:
        raise UserError(AUDIT_STAGE, path, "has no system whose results can be judged", _NO_RUN)
    judged = load_judged_set(path, needs_judgments=False)
    if judged.stored is None:  # only judgments from a file
        raise UserError(AUDIT_STAGE, path, "is not a published set", "give the name of a set")
    tables = judged.stored.tables
    ranked: dict[str, pd.DataFrame] = {}
    named = (one if one.exists() or one.suffix else Path(one.name) for one in runs)  # definitions make paths absolute
    for run in (find_run(one, judged) for one in named):
        name = _name_system(run)
        if name in ranked:
            raise UserError(AUDIT_STAGE, run, f"is the second system with the name {name}", "rename the file or folder")
        ranked[name] = _rank_results(run, judged, depth)
    deepest = max(int(table["rank"].max()) for table in ranked.values())
    if deepest < depth:
        reason = f"no system returns {depth} results; the most are {deepest}"
        raise UserError(AUDIT_STAGE, path.parent.name, reason, f"give deeper runs, or --depth {deepest}")
    candidates = open_candidate_judgments(tables)
    pool = build_audit_pool(tables.qrels, candidates, ranked, len(tables.queries), len(tables.images))
    systems = {name: content_id("run", table.to_csv(index=False)) for name, table in sorted(ranked.items())}
    return PooledSet(judged, judged.stored, pool, systems)


def _name_system(run: Path) -> str:
    """Return the name of a result's folder, else of the file without its suffix."""
    resolved = run.resolve()
    return resolved.name if resolved.is_dir() else resolved.stem


def _rank_results(path: Path, judged: JudgedSet, depth: int) -> pd.DataFrame:
    run, _ = ground_truth.fold_run(run_files.read_run(result_files.find_run_file(path)), judged.representatives)
    queries, images = judged.queries, judged.images
    assert queries is not None and images is not None
    known = run["query_id"].isin(queries["query_id"]) & run["image_id"].isin(images["image_id"])
    if not known.all():
        reason = f"{int((~known).sum()):,} of {len(run):,} results are not in {judged.description['name']}"
        next_step = f"give a run on {judged.description['name']}/v{judged.description['version']}"
        raise UserError(AUDIT_STAGE, path, reason, next_step)
    return run_matching.rank_first_results(run, depth)
