"""Several searches answered; what they returned first and nobody judged is queued by rank, whoever returned it."""

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings

from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.run_matching import pool_unjudged_pairs, rank_first_results
from tests.evaluation.random_rankings import qrels_and_runs

Pool = list[tuple[str, str, int]]
Same = dict[str, tuple[str, ...]]


def run(**results: str) -> pd.DataFrame:
    """By query its images, the best first, one letter each."""
    rows = [(query, image, -place) for query, images in results.items() for place, image in enumerate(images)]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "score"]).astype({"score": "float64"})


def judged(*pairs: str) -> pd.DataFrame:
    """Judged pairs as “q a”; the grade does not matter."""
    rows = [(*pair.split(), 0) for pair in pairs]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"]).astype({"query_id": "category"})


def pool(*runs: pd.DataFrame, known: pd.DataFrame, depth: int = 3, same: Same | None = None) -> Pool:
    pairs = pool_unjudged_pairs([rank_first_results(one, depth) for one in runs], known, same or {})
    return list(pairs.itertuples(index=False, name=None))


def test_unjudged_results_of_two_searches_are_one_queue_by_best_rank_and_then_by_id() -> None:
    first, second = run(q="abcx", p="cab"), run(q="bdae", p="c")
    found = pool(first, second, known=judged("q a", "p b"))
    assert found == [("p", "c", 1), ("q", "b", 1), ("p", "a", 2), ("q", "d", 2), ("q", "c", 3)]
    assert pool(second, first, known=judged("q a", "p b")) == found, "whoever is named first"


def test_the_same_search_given_twice_changes_nothing() -> None:
    one = run(q="ab")
    assert pool(one, one, known=judged()) == pool(one, known=judged()) == [("q", "a", 1), ("q", "b", 2)]


def test_only_the_first_results_are_pooled() -> None:
    assert pool(run(q="abc"), known=judged(), depth=1) == [("q", "a", 1)]
    assert pool(run(q="abc"), known=judged("q a", "q b", "q c")) == []


def test_queries_that_ask_the_same_are_judged_once() -> None:
    same = dict.fromkeys(("zh", "en"), ("zh", "en"))
    assert pool(run(en="ab", zh="bc"), known=judged(), same=same) == [("zh", "a", 1), ("zh", "b", 1), ("zh", "c", 2)]
    half = judged("zh a", "en b", "zh b")
    assert pool(run(en="ab"), known=half, same=same) == [("zh", "a", 1)], "one of the two still has no judgment of it"


@settings(max_examples=50)
@given(qrels_and_runs())
@pytest.mark.thorough
def test_results_are_ranked_as_the_evaluation_ranks_them(drawn: Any) -> None:
    """Ties too: a result's rank in the report is its rank in the queue."""
    qrels, runs = drawn
    rows = [(query, image, grade) for query, images in qrels.items() for image, grade in images.items()]
    truth = index_qrels(pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"]))
    answered = [(query, image, score) for query, images in runs.items() for image, score in images.items()]
    table = pd.DataFrame(answered, columns=["query_id", "image_id", "score"])
    table = table[table["query_id"].isin(truth.query_ids.to_pylist())]
    ranked = rank_run(table, truth)
    ids = truth.query_ids.to_pylist(), ranked.image_ids.to_pylist()
    expected = {
        (ids[0][query], ids[1][image], rank)
        for query, image, rank in zip(ranked.query, ranked.image_code, ranked.rank, strict=True)
    }
    assert set(rank_first_results(table, 100).itertuples(index=False, name=None)) == expected
