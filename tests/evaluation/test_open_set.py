"""A threshold on the score, queries without an answer, and distances that stand where likeness should."""

import numpy as np
import pandas as pd
import pytest

from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.open_set import (
    OpenSetThreshold,
    ReversedScores,
    compute_threshold_curve,
    find_reversed_matrix,
    find_reversed_scores,
    find_threshold,
    measure_absent,
    thin_curve,
)
from querytruth.evaluation.ranking import RankedRun, rank_run
from tests.evaluation.naive_metrics import NaiveRun, qrels_table, run_table
from tests.evaluation.random_rankings import ranked

QRELS = {"q1": {"a": 1, "b": 1, "w": 0}, "q2": {"c": 1, "w": 0}}
RUN = {"q1": {"a": 0.9, "w": 0.8, "b": 0.4, "u": 0.3}, "q2": {"w": 0.8, "c": 0.4}}


def find_lowest(run: RankedRun, precision: float) -> OpenSetThreshold | None:
    return find_threshold(run, compute_threshold_curve(run), precision)


def test_precision_and_recall_over_the_threshold() -> None:
    points = compute_threshold_curve(ranked(QRELS, RUN))
    assert points["threshold"].tolist() == [0.9, 0.8, 0.4, 0.3]
    assert points["shown"].tolist() == [1, 3, 5, 6], "pairs of one score are shown together"
    assert points["precision"].tolist() == pytest.approx([1, 1 / 3, 3 / 5, 3 / 6])
    assert points["precision_upper"].tolist() == pytest.approx([1, 1 / 3, 3 / 5, 4 / 6])
    assert points["recall"].tolist() == pytest.approx([1 / 3, 1 / 3, 1, 1])


def test_the_threshold_for_a_wanted_precision_is_the_lowest_that_has_it() -> None:
    found = ranked(QRELS, RUN)
    half = find_lowest(found, 0.6)
    assert half is not None
    assert (half.threshold, half.precision, half.recall, half.shown) == (0.4, 0.6, 1.0, 5)
    assert (half.queries_empty, half.queries_cut_off) == (0, 1), "all that q2 has is shown: there may be more"
    sure = find_lowest(found, 0.95)
    assert sure is not None
    assert (sure.threshold, sure.queries_empty) == (0.9, 1)
    assert find_lowest(ranked({"q": {"a": 1}}, {"q": {"w": 1.0, "a": 0.5}}), 0.9) is None


def test_nothing_is_cut_off_where_the_whole_gallery_came_back() -> None:
    truth = index_qrels(qrels_table({"q": {"a": 1}}), gallery=["a", "b"])
    whole = find_lowest(rank_run(run_table({"q": {"a": 1.0, "b": 0.5}}), truth), 0.5)
    assert whole is not None
    assert whole.queries_cut_off == 0


def calibrated(queries: int) -> RankedRun:
    """Ten images a query, half of them right; right ones score higher by 1."""
    rng = np.random.default_rng(1)
    qrels = {f"q{n}": {f"i{k}": k % 2 for k in range(10)} for n in range(queries)}
    run = {query: {image: float(rng.normal(grade, 0.5)) for image, grade in of.items()} for query, of in qrels.items()}
    return ranked(qrels, run)


def test_the_precision_elsewhere_is_that_of_queries_the_threshold_was_not_chosen_on() -> None:
    steady = find_lowest(calibrated(400), 0.9)
    assert steady is not None
    assert steady.elsewhere == pytest.approx(0.9, abs=0.02)
    few = find_lowest(calibrated(4), 1.0)
    assert few is not None
    assert few.precision == 1 > few.elsewhere, "chosen on few queries a threshold promises too much"


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    whole, thin = (
        thin_curve(compute_threshold_curve(calibrated(200)), points=10_000),
        thin_curve(compute_threshold_curve(calibrated(200)), points=50),
    )
    assert len(whole) == 2000
    assert len(thin) <= 50
    assert thin.iloc[0].tolist() == whole.iloc[0].tolist()
    assert thin.iloc[-1].tolist() == whole.iloc[-1].tolist()


def test_a_run_without_results() -> None:
    assert len(compute_threshold_curve(ranked({"q": {"a": 1}}, {}))) == 0
    assert find_lowest(ranked({"q": {"a": 1}}, {}), 0.5) is None


def measure(scores: NaiveRun, absent: list[str]) -> dict[str, object]:
    qrels = {"dog": {"d1": 1, "d2": 0}, "cat": {"c1": 1}, "whale": {"d1": 0}, "yak": {"d2": 0}}
    rows = [(query, image, score) for query, images in scores.items() for image, score in images.items()]
    found = ranked(qrels, {query: images for query, images in scores.items() if query not in absent})
    thresholds = {"0.9": find_threshold(found, compute_threshold_curve(found), 0.9)}
    return measure_absent(pd.DataFrame(rows, columns=["query_id", "image_id", "score"]), found, absent, thresholds)


def test_a_search_that_shows_nothing_for_them_is_right() -> None:
    scores = {"dog": {"d1": 0.9, "d2": 0.2}, "cat": {"c1": 0.8}, "whale": {"d1": 0.3}}
    found = measure(scores, ["whale", "yak"])
    assert found["auroc"] == 1 and found["shows_nothing"] == {"0.9": 1.0}


def test_half_of_the_pairs_in_order_is_chance() -> None:
    """0.9 and 0.4 against 0.5 and 0.4: above, above, below, equal."""
    scores = {"dog": {"d1": 0.9}, "cat": {"c1": 0.4}, "whale": {"d1": 0.5}, "yak": {"d2": 0.4}}
    found = measure(scores, ["whale", "yak"])
    assert found["auroc"] == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert found["shows_nothing"] == {"0.9": 0.0}, "at 0.4 both show something"
    assert found["low"] < 0.2 and found["high"] > 0.9, "two and two say next to nothing"


def test_perfect_order_of_few_queries_is_no_certainty() -> None:
    scores = {"dog": {"d1": 0.9}, "cat": {"c1": 0.8}, "whale": {"d1": 0.5}, "yak": {"d2": 0.4}}
    found = measure(scores, ["whale", "yak"])
    assert found["auroc"] == 1 == found["high"] and found["low"] < 0.6


def test_what_is_shown_for_absent_queries_is_wrong() -> None:
    """One right result at 0.9 and one at 0.8; a query without an answer shows two at 0.85."""
    found = ranked({"dog": {"d1": 1}, "cat": {"c1": 1}}, {"dog": {"d1": 0.9}, "cat": {"c1": 0.8}})
    absent = pd.Series([0.85, 0.85], index=["whale", "whale"])
    curve = compute_threshold_curve(found, absent)
    assert curve[["threshold", "precision"]].to_numpy().tolist() == [[0.9, 1.0], [0.85, 1 / 3], [0.8, 0.5]]
    alone, both = find_threshold(found, compute_threshold_curve(found), 0.9), find_threshold(found, curve, 0.9, absent)
    assert alone is not None and both is not None and (alone.threshold, both.threshold) == (0.8, 0.9)


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
