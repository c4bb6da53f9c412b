"""A threshold on the score: what is shown, and how much of it is right."""

import numpy as np
import pytest

from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.open_set import OpenSetThreshold, compute_threshold_curve, thin_curve
from querytruth.evaluation.open_set import find_threshold as threshold_on_curve
from querytruth.evaluation.ranking import RankedRun, rank_run
from tests.evaluation.naive_metrics import qrels_table, run_table
from tests.evaluation.test_metrics import ranked

QRELS = {"q1": {"a": 1, "b": 1, "w": 0}, "q2": {"c": 1, "w": 0}}
RUN = {"q1": {"a": 0.9, "w": 0.8, "b": 0.4, "u": 0.3}, "q2": {"w": 0.8, "c": 0.4}}


def find_threshold(run: RankedRun, precision: float) -> OpenSetThreshold | None:
    return threshold_on_curve(run, compute_threshold_curve(run), precision)


def test_precision_and_recall_over_the_threshold() -> None:
    points = compute_threshold_curve(ranked(QRELS, RUN))
    assert points["threshold"].tolist() == [0.9, 0.8, 0.4, 0.3]
    assert points["shown"].tolist() == [1, 3, 5, 6], "pairs of one score are shown together"
    assert points["precision"].tolist() == pytest.approx([1, 1 / 3, 3 / 5, 3 / 6])
    assert points["precision_upper"].tolist() == pytest.approx([1, 1 / 3, 3 / 5, 4 / 6])
    assert points["recall"].tolist() == pytest.approx([1 / 3, 1 / 3, 1, 1])


def test_the_threshold_for_a_wanted_precision_is_the_lowest_that_has_it() -> None:
    found = ranked(QRELS, RUN)
    half = find_threshold(found, 0.6)
    assert half is not None
    assert (half.threshold, half.precision, half.recall, half.shown) == (0.4, 0.6, 1.0, 5)
    assert (half.queries_empty, half.queries_cut_off) == (0, 1), "all that q2 has is shown: there may be more"
    sure = find_threshold(found, 0.95)
    assert sure is not None
    assert (sure.threshold, sure.queries_empty) == (0.9, 1)
    assert find_threshold(ranked({"q": {"a": 1}}, {"q": {"w": 1.0, "a": 0.5}}), 0.9) is None


def test_nothing_is_cut_off_where_the_whole_gallery_came_back() -> None:
    truth = index_qrels(qrels_table({"q": {"a": 1}}), gallery=["a", "b"])
    whole = find_threshold(rank_run(run_table({"q": {"a": 1.0, "b": 0.5}}), truth), 0.5)
    assert whole is not None
    assert whole.queries_cut_off == 0


def calibrated(queries: int, shift: float = 0.0) -> RankedRun:
    """Ten images a query, half of them right; right ones score higher by 1, half of the queries by `shift` more."""
    rng = np.random.default_rng(1)
    qrels = {f"q{n}": {f"i{k}": k % 2 for k in range(10)} for n in range(queries)}
    run = {
        query: {image: float(rng.normal(grade, 0.5) + shift * (n % 2)) for image, grade in of.items()}
        for n, (query, of) in enumerate(qrels.items())
    }
    return ranked(qrels, run)


def test_the_precision_elsewhere_is_that_of_queries_the_threshold_was_not_chosen_on() -> None:
    steady = find_threshold(calibrated(400), 0.9)
    assert steady is not None
    assert steady.elsewhere == pytest.approx(0.9, abs=0.02)
    few = find_threshold(calibrated(4), 1.0)
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
    assert find_threshold(ranked({"q": {"a": 1}}, {}), 0.5) is None
