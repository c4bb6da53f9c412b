"""Expected values of a random order against the mean over all orders."""

from itertools import permutations

import numpy as np
import pytest

from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metric_scores import expected_by_chance
from querytruth.evaluation.metrics import parse_metric
from tests.evaluation.naive_metrics import NaiveQrels, metric_value, qrels_table
from tests.evaluation.random_rankings import METRIC_NAMES

GALLERY = ["a", "b", "c", "d", "e"]
JUDGED: NaiveQrels = {"q1": {"a": 1}, "q2": {"a": 2, "b": 1, "c": 1, "d": 0}, "q3": dict.fromkeys(GALLERY, 1)}


@pytest.mark.parametrize("name", METRIC_NAMES)
def test_the_mean_over_all_orders_of_the_gallery(name: str) -> None:
    metric, truth = parse_metric(name), index_qrels(qrels_table(JUDGED))
    found = dict(zip(truth.query_ids.to_pylist(), expected_by_chance(metric, truth, len(GALLERY)), strict=True))
    for query, mean in found.items():
        options = dict(metric.options)
        every = [metric_value(metric.name, metric.cut, options, JUDGED, query, list(p)) for p in permutations(GALLERY)]
        assert mean == pytest.approx(np.mean(every), abs=1e-12), query


def test_a_large_gallery() -> None:
    truth = index_qrels(qrels_table({"q": {f"i{n}": 1 for n in range(12)}}))
    assert expected_by_chance(parse_metric("p@10"), truth, 16_920)[0] == pytest.approx(12 / 16_920)
    assert expected_by_chance(parse_metric("hit@10"), truth, 16_920)[0] == pytest.approx(0.00707, abs=1e-4)
    assert expected_by_chance(parse_metric("rr"), truth, 1_000_000)[0] > 0
