"""The metrics: worked examples, names, a slow reference, trec_eval, and a metric of one's own."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querytruth.errors import UserError
from querytruth.evaluation import metrics
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metric_scores import DEFAULT_METRICS, average_directions, score_run, transpose_qrels
from querytruth.evaluation.metrics import (
    Metric,
    MetricFunction,
    compute_cmc_curve,
    compute_metric,
    compute_precision_recall_curve,
    judged_at_k,
    parse_metric,
)
from querytruth.evaluation.ranking import FloatArray, Hits, RankedRun, rank_run
from querytruth.evaluation.vector_search import run_from_similarities
from tests.command_runner import invoke
from tests.evaluation.naive_metrics import (
    NaiveQrels,
    NaiveRun,
    judged_share,
    metric_values,
    qrels_table,
    ranking,
    run_table,
)
from tests.evaluation.random_rankings import METRIC_NAMES, qrels_and_runs, ranked, shown
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

World = tuple[NaiveQrels, NaiveRun]


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


# --- ties, missing results, queries without truth --------------------------------------------------------------------


def test_ties_go_to_the_highest_id() -> None:
    for order in (["a", "b", "é", "图"], ["图", "é", "b", "a"]):
        found = ranked({"q": {"图": 1, "a": 1}}, {"q": dict.fromkeys(order, 0.5)})
        assert found.image_ids.take(found.image_code).to_pylist() == ["图", "é", "b", "a"]
        assert compute_metric(found, parse_metric("p@1")).tolist() == [1]


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
        ([("q", "a", 0)], "no judged image is relevant"),
        ([], "no judged image is relevant"),
        ([("q", None, 1)], "no query_id or no image_id"),
    ],
)
def test_broken_judgments_are_refused(rows: list[tuple[str, str, float]], told: str) -> None:
    with pytest.raises(UserError, match=told):
        index_qrels(pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"]))


@pytest.mark.parametrize("name", [*METRIC_NAMES, *DEFAULT_METRICS])
def test_a_name_reads_back(name: str) -> None:
    assert str(parse_metric(name)) == name
    assert parse_metric(str(parse_metric(name))) == parse_metric(name)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("nDCG@10", "ndcg@10"),
        (" AP@50( norm=min ) ", "ap@50(norm=min)"),
        ("ap@50(norm=r)", "ap@50"),
        ("ndcg(gain=exp)", "ndcg"),
        ("mAP@R", "ap@r"),
        ("R-precision", "p@r"),
        ("MRR@10", "rr@10"),
        ("Acc@5", "hit@5"),
        ("P@05", "p@5"),
    ],
)
def test_other_spellings(spelled: str, name: str) -> None:
    assert str(parse_metric(spelled)) == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ndgc@10", r"is not a known metric. Next: did you mean 'ndcg'\?"),
        ("recall@10", r"has two meanings. Next: choose r \(the share .* or hit"),
        ("p", "has no cut-off. Next: write p@K with a whole number K from 1 or p@r"),
        ("p@0", "has the cut-off '0'"),
        ("p@9999999999", "has the cut-off '9999999999'"),
        ("p@-1", "has the cut-off '_1'"),
        ("p@١", "has the cut-off '١'"),
        ("ndcg@r", "has the cut-off 'r'. Next: write ndcg@K with a whole number K from 1 or ndcg"),
        ("ap@5(norm=max)", "has no option 'norm=max'. Next: choose from ap: norm=r, ap: norm=min"),
        ("p@5(norm=min)", "has no option 'norm=min'. Next: choose from none"),
        ("", "is not the name of a metric"),
        ("p@5@6(", "is not the name of a metric"),
    ],
)
def test_what_is_no_name_is_answered_with_a_way_out(name: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        parse_metric(name)


def test_a_definition_says_what_was_chosen() -> None:
    assert parse_metric("ap@5(norm=min)").definition.endswith("Here: k = 5, norm=min.")
    assert "divided by k, also where fewer came back" in parse_metric("p@5").definition
    assert "k = R" in parse_metric("p@r").definition
    assert Metric("rr", None).definition.endswith("Here: k = all results returned.")


def by_query(found: RankedRun, name: str) -> dict[str, float]:
    return dict(zip(found.truth.query_ids.to_pylist(), compute_metric(found, parse_metric(name)).tolist(), strict=True))


@given(qrels_and_runs())
@settings(max_examples=50)
def test_every_metric_is_what_its_definition_says(world: World) -> None:
    qrels, run = world
    found = ranked(qrels, run)
    for name in METRIC_NAMES:
        metric = parse_metric(name)
        expected = metric_values(metric.name, metric.cut, dict(metric.options), qrels, run)
        assert by_query(found, name) == pytest.approx(expected, abs=1e-12), name


@given(qrels_and_runs(), st.randoms(use_true_random=False))
@settings(max_examples=40)
@pytest.mark.thorough
def test_the_order_of_rows_and_the_type_of_ids_count_nothing(world: World, shuffle: random.Random) -> None:
    qrels, run = world
    truth, rows = qrels_table(qrels), run_table(run)
    plain = rank_run(rows, index_qrels(truth))
    mixed_truth = truth.sample(frac=1, random_state=shuffle.randrange(2**32))
    mixed = rows.sample(frac=1, random_state=shuffle.randrange(2**32)).astype(
        {"query_id": "category", "image_id": "category"}
    )
    other = rank_run(mixed, index_qrels(mixed_truth.astype({"query_id": "category", "image_id": "object"})))
    pieces = rank_run(
        pd.concat([rows.iloc[:1], rows.iloc[1:]]), index_qrels(pd.concat([truth.iloc[:1], truth.iloc[1:]]))
    )
    for name in METRIC_NAMES:
        assert compute_metric(plain, parse_metric(name)).tolist() == compute_metric(other, parse_metric(name)).tolist()
        assert compute_metric(plain, parse_metric(name)).tolist() == compute_metric(pieces, parse_metric(name)).tolist()


@given(qrels_and_runs(), st.integers(1, 12))
@settings(max_examples=50)
def test_curves_and_the_judged_share_are_what_their_definitions_say(world: World, k: int) -> None:
    qrels, run = world
    found = ranked(qrels, run)
    ranks = range(1, k + 1)
    curve = compute_cmc_curve(found, k)
    assert curve == pytest.approx([compute_metric(found, parse_metric(f"hit@{n}")).mean() for n in ranks], abs=1e-12)
    assert (np.diff(curve) >= 0).all()
    recalls, precisions = compute_precision_recall_curve(found, k)
    assert recalls == pytest.approx([compute_metric(found, parse_metric(f"r@{n}")).mean() for n in ranks], abs=1e-12)
    assert precisions == pytest.approx([compute_metric(found, parse_metric(f"p@{n}")).mean() for n in ranks], abs=1e-12)
    shares = {query: judged_share(qrels, query, ranking(run.get(query, {})), k) for query in by_query(found, "hit")}
    assert dict(zip(shares, judged_at_k(found, k)[np.argsort(np.argsort(list(shares)))], strict=True)) == shares


# --- against trec_eval's own code ------------------------------------------------------------------------------------

TREC = {f"P_{k}": f"p@{k}" for k in (1, 5, 10, 20)} | {f"recall_{k}": f"r@{k}" for k in (1, 5, 10, 20)}
TREC |= {f"ndcg_cut_{k}": f"ndcg@{k}(gain=linear)" for k in (1, 5, 10, 20)}
TREC |= {f"map_cut_{k}": f"ap@{k}" for k in (1, 5, 10, 20)} | {f"success_{k}": f"hit@{k}" for k in (1, 5, 10)}
TREC |= {"map": "ap", "recip_rank": "rr", "Rprec": "p@r", "ndcg": "ndcg(gain=linear)"}


def tie_heavy(rng: random.Random, runs: int) -> World:
    """So many runs side by side, each of a few queries: few scores for many images, as where matching words count."""
    qrels: NaiveQrels = {}
    run: NaiveRun = {}
    for number in range(runs):
        images = [f"img_{rng.randrange(10**6)}" for _ in range(rng.randint(1, 60))]
        for query in (f"{number}_{n}" for n in range(rng.randint(1, 4))):
            pool = rng.sample(images, rng.randint(1, len(images)))
            qrels[query] = {image: rng.choice([0, 0, 1, 1, 2, 3]) for image in pool}
            qrels[query][pool[0]] = rng.randint(1, 3)
            shown = rng.sample(images, rng.randint(1, len(images)))
            run[query] = {image: rng.randrange(4) / 4 for image in shown}
    return qrels, run


def test_a_thousand_tie_heavy_runs_come_out_as_trec_eval_has_them() -> None:
    trec: Any = pytest.importorskip("pytrec_eval", reason="pytrec_eval is not installed: nothing to compare with")
    qrels, run = tie_heavy(random.Random(5), 1000)
    cuts = {"P.1,5,10,20", "recall.1,5,10,20", "ndcg_cut.1,5,10,20", "map_cut.1,5,10,20", "success.1,5,10"}
    figures = trec.RelevanceEvaluator(qrels, cuts | {"map", "recip_rank", "Rprec", "ndcg"}).evaluate(run)
    found = ranked(qrels, run)
    for theirs, ours in TREC.items():
        expected = {query: of[theirs] for query, of in figures.items()}
        assert by_query(found, ours) == pytest.approx(expected, abs=1e-12), theirs


def second_place(hits: Hits, _k: metrics.Cut) -> FloatArray:
    """1 where a relevant image has rank 2."""
    return hits.sum_per_query(hits.rank == 2)


@pytest.mark.thorough
def test_an_added_metric_is_measured_without_a_figure_of_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(metrics.METRIC_FUNCTIONS, "second", MetricFunction(second_place))
    stored = publish_small_set(tmp_path, small_tables())
    ranked = {"dog": ["tree", "beach"], "狗": ["beach", "tree"], "cat": ["tree", "cat"]}
    lines = [
        f"{query_id_of(query)} Q0 {image_id_of(image)} {rank} {9 - rank} mine"
        for query, images in ranked.items()
        for rank, image in enumerate(images, 1)
    ]
    (tmp_path / "run.trec").write_text("\n".join(lines), "utf-8")
    words = ["--run", tmp_path / "run.trec", "--metrics", "second@2,hit@1", "--report", tmp_path / "result"]
    ended = invoke("evaluate", stored.path, *words, "--page", "--json")
    assert ended.exit_code == 0, ended.output
    figures = {row["metric"]: row for row in json.loads(ended.stdout)["results"][0]["figures"]}
    assert figures["second@2"]["value"] == pytest.approx(2 / 3)
    assert figures["second@2"]["chance"] is None and figures["hit@1"]["chance"] > 0
    [page] = (tmp_path / "result").rglob("*.html")
    assert "second@2" in page.read_text("utf-8") and "nan" not in page.read_text("utf-8").lower().split()


# --- golden values, and figures of others


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


def test_exponential_gain_comes_out_as_trec_eval_has_it_when_told_the_gains() -> None:
    trec: Any = pytest.importorskip("pytrec_eval", reason="pytrec_eval is not installed: nothing to compare with")
    qrels, run = tie_heavy(random.Random(6), 200)
    worth = {query: {image: 2**grade - 1 for image, grade in of.items()} for query, of in qrels.items()}
    figures = trec.RelevanceEvaluator(worth, {"ndcg_cut.10"}).evaluate(run)
    expected = {query: of["ndcg_cut_10"] for query, of in figures.items()}
    assert by_query(ranked(qrels, run), "ndcg@10") == pytest.approx(expected, abs=1e-12)


def listed(path: Path) -> dict[str, list[str]]:
    return {query: [str(image) for image in images] for query, images in json.loads(path.read_text()).items()}


@pytest.mark.parametrize(
    ("name", "queries", "positives", "mean"),
    [("caption_to_image", 1332, 11279, 0.135873), ("image_to_caption", 1261, 22550, 0.312745)],
)
def test_what_coco_knows_of_the_truth_that_people_found(
    shared: Callable[[str], Path], name: str, queries: int, positives: int, mean: float
) -> None:
    """ECCV Caption's judgments, with COCO's own labels as the system that is measured."""
    folder = shared("multi_positive_gt")
    truth = {query: dict.fromkeys(images, 1) for query, images in listed(folder / f"eccv_{name}.json").items()}
    labels = listed(folder / f"original_{name}.json")
    found = ranked(truth, {query: shown(labels[query]) for query in truth})
    assert len(found.truth.query_ids) == queries
    assert found.truth.relevant_counts.sum() == positives
    assert compute_metric(found, parse_metric("ap@r")).mean() == pytest.approx(mean, abs=5e-7)


def test_cmc_of_the_reidentification_library(shared: Callable[[str], Path]) -> None:
    """open-reid's cases. Its galleries may hold the query itself, taken by the same camera, which it leaves out."""
    cases = {
        case["name"]: case for case in json.loads((shared("metrics_reid") / "cmc_cases.json").read_text())["cases"]
    }
    for case in cases.values():
        count = len(case["query_ids"] or case["distmat"])
        distances = case.get("distmat") or [list(range(count))] * count
        query_ids, gallery_ids = (case[key] or list(range(count)) for key in ("query_ids", "gallery_ids"))
        cameras = case.get("query_cams") or [0] * count, case.get("gallery_cams") or [1] * count
        qrels: NaiveQrels = {}
        run: NaiveRun = {}
        for row, who in enumerate(query_ids):
            there = [n for n in range(count) if (gallery_ids[n], cameras[1][n]) != (who, cameras[0][row])]
            qrels[f"q{row}"] = {f"g{n}": int(gallery_ids[n] == who) for n in there}
            run[f"q{row}"] = {f"g{n}": -float(distances[row][n]) for n in there}
        expected = case.get("expected") or case["expected_first5"]
        assert compute_cmc_curve(ranked(qrels, run), len(expected)).tolist() == pytest.approx(expected), case["name"]
