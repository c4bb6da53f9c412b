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
    assert found["low"] < 0.05 and found["high"] == 1, "two and two say next to nothing"


def test_a_query_of_which_nothing_came_back_shows_nothing() -> None:
    found = measure({"dog": {"d1": 0.9}, "cat": {"c1": 0.8}}, ["whale", "yak"])
    assert found["auroc"] == 1 and found["shows_nothing"] == {"0.9": 1.0}
