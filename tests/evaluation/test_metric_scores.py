"""What a result file holds, figures of parts of the queries, and what a random order would get."""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metric_scores import CONVENTIONS, DEFAULT_METRICS, expected_by_chance, score_run
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.run_evaluation import count_words, score_slices
from tests.evaluation.naive_metrics import NaiveQrels, metric_value, qrels_table
from tests.evaluation.random_rankings import METRIC_NAMES, ranked, shown


def test_the_summary_states_figures_bounds_and_conventions() -> None:
    found = ranked({"q1": {"a": 2, "b": 0}, "q2": {"c": 1}}, {"q1": shown(["a", "x", "b"]), "q2": {"d": 1.0, "c": 1.0}})
    scores = score_run(found, ["p@1", "P@1", "ndcg@2", "ap"])
    assert list(scores.per_query.index) == ["q1", "q2"]
    assert list(scores.per_query.columns) == ["returned", "p@1", "ndcg@2", "ap", "judged@1", "judged@2"]
    figure = scores.figures({"p@1": 0.25}).set_index("metric").loc["p@1"]
    assert figure[["value", "at_least", "at_most", "chance"]].tolist() == [0.5, 0.5, 1, 0.25]
    assert (figure["low"], figure["high"]) == pytest.approx((0.0, 1.0), abs=0.05)  # 1 of 2
    assert figure["detectable"] > 0
    assert "divided by k" in scores.metrics[0].definition
    summary = json.loads(json.dumps(scores.counts(), allow_nan=False))
    assert summary["judged"] == {"judged@1": 0.5, "judged@2": 0.5}
    assert summary["queries_with_a_tie_at_the_cut"] == {"1": 1, "2": 0}
    assert summary["queries"] == 2
    assert "highest first" in CONVENTIONS["ties"]


def test_the_figures_that_are_there_by_default() -> None:
    means = score_run(ranked({"q": {"a": 1}}, {"q": shown(["a"])})).means()
    assert list(means) == list(DEFAULT_METRICS)
    assert means == {name: pytest.approx({"p@5": 0.2, "p@10": 0.1}.get(name, 1)) for name in DEFAULT_METRICS}


def test_queries_of_one_topic_are_one_piece_of_evidence() -> None:
    """Twenty queries of two topics, each of them all right or all wrong."""
    names = [f"q{n:02}" for n in range(20)]
    found = ranked({name: {"a": 1} for name in names}, {name: {"a": 1.0} for name in names[:10]})
    topics = pd.Series(["right"] * 10 + ["wrong"] * 10, index=names)
    alone, together = score_run(found, ["hit@1"]), score_run(found, ["hit@1"], clusters=topics.iloc[::-1])
    assert (together.interval.low[0], together.interval.high[0]) == pytest.approx((0.0, 1.0), abs=0.05)
    assert alone.interval.low[0] > 0.2
    assert together.detectable[0] > alone.detectable[0]
    assert score_run(found, ["hit@1"], clusters=topics.iloc[:0]).detectable == alone.detectable, (
        "without a topic: on its own"
    )
    one = score_run(ranked({"q": {"a": 1}}, {"q": {"a": 1.0}}), ["hit@1"]).figures({}).iloc[0]
    assert one["low"] < 0.03 and one["high"] == 1 and one["detectable"] > 1, "one query says next to nothing"


QUERIES = pd.DataFrame(
    {
        "query_id": ["q1", "q2", "q3", "unasked"],
        "text": ["一只猫", "a dog that runs on the beach, 一只", "cat", "x"],
        "level": [1, 2, 1, 3],
        "style": ["word", "sentence", "word", "word"],
        "labels": [["cat"], ["dog", "beach"], ["cat", "pet", "cat"], ["x"]],
    }
)


def test_slices() -> None:
    per_query = pd.DataFrame({"hit@1": [1.0, 0.0, 0.0]}, index=pd.Index(["q1", "q2", "q3"], name="query_id"))
    table = score_slices(per_query, QUERIES, ["hit@1"])
    told = {(row.slice, row.value): (row.queries, row.mean) for row in table.itertuples()}
    assert told == {
        ("level", "1"): (2, 0.5),
        ("level", "2"): (1, 0.0),
        ("style", "sentence"): (1, 0.0),
        ("style", "word"): (2, 0.5),
        ("labels", "beach"): (1, 0.0),
        ("labels", "cat"): (2, 0.5),
        ("labels", "dog"): (1, 0.0),
        ("labels", "pet"): (1, 0.0),
        ("length", "1-2"): (1, 0.0),
        ("length", "3-5"): (1, 1.0),
        ("length", "6-10"): (1, 0.0),
    }
    assert (table["low"] <= table["mean"]).all()
    assert (table["mean"] <= table["high"]).all()


def test_a_query_without_a_value_is_in_no_slice() -> None:
    per_query = pd.DataFrame({"hit@1": [1.0, 0.0]}, index=pd.Index(["q1", "q2"], name="query_id"))
    queries = pd.DataFrame({"query_id": ["q1", "q2"], "labels": [["cat"], None]})
    assert score_slices(per_query, queries, ["hit@1"])[["value", "queries"]].to_numpy().tolist() == [["cat", 1]]


def test_the_length_of_a_query_in_words_and_in_chinese_characters() -> None:
    assert count_words(["一只猫", "a dog", "", "红色 T恤衫 2024", "it_is"]).tolist() == [3, 2, 0, 6, 2]


def test_slices_of_families_and_their_kinds() -> None:
    queries = pd.DataFrame(
        {"query_id": ["a", "b", "c"], "text": ["two dogs", "dog", "many dogs"], "family": ["count/2", None, "count/3+"]}
    )
    per_query = pd.DataFrame({"hit@1": [1.0, 0.0, 0.0]}, index=["a", "b", "c"])
    table = score_slices(per_query, queries, ["hit@1"])
    found = {(row.slice, row.value): (row.queries, row.mean) for row in table.itertuples() if row.slice != "length"}
    assert found == {("family", "count"): (2, 0.5), ("kind", "count/2"): (1, 1.0), ("kind", "count/3+"): (1, 0.0)}
    plain = score_slices(per_query, queries.assign(family=None), ["hit@1"])
    assert set(plain["slice"]) == {"length"}


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
