"""Whether the scores of a search tell queries without an answer from the others."""

import pandas as pd
import pytest

from querytruth.evaluation.open_set import compute_threshold_curve, find_threshold, measure_absent
from tests.evaluation.naive_metrics import NaiveRun
from tests.evaluation.test_metrics import ranked


def measure(scores: NaiveRun, absent: list[str], precision: float = 0.9) -> dict[str, object]:
    qrels = {"dog": {"d1": 1, "d2": 0}, "cat": {"c1": 1}, "whale": {"d1": 0}, "yak": {"d2": 0}}
    rows = [(query, image, score) for query, images in scores.items() for image, score in images.items()]
    found = ranked(qrels, {query: images for query, images in scores.items() if query not in absent})
    thresholds = {"0.9": find_threshold(found, compute_threshold_curve(found), precision)}
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


def test_a_query_of_which_nothing_came_back_shows_nothing() -> None:
    found = measure({"dog": {"d1": 0.9}, "cat": {"c1": 0.8}}, ["whale", "yak"])
    assert found["auroc"] == 1 and found["shows_nothing"] == {"0.9": 1.0}
