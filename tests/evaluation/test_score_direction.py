"""Distances that stand where likeness should: found by the order that they make, and nothing else is."""

import numpy as np
import pandas as pd
import pytest

from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.open_set import ReversedScores, find_reversed_matrix, find_reversed_scores
from querytruth.evaluation.ranking import rank_run

QUERIES, IMAGES = [f"q{n:02}" for n in range(30)], [f"i{n:02}" for n in range(60)]


def world(noise: float) -> tuple[pd.DataFrame, np.ndarray]:
    """Two relevant images a query, and similarities that know of them, with noise."""
    rng = np.random.default_rng(5)
    similarity = rng.normal(size=(len(QUERIES), len(IMAGES))) * noise
    rows = []
    for row, query in enumerate(QUERIES):
        for column in rng.choice(len(IMAGES), 2, replace=False):
            similarity[row, column] += 1
            rows.append((query, IMAGES[column], 1))
    return pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"]), similarity


def run_of(scores: np.ndarray, nearest: np.ndarray, k: int) -> pd.DataFrame:
    """The k images of each query with the highest `nearest`, with their scores."""
    rows = [
        (query, IMAGES[column], scores[row, column])
        for row, query in enumerate(QUERIES)
        for column in np.argsort(-nearest[row])[:k]
    ]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "score"])


def found(qrels: pd.DataFrame, run: pd.DataFrame) -> ReversedScores | None:
    return find_reversed_scores(rank_run(run, index_qrels(qrels)))


@pytest.mark.parametrize("k", [5, 10, 60])
def test_lists_of_the_nearest_with_their_distances_are_reversed(k: int) -> None:
    qrels, similarity = world(0.3)
    reversed_scores = found(qrels, run_of(1 - similarity, similarity, k))
    assert reversed_scores is not None and reversed_scores[0] < 0.1 and reversed_scores[1] == 30


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0, 1000.0])
def test_a_good_a_weak_and_a_blind_system_are_not(noise: float) -> None:
    qrels, similarity = world(noise)
    assert found(qrels, run_of(similarity, similarity, 10)) is None
    assert find_reversed_matrix(similarity, QUERIES, IMAGES, qrels) is None


def test_a_few_queries_prove_nothing() -> None:
    qrels, similarity = world(0.3)
    run = run_of(1 - similarity, similarity, 5)
    assert found(qrels[qrels["query_id"].isin(QUERIES[:3])], run[run["query_id"].isin(QUERIES[:3])]) is None


def test_a_matrix_of_distances_is_reversed_though_its_highest_tell_nothing() -> None:
    qrels, similarity = world(0.3)
    assert found(qrels, run_of(1 - similarity, 1 - similarity, 10)) is None, "no relevant image is among them"
    reversed_scores = find_reversed_matrix(1 - similarity, QUERIES, IMAGES, qrels)
    assert reversed_scores is not None and reversed_scores[0] < 0.1


def test_chance_is_called_reversed_in_no_world() -> None:
    rng = np.random.default_rng(1)
    qrels, similarity = world(0.3)
    for _ in range(300):
        blind = rng.normal(size=similarity.shape)
        assert found(qrels, run_of(blind, blind, 10)) is None
