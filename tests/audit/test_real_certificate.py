"""A certificate on what experts say of captions and other photos (Flickr8k), with a judge that sees captions alone."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from querytruth.array_types import BoolArray, FloatArray
from querytruth.audit.judge_reliability import fit_curve, rank_area
from querytruth.audit.next_cards import PooledPairs
from tests.audit.certified_worlds import Review
from tests.audit.expert_pairs import read_expert_pairs


@pytest.fixture
def experts(shared: Callable[[str], Path]) -> pd.DataFrame:
    """Pairs of a caption and another photo: whether the experts' median is 3 or 4, and how alike its captions are."""
    return read_expert_pairs(shared("captions")).pairs.rename(columns={"letters": "score"})


def certify(experts: pd.DataFrame, *, with_judge: bool) -> tuple[Review, float]:
    pairs = experts[["query_id", "image_id"]].assign(relevance=-1, best_rank=0, judge=-1)
    pairs = pairs.assign(score=experts["score"]) if with_judge else pairs
    none, queries = pairs[["query_id", "image_id"]].iloc[:0], experts["query_id"].nunique()
    review = Review(PooledPairs(pairs, np.ones(len(pairs)), none, 0, queries, 1), experts["relevant"].to_numpy())
    stated = review.work()
    return review, stated["found"] / experts["relevant"].sum()


def expected_error(chances: FloatArray, relevant: BoolArray) -> float:
    parts = np.array_split(np.argsort(chances, kind="stable"), 10)
    return sum(len(part) * abs(chances[part].mean() - relevant[part].mean()) for part in parts) / len(chances)


@pytest.mark.thorough
def test_captions_alone_save_a_third_of_the_judgments_and_the_bound_is_true(experts: pd.DataFrame) -> None:
    with_judge, found = certify(experts, with_judge=True)
    alone, _ = certify(experts, with_judge=False)
    assert with_judge.was_true and alone.was_true and found >= 0.9
    assert with_judge.at_goal is not None and alone.at_goal is not None
    assert with_judge.at_goal < 0.75 * alone.at_goal


@pytest.mark.thorough
def test_two_hundred_answers_calibrate_a_judge_of_captions(experts: pd.DataFrame) -> None:
    scores, relevant = experts["score"].to_numpy(), experts["relevant"].to_numpy()
    assert rank_area(scores, relevant.astype(float)) == pytest.approx(0.875, abs=0.01)
    errors = []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(scores))
        known, other = order[:200], order[200:]
        curve = fit_curve(scores[known], relevant[known].astype(float), scores[other])
        errors.append(expected_error(curve, relevant[other]))
    assert np.mean(errors) <= 0.03
