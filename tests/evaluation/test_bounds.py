"""The upper bound against every judging that the unjudged images could get."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from querytruth.evaluation.bounds import compute_upper_bound
from querytruth.evaluation.metrics import compute_metric, parse_metric
from tests.evaluation.naive_metrics import NaiveQrels, NaiveRun, metric_value, ranking
from tests.evaluation.random_rankings import METRIC_NAMES, qrels_and_runs, ranked, shown

EXACT = [name for name in METRIC_NAMES if name != "ap@r"]
_MOST = 4  # unjudged images of which all judgings are tried


def every_judging(qrels: NaiveQrels, run: NaiveRun, query: str, name: str) -> list[float]:
    """The values of one query, over all that its unjudged images could be."""
    metric = parse_metric(name)
    order = ranking(run.get(query, {}))
    open_ones = [image for image in order if image not in qrels[query]][:_MOST]
    top = max(grade for images in qrels.values() for grade in images.values())
    found = []
    for grades in product(range(top + 1), repeat=len(open_ones)):
        told = {**qrels, query: qrels[query] | dict(zip(open_ones, grades, strict=True))}
        found.append(metric_value(metric.name, metric.cut, dict(metric.options), told, query, order))
    return found


def bounds(qrels: NaiveQrels, run: NaiveRun, name: str) -> dict[str, float]:
    found = ranked(qrels, run)
    return dict(
        zip(found.truth.query_ids.to_pylist(), compute_upper_bound(found, parse_metric(name)).tolist(), strict=True)
    )


@given(qrels_and_runs(grades=2))
@settings(max_examples=12)
@pytest.mark.thorough
def test_no_judging_lifts_a_figure_above_its_bound(world: tuple[NaiveQrels, NaiveRun]) -> None:
    qrels, run = world
    for name in METRIC_NAMES:
        for query, bound in bounds(qrels, run, name).items():
            assert max(every_judging(qrels, run, query, name)) <= bound + 1e-9, name
            assert bound <= 1


@given(qrels_and_runs(grades=1))
@settings(max_examples=12)
@pytest.mark.thorough
def test_with_two_grades_some_judging_reaches_the_bound(world: tuple[NaiveQrels, NaiveRun]) -> None:
    qrels, run = world
    run = {query: {image: of[image] for image in ranking(of)[:_MOST]} for query, of in run.items()}
    for name in EXACT:
        for query, bound in bounds(qrels, run, name).items():
            assert max(every_judging(qrels, run, query, name)) == pytest.approx(bound, abs=1e-9), name


def test_of_two_queries_no_judging_exceeds_the_bound_and_one_reaches_it() -> None:
    """What the two tests above try with many worlds, with one: hits before, between and after unjudged images."""
    qrels = {"q": {"a": 1, "w": 0, "b": 1}, "r": {"c": 1, "d": 1, "e": 1}}
    run = {"q": shown(["u1", "a", "u2", "w", "b", "u3"]), "r": shown(["c", "u4", "u5", "d", "u6"])}
    for name in EXACT:
        for query, bound in bounds(qrels, run, name).items():
            assert max(every_judging(qrels, run, query, name)) == pytest.approx(bound, abs=1e-9), (name, query)


@given(qrels_and_runs())
@settings(max_examples=15)
def test_where_all_is_judged_the_bound_is_the_figure(world: tuple[NaiveQrels, NaiveRun]) -> None:
    qrels, run = world
    judged = {query: {image: s for image, s in of.items() if image in qrels[query]} for query, of in run.items()}
    found = ranked(qrels, judged)
    for name in METRIC_NAMES:
        assert compute_upper_bound(found, parse_metric(name)) == pytest.approx(
            compute_metric(found, parse_metric(name)), abs=1e-12
        ), name
    assert (
        compute_upper_bound(ranked(qrels, run), parse_metric("p@r"))
        >= compute_metric(ranked(qrels, run), parse_metric("p@r"))
    ).all()


def test_more_relevant_images_are_more_to_be_found() -> None:
    """Two unjudged ones at the head of the ranking: one of them right is worth more to AP than both."""
    found = ranked({"q": {"a": 1, "w": 0}}, {"q": shown(["u1", "a", "w", "u2"])})
    assert compute_upper_bound(found, parse_metric("p@4")).tolist() == [3 / 4]
    assert compute_upper_bound(found, parse_metric("r@4")).tolist() == [1]
    assert compute_upper_bound(found, parse_metric("ap")).tolist() == [1]
    assert compute_upper_bound(found, parse_metric("rr@1")).tolist() == [1]
    lost = ranked({"q": {"a": 1, "b": 1, "w": 0}}, {"q": shown(["w", "u"])})
    assert compute_upper_bound(lost, parse_metric("r@2")).tolist() == [pytest.approx(1 / 3)]


def test_the_ideal_order_grows_up_to_the_cut_alone() -> None:
    found = ranked({"q": dict.fromkeys("abcd", 1) | {"w": 0}}, {"q": shown(["w", "u"])})
    best = 1 / np.log2(3)
    assert compute_upper_bound(found, parse_metric("ndcg@2")).tolist() == [pytest.approx(best / (1 + best))]


def test_at_the_cut_r_more_relevant_images_lower_the_cut() -> None:
    found = ranked({"q": {"a": 1, "b": 1}}, {"q": shown(["a", "u", "v"])})
    assert compute_upper_bound(found, parse_metric("p@r")).tolist() == [3 / 4]
    assert compute_upper_bound(found, parse_metric("ap@r")).tolist() == [3 / 4]
    assert np.isclose(compute_metric(found, parse_metric("ap@r"))[0], 0.5)
    deep = ranked({"q": {"a": 1, "w": 0}}, {"q": shown(["w", "u", "a", "v"])})
    assert compute_upper_bound(deep, parse_metric("p@r")).tolist() == [2 / 3]  # u and v: the first 3 have u and a


def test_a_query_that_the_run_leaves_out_has_the_bound_0() -> None:
    assert compute_upper_bound(
        ranked({"q": {"a": 1}, "z": {"a": 1}}, {"q": shown(["u"])}), parse_metric("p@1")
    ).tolist() == [1, 0]
