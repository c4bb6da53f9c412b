"""The upper bound against every judging that the unjudged images could get."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from evaluation.bounds import upper
from evaluation.metric_names import measure, parse
from tests.evaluation.naive import Judged, Runs, ranking, value
from tests.evaluation.test_metrics import ranked, shown
from tests.evaluation.worlds import NAMES, worlds

FREE = [name for name in NAMES if not name.endswith("@r")]
_MOST = 4  # unjudged images of which all judgings are tried


def every_judging(qrels: Judged, run: Runs, query: str, name: str) -> list[float]:
    """The values of one query, over all that its unjudged images could be."""
    metric = parse(name)
    order = ranking(run.get(query, {}))
    open_ones = [image for image in order if image not in qrels[query]][:_MOST]
    top = max(grade for images in qrels.values() for grade in images.values())
    found = []
    for grades in product(range(top + 1), repeat=len(open_ones)):
        told = {**qrels, query: qrels[query] | dict(zip(open_ones, grades, strict=True))}
        found.append(value(metric.name, metric.cut, dict(metric.options), told, query, order))
    return found


def bounds(qrels: Judged, run: Runs, name: str) -> dict[str, float]:
    found = ranked(qrels, run)
    return dict(zip(found.truth.query_ids.to_pylist(), upper(found, parse(name)).tolist(), strict=True))


@given(worlds(grades=2))
@settings(max_examples=12, deadline=None)
def test_no_judging_lifts_a_figure_above_its_bound(world: tuple[Judged, Runs]) -> None:
    qrels, run = world
    for name in FREE:
        for query, bound in bounds(qrels, run, name).items():
            assert max(every_judging(qrels, run, query, name)) <= bound + 1e-9, name
            assert bound <= 1


@given(worlds(grades=1))
@settings(max_examples=12, deadline=None)
def test_with_two_grades_some_judging_reaches_the_bound(world: tuple[Judged, Runs]) -> None:
    qrels, run = world
    run = {query: {image: of[image] for image in ranking(of)[:_MOST]} for query, of in run.items()}
    for name in FREE:
        for query, bound in bounds(qrels, run, name).items():
            assert max(every_judging(qrels, run, query, name)) == pytest.approx(bound, abs=1e-9), name


@given(worlds())
@settings(max_examples=15, deadline=None)
def test_where_all_is_judged_the_bound_is_the_figure(world: tuple[Judged, Runs]) -> None:
    qrels, run = world
    judged = {query: {image: s for image, s in of.items() if image in qrels[query]} for query, of in run.items()}
    found = ranked(qrels, judged)
    for name in NAMES:
        assert upper(found, parse(name)) == pytest.approx(measure(found, parse(name)), abs=1e-12), name
    assert (upper(ranked(qrels, run), parse("p@r")) >= measure(ranked(qrels, run), parse("p@r"))).all()


def test_more_relevant_images_are_more_to_be_found() -> None:
    """Two unjudged ones at the head of the ranking: one of them right is worth more to AP than both."""
    found = ranked({"q": {"a": 1, "w": 0}}, {"q": shown(["u1", "a", "w", "u2"])})
    assert upper(found, parse("p@4")).tolist() == [3 / 4]
    assert upper(found, parse("r@4")).tolist() == [1]
    assert upper(found, parse("ap")).tolist() == [1]
    assert upper(found, parse("rr@1")).tolist() == [1]
    lost = ranked({"q": {"a": 1, "b": 1, "w": 0}}, {"q": shown(["w", "u"])})
    assert upper(lost, parse("r@2")).tolist() == [pytest.approx(1 / 3)]


def test_the_ideal_order_grows_up_to_the_cut_alone() -> None:
    found = ranked({"q": dict.fromkeys("abcd", 1) | {"w": 0}}, {"q": shown(["w", "u"])})
    best = 1 / np.log2(3)
    assert upper(found, parse("ndcg@2")).tolist() == [pytest.approx(best / (1 + best))]


def test_at_the_cut_r_the_number_of_relevant_images_stays() -> None:
    found = ranked({"q": {"a": 1, "b": 1}}, {"q": shown(["a", "u", "v"])})
    assert upper(found, parse("p@r")).tolist() == [1]
    assert upper(found, parse("ap@r")).tolist() == [1]
    assert np.isclose(measure(found, parse("ap@r"))[0], 0.5)


def test_a_query_that_the_run_leaves_out_has_the_bound_0() -> None:
    assert upper(ranked({"q": {"a": 1}, "z": {"a": 1}}, {"q": shown(["u"])}), parse("p@1")).tolist() == [1, 0]
