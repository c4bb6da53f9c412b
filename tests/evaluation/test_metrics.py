"""The metrics on worked examples, and what becomes of ties, cuts, missing and broken results."""

import numpy as np
import pandas as pd
import pytest

from querytruth.errors import UserError
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metric_scores import average_directions, score_run, transpose_qrels
from querytruth.evaluation.metrics import (
    compute_cmc_curve,
    compute_metric,
    compute_precision_recall_curve,
    judged_at_k,
    parse_metric,
)
from querytruth.evaluation.ranking import RankedRun, rank_run
from querytruth.evaluation.vector_search import run_from_similarities
from tests.evaluation.naive_metrics import NaiveQrels, NaiveRun, qrels_table, run_table


def ranked(qrels: NaiveQrels, run: NaiveRun) -> RankedRun:
    return rank_run(run_table(run), index_qrels(qrels_table(qrels)))


def shown(images: list[str]) -> dict[str, float]:
    return {image: float(-place) for place, image in enumerate(images)}


def one(qrels: dict[str, int], images: list[str], name: str) -> float:
    return float(compute_metric(ranked({"q": qrels}, {"q": shown(images)}), parse_metric(name))[0])


def hits(pattern: list[int], relevant: int, name: str) -> float:
    """The value of a ranking with these hits, where so many images are relevant."""
    images = [f"{'right' if right else 'wrong'}{place}" for place, right in enumerate(pattern)]
    grades = {image: 1 for image in images if image.startswith("right")}
    grades |= {f"never{n}": 1 for n in range(relevant - len(grades))}
    return one(grades, images, name)


# --- both directions of a matrix, gold on the diagonal ---------------------------------------------------------------


def both_ways(matrix: list[list[float]], name: str) -> tuple[float, float]:
    """image to text, text to image; rows are images."""
    similarity = np.array(matrix)
    images, texts = ([f"{kind}{n:02}" for n in range(len(matrix))] for kind in ("img", "text"))
    qrels = pd.DataFrame({"query_id": texts, "image_id": images, "relevance": 1})
    there = rank_run(run_from_similarities(similarity, images, texts, 20), index_qrels(transpose_qrels(qrels)))
    back = rank_run(run_from_similarities(similarity.T, texts, images, 20), index_qrels(qrels))
    return float(compute_metric(there, parse_metric(name)).mean()), float(
        compute_metric(back, parse_metric(name)).mean()
    )


def test_the_matrix_of_the_mended_recall() -> None:
    matrix = [[0.5, 0.9, 0.3], [0.3, 0.8, 0.2], [0.6, 0.4, 0.5]]
    assert both_ways(matrix, "hit@1") == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert both_ways(matrix, "hit@5") == (1, 1)


def test_every_query_is_looked_for_at_its_own_place_and_all_are_counted() -> None:
    """A recall that looks for index 0, or counts five queries, cannot give these."""
    assert both_ways(np.eye(3).tolist(), "hit@1") == (1, 1)
    twelve = np.eye(12)
    twelve[5:, 5:] = np.roll(np.eye(7), 1, axis=1)  # from the sixth on, all are wrong
    assert both_ways(twelve.tolist(), "hit@1") == (pytest.approx(5 / 12), pytest.approx(5 / 12))


def test_the_mean_of_the_directions() -> None:
    assert average_directions({"hit@1": 0.254, "r@1": 1}, {"hit@1": 0.280}) == {"hit@1": pytest.approx(0.267)}


def test_the_texts_of_an_image_come_from_the_same_judgments() -> None:
    qrels = pd.DataFrame({"query_id": ["t1", "t2", "t3"], "image_id": ["a", "a", "b"], "relevance": [2, 1, 1]})
    truth = index_qrels(transpose_qrels(qrels))
    assert truth.query_ids.to_pylist() == ["a", "b"]
    assert truth.relevant_counts.tolist() == [2, 1]


# --- graded ----------------------------------------------------------------------------------------------------------


def test_grades() -> None:
    judgments = {"a": 2, "b": 0, "c": 1, "d": 1}
    images = ["a", "b", "c"]
    discounted = 3 + 1 / 2
    assert discounted == 3.5
    ideal = 3 + 1 / np.log2(3) + 1 / 2
    assert ideal == pytest.approx(4.130930, abs=5e-7)
    assert one(judgments, images, "ndcg@10") == pytest.approx(discounted / ideal, abs=1e-12)
    assert one(judgments, images, "ndcg@10") == pytest.approx(0.847267, abs=5e-7)
    assert one(judgments, images, "ap_graded@10") == pytest.approx(0.444444, abs=5e-7)
    assert one(judgments, ["c"], "p@1") == 1, "every grade above 0 counts as relevant"


def test_graded_ap_weighs_a_grade_alike_in_every_set() -> None:
    """A query alone scores what it scores beside one with a grade 2; `scale=set` is the other reading."""
    alone = ranked({"q1": {"a": 1}}, {"q1": {"a": 1.0}})
    assert compute_metric(alone, parse_metric("ap_graded@10")).tolist() == [0.5]
    assert compute_metric(alone, parse_metric("ap_graded@10(scale=set)")).tolist() == [1]
    four = ranked({"q1": {"a": 4, "b": 2}}, {"q1": {"a": 2.0, "b": 1.0}})
    assert compute_metric(four, parse_metric("ap_graded@10")).tolist() == [0.75], "a higher grade counts 1"


def test_the_highest_grade_is_that_of_the_whole_set() -> None:
    found = ranked({"q1": {"a": 1}, "q2": {"b": 2}}, {"q1": {"a": 1.0}, "q2": {"b": 1.0}})
    assert compute_metric(found, parse_metric("ap_graded@10")).tolist() == [0.5, 1]
    assert compute_metric(found, parse_metric("ndcg@10")).tolist() == [1, 1]


# --- re-identification of fruit: R is 5 ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "trapezoid", "rectangles"),
    [
        ([1, 0, 0, 1, 1], 0.393333, 0.42),
        ([0, 1, 1, 1, 0], 0.308333, 0.383333),
        ([1, 0, 1, 1, 0], 0.458333, 0.483333),
    ],
)
def test_areas_under_the_curve(pattern: list[int], trapezoid: float, rectangles: float) -> None:
    assert hits(pattern, 5, "ap_trapezoid") == pytest.approx(trapezoid, abs=5e-7)
    assert hits(pattern, 5, "ap") == pytest.approx(rectangles, abs=5e-7)


def test_the_two_systems_for_fruit() -> None:
    first, second = [[0, 1, 1, 1, 0], [1, 0, 0, 1, 1]], [[1, 0, 1, 1, 0], [0, 1, 1, 1, 0]]
    for system, mean in ((first, 0.350833), (second, 0.383333)):
        assert np.mean([hits(pattern, 5, "ap_trapezoid") for pattern in system]) == pytest.approx(mean, abs=5e-7)
        run = {
            f"q{n}": shown([f"{'x' if right else 'w'}{k}" for k, right in enumerate(p)]) for n, p in enumerate(system)
        }
        qrels = {query: {image: 1 for image in images if image[0] == "x"} for query, images in run.items()}
        assert compute_cmc_curve(ranked(qrels, run), 5).tolist() == [0.5, 1, 1, 1, 1]
    assert hits([0, 1, 1, 1, 0], 4, "ap_trapezoid") == pytest.approx(0.385417, abs=5e-7), "R is what the qrels say"
    assert hits([1, 0, 1, 1, 0], 4, "ap_trapezoid") == pytest.approx(0.572917, abs=5e-7)


def test_the_curve_of_precision_over_recall() -> None:
    images = ["a", "w1", "w2", "b", "c"]
    found = ranked({"q": dict.fromkeys("abcde", 1)}, {"q": shown(images)})
    recalls, precisions = compute_precision_recall_curve(found, 5)
    assert recalls == pytest.approx([0.2, 0.2, 0.2, 0.4, 0.6])
    assert precisions == pytest.approx([1, 0.5, 1 / 3, 0.5, 0.6])


# --- what a figure is divided by -------------------------------------------------------------------------------------


def test_precision_is_divided_by_k_and_recall_by_all_relevant() -> None:
    assert hits([1, 0, 1], 4, "p@10") == 0.2, "also where fewer than k came back"
    assert hits([1, 0, 1], 4, "r@10") == 0.5
    assert hits([1, 0, 1], 4, "hit@10") == 1
    assert hits([0, 0, 1], 4, "hit@2") == 0


def test_average_precision_is_divided_by_all_relevant_or_by_k() -> None:
    assert hits([1, 0, 1], 4, "ap@2") == 1 / 4
    assert hits([1, 0, 1], 4, "ap@2(norm=min)") == 1 / 2
    assert hits([1, 0, 1], 1 + 1, "ap@3(norm=min)") == hits([1, 0, 1], 2, "ap@3")


def test_cuts_at_the_number_of_relevant_images() -> None:
    assert hits([1, 0, 1, 1], 3, "p@r") == 2 / 3
    assert hits([1, 0, 1, 1], 3, "ap@r") == pytest.approx((1 + 2 / 3) / 3)
    assert hits([0, 1], 1, "p@r") == 0


def test_reciprocal_rank_ends_at_the_cut() -> None:
    assert hits([0, 0, 1, 1], 2, "rr") == 1 / 3
    assert hits([0, 0, 1, 1], 2, "rr@2") == 0


def test_the_ideal_order_is_of_all_judged_images() -> None:
    assert one({"a": 1, "missed": 2}, ["a"], "ndcg@10") == pytest.approx(1 / (3 + 1 / np.log2(3)))
    assert one({"a": 1, "missed": 2}, ["a"], "ndcg@1") == pytest.approx(1 / 3)
    assert one({"a": 2, "b": 1}, ["a", "b"], "ndcg@10") == 1, "exactly"


# --- ties, missing results, queries without truth --------------------------------------------------------------------


def test_ties_go_to_the_highest_id() -> None:
    for order in (["a", "b", "é", "图"], ["图", "é", "b", "a"]):
        found = ranked({"q": {"图": 1, "a": 1}}, {"q": dict.fromkeys(order, 0.5)})
        assert found.image_ids.take(found.image_code).to_pylist() == ["图", "é", "b", "a"]
        assert compute_metric(found, parse_metric("p@1")).tolist() == [1]


def test_a_constant_scorer_gets_chance() -> None:
    """One right image among ten, at every place in turn: whatever rule decides ties, one query in ten is right."""
    images = [f"img{n}" for n in range(10)]
    found = ranked(
        {f"q{n}": {images[n]: 1} for n in range(10)}, {f"q{n}": dict.fromkeys(images, 1.0) for n in range(10)}
    )
    assert compute_metric(found, parse_metric("hit@1")).mean() == pytest.approx(0.1)


def test_queries_with_a_tie_at_the_cut_are_counted() -> None:
    runs = {"q1": {"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0}, "q2": {"a": 1.0, "b": 1.0}, "q3": {"a": 1.0}}
    found = ranked({q: {"a": 1} for q in ("q1", "q2", "q3")}, runs)
    assert [found.count_ties_at(k) for k in (1, 2, 3, 4)] == [1, 1, 0, 0]


def test_a_query_that_the_run_leaves_out_counts_as_0() -> None:
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}}
    scores = score_run(ranked(qrels, {"q1": {"a": 1.0}}), ["hit@1", "p@1"])
    assert scores.means() == {"hit@1": 0.5, "p@1": 0.5}
    assert scores.missing_queries == ("q2",)
    assert scores.counts()["queries_missing"] == 1
    nothing = score_run(ranked(qrels, {}), ["hit@1", "ndcg@10", "ap"])
    assert nothing.means() == {"hit@1": 0, "ndcg@10": 0, "ap": 0}


def test_queries_without_a_relevant_image_are_no_part_of_the_mean() -> None:
    qrels = {"q1": {"a": 1}, "empty": {"a": 0}}
    for run in ({"q1": {"a": 1.0}}, {"q1": {"a": 1.0}, "empty": {"a": 1.0}}):
        scores = score_run(ranked(qrels, run), ["hit@1"])
        assert scores.means() == {"hit@1": 1}
        assert scores.counts()["queries_without_relevant_images"] == 1


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("q", "a", float("nan"))], r"q \(read run\): has the score nan"),
        ([("q", "a", float("-inf"))], r"q \(read run\): has the score -inf"),
        ([("q", "a", 1.0), ("q", "a", 0.5)], r"q \(read run\): image a is returned twice"),
        ([("who", "a", 1.0)], r"who \(read run\): is not a query of the qrels"),
        ([(None, "a", 1.0)], "a row has no query_id"),
    ],
)
def test_a_broken_run_is_refused_and_the_query_named(rows: list[tuple[str, str, float]], told: str) -> None:
    good: list[tuple[str, str, float]] = [("p", "a", 1.0)]
    run = pd.DataFrame(good + rows, columns=["query_id", "image_id", "score"])
    with pytest.raises(UserError, match=told):
        rank_run(run, index_qrels(qrels_table({"p": {"a": 1}, "q": {"a": 1}})))


def test_an_image_that_is_not_in_the_gallery_keeps_its_rank() -> None:
    truth = index_qrels(qrels_table({"q": {"a": 1}}), gallery=["b", "a"])
    behind = rank_run(run_table({"q": {"b": 1.0, "c": 0.5, "a": 0.1}}), truth)
    assert compute_metric(behind, parse_metric("rr")).tolist() == [1 / 3]
    assert compute_metric(rank_run(run_table({"q": {"b": 1.0, "a": 0.5}}), truth), parse_metric("rr")).tolist() == [0.5]
    with pytest.raises(UserError, match=r"z .*is judged, but is not in the gallery"):
        index_qrels(qrels_table({"q": {"a": 1, "z": 0}}), gallery=["a", "b"])


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("q", "a", -1)], "relevance of a is -1"),
        ([("q", "a", 0.5)], "relevance of a is 0.5"),
        ([("q", "a", 1001)], "relevance of a is 1001, not a whole number from 0 to 1000"),
        ([("q", "a", float("nan"))], "relevance of a is nan"),
        ([("q", "a", 1), ("q", "a", 2)], r"q \(read judgments\): image a is judged twice"),
        ([("q", "a", 0)], "no query has a relevant image"),
        ([], "no query has a relevant image"),
        ([("q", None, 1)], "no query_id or no image_id"),
    ],
)
def test_broken_judgments_are_refused(rows: list[tuple[str, str, float]], told: str) -> None:
    with pytest.raises(UserError, match=told):
        index_qrels(pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"]))


def test_the_judged_share_is_of_what_came_back() -> None:
    found = ranked({"q": {"a": 1, "b": 0}, "z": {"a": 1}}, {"q": shown(["a", "x", "b", "y"])})
    assert judged_at_k(found, 2).tolist() == [0.5, 0]
    assert judged_at_k(found, 10).tolist() == [0.5, 0]
