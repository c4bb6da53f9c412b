"""All that is said of a run, worked on a world that is small enough to check by hand."""

import json

import numpy as np
import pandas as pd
import pytest

from querytruth.errors import UserError
from querytruth.evaluation.comparison import COMPARISON_COLUMNS
from querytruth.evaluation.evaluation_result import (
    FIGURE_COLUMNS,
    OPEN_SET_COLUMNS,
    RANKED_COLUMNS,
    SLICE_COLUMNS,
    EvaluationResult,
)
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metric_scores import DEFAULT_METRICS
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.result_files import result_to_json
from querytruth.evaluation.run_evaluation import EvaluationSpec, choose_metrics, choose_search_depth, evaluate_run
from querytruth.evaluation.system_differences import compare_all_pairs, compare_two_systems, make_unique_names

IMAGES = [f"img_{n}" for n in range(10)]
QRELS = pd.DataFrame(
    [("q1", "img_1", 2), ("q1", "img_2", 1), ("q2", "img_3", 1), ("q3", "img_4", 0)],
    columns=["query_id", "image_id", "relevance"],
)
QUERIES = pd.DataFrame({"query_id": ["q1", "q2", "q3"], "text": ["a", "b c d", "e"], "style": ["word"] * 3})
TOLD = {"name": "toy", "version": 1, "content_digest": "0", "kind": "precision", "title": "Toy"}


def run_of(shown: dict[str, list[str]]) -> pd.DataFrame:
    rows = [(query, image, -place) for query, images in shown.items() for place, image in enumerate(images)]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "score"]).astype({"score": float})


def said(shown: dict[str, list[str]], *metrics: str, name: str = "mine") -> EvaluationResult:
    asked = EvaluationSpec(
        TOLD, index_qrels(QRELS, IMAGES), queries=QUERIES, metrics=metrics or ("hit@1", "r@2", "p@r")
    )
    return evaluate_run(rank_run(run_of(shown), asked.truth), asked, {"kind": "run", "name": name})


GOOD = {"q1": ["img_1", "img_5", "img_2"], "q2": ["img_3"], "q3": ["img_4"]}
BAD = {"q1": ["img_5", "img_6"], "q2": ["img_9", "img_3"]}


def test_every_part_has_its_columns() -> None:
    found = said(GOOD)
    assert list(found.figures) == FIGURE_COLUMNS and list(found.slices) == SLICE_COLUMNS
    assert list(found.open_set) == OPEN_SET_COLUMNS and list(found.ranked) == RANKED_COLUMNS
    assert found.metrics == ["hit@1", "r@2", "p@r"]
    assert found.figures["value"].tolist() == [1, 0.75, 0.75]
    assert found.figures["at_least"].tolist() == found.figures["value"].tolist()
    assert found.figures["chance"].tolist() == pytest.approx([(0.2 + 0.1) / 2, 0.2, (0.2 + 0.1) / 2])
    assert found.per_query.index.tolist() == ["q1", "q2"], "a query without a relevant image counts for nothing"
    assert found.cmc.tolist() == [1] * 3, "the curve ends where the run ends"
    assert found.precision_recall["recall"].iloc[[0, 1, 2]].tolist() == [0.75, 0.75, 1]
    assert found.ranked[found.ranked["query_id"] == "q1"]["relevance"].tolist() == [2, -1, 1]
    assert found.counts["queries_without_relevant_images"] == 1
    assert set(found.slices["slice"]) == {"style", "length"}
    assert found.thresholds["0.9"] is not None and found.thresholds["0.9"].precision == 1


def test_what_is_left_out_cut_short_or_tied_is_said() -> None:
    codes = {warning.code: warning for warning in said({"q1": ["img_1"]}).warnings}
    assert {"missing_queries", "cut_short", "few_queries"} <= set(codes)
    assert "1 of 2 queries" in codes["missing_queries"].detail and "for example q2" in codes["missing_queries"].detail
    assert codes["cut_short"].metric == "p@r", "only a metric without a number looks further than what came back"
    assert not [w for w in said({"q1": ["img_1"]}, "hit@1").warnings if w.code == "cut_short"]
    enough = said({"q1": ["img_1", "img_2"], "q2": ["img_3"]}, "p@r")
    assert not [warning for warning in enough.warnings if warning.code == "cut_short"]
    asked = EvaluationSpec(TOLD, index_qrels(QRELS, IMAGES), metrics=("hit@1", "hit@2"))
    same = run_of({"q1": IMAGES[:2], "q2": IMAGES[:2]}).assign(score=0.5)
    tied = evaluate_run(rank_run(same, asked.truth), asked, {"kind": "run", "name": "same"}).warnings
    assert [warning.metric for warning in tied if warning.code == "ties"] == ["@1"], "after both there is nothing"


def test_a_system_that_finds_nothing_gets_0() -> None:
    found = said({}, "hit@1", "p@r", "ap")
    assert found.figures["value"].tolist() == [0, 0, 0] and len(found.ranked) == 0
    assert found.thresholds["0.9"] is None and len(found.open_set) == 0
    assert result_to_json(found)["cmc"][0] == 0


def test_chance_is_unknown_where_nobody_knows_the_gallery() -> None:
    asked = EvaluationSpec(TOLD, index_qrels(QRELS), metrics=("hit@1",))
    found = evaluate_run(rank_run(run_of(GOOD), asked.truth), asked, {"kind": "run", "name": "x"})
    assert np.isnan(found.figures["chance"]).all() and len(found.cmc) == 3
    assert result_to_json(found)["figures"][0]["chance"] is None
    assert not [warning for warning in found.warnings if warning.code == "like_chance"]


def test_plain_data_is_json_without_nan() -> None:
    told = result_to_json(said({"q1": ["img_1"]}, "hit@1"))
    text = json.dumps(told, allow_nan=False)
    assert json.loads(text) == told
    assert told["figures"][0]["definition"].startswith("1 if a relevant one")
    assert told["thresholds"]["0.9"]["elsewhere"] is None
    assert told["open_set"]["precision"] == [1] and told["warnings"][0]["code"] == "missing_queries"


def test_how_deep_a_search_goes() -> None:
    truth = index_qrels(QRELS, IMAGES)
    many = pd.DataFrame({"query_id": "q", "image_id": [f"i{n:04}" for n in range(1500)], "relevance": 1})
    assert choose_search_depth(["hit@1", "p@r"], truth, None) == 100
    assert choose_search_depth(["hit@200"], truth, None) == 200
    assert (
        choose_search_depth(["p@r"], index_qrels(many), None) == 1000
        and choose_search_depth(["p@5"], index_qrels(many), None) == 100
    )
    assert choose_search_depth(["hit@5"], truth, 7) == 7
    with pytest.raises(UserError, match="less than 5"):
        choose_search_depth(["hit@5"], truth, 4)


def test_two_systems_side_by_side() -> None:
    one, other = said(GOOD, name="good"), said(BAD, "hit@1", "rr", name="bad")
    both = compare_two_systems(one, other, None)
    assert list(both.table) == COMPARISON_COLUMNS and both.table["metric"].tolist() == ["hit@1"], (
        "what both of them have"
    )
    assert (both.table["one"][0], both.table["other"][0], both.table["difference"][0]) == ("good", "bad", 1)
    assert both.most_different_queries == ["q1", "q2"] and both.differences.tolist() == [1, 1]
    finer = compare_two_systems(said(GOOD, "hit@1", "rr"), said(BAD | {"q1": ["img_5", "img_1"]}, "hit@1", "rr"), None)
    assert finer.most_different_queries == ["q1", "q2"]
    finer = compare_two_systems(
        said(GOOD, "hit@1", "rr"), said(BAD | {"q2": ["img_5"]}, "hit@1", "rr"), None, max_queries=1
    )
    assert finer.most_different_queries == ["q1"]
    uneven = compare_two_systems(said(GOOD, "hit@1", "rr"), said({"q1": ["img_5", "img_1"]}, "hit@1", "rr"), None)
    assert uneven.most_different_queries == ["q2", "q1"], "of equal hits the reciprocal rank decides"


def test_names_that_are_shared_are_told_apart() -> None:
    results = [said(GOOD, name=name) for name in ("a", "a", "b", "a")]
    assert make_unique_names(results) == ["a", "a (2)", "b", "a (3)"]
    assert len(compare_all_pairs(results, None)) == 6 * 3


def test_a_run_that_ends_before_a_metric_does_is_said_to_be_short() -> None:
    found = said(BAD, "hit@1", "r@5", "p@10", "rr")
    (warning,) = [one for one in found.warnings if one.code == "short_run"]
    assert warning.metric == "r@5, p@10" and "the run ends at rank 2" in warning.detail
    assert len(found.cmc) == len(found.precision_recall) == 2
    whole = said({"q1": IMAGES, "q2": IMAGES}, "p@20")
    assert "short_run" not in {one.code for one in whole.warnings}, "there are no more images"


def test_explicit_negatives_are_counted_for_queries_of_families_alone() -> None:
    qrels = pd.DataFrame(
        [("q1", "img_1", 1), ("q1", "img_2", 0), ("q2", "img_1", 1), ("q2", "img_2", 0)],
        columns=["query_id", "image_id", "relevance"],
    )
    queries = pd.DataFrame({"query_id": ["q1", "q2"], "text": ["a dog, no car", "dog"], "family": ["negation/x", None]})

    def evaluate(shown: list[str], families: bool = True) -> EvaluationResult:
        known = queries if families else queries.drop(columns="family")
        spec = EvaluationSpec(TOLD, index_qrels(qrels, IMAGES), queries=known, metrics=["p@1", "p@2"])
        return evaluate_run(rank_run(run_of({"q1": shown, "q2": shown}), spec.truth), spec, {"name": "mine"})

    deaf, oracle = evaluate(["img_2", "img_1"]), evaluate(["img_1", "img_5"])
    assert deaf.counts["explicit_negatives"] == {"neg@1": 1.0, "neg@2": 0.5}
    assert oracle.counts["explicit_negatives"] == {"neg@1": 0.0, "neg@2": 0.0}
    of_kind = deaf.slices[(deaf.slices["slice"] == "kind") & (deaf.slices["metric"] == "neg@1")]
    assert of_kind[["value", "queries", "mean"]].to_numpy().tolist() == [["negation/x", 1, 1.0]]
    plain = evaluate(["img_2", "img_1"], families=False)
    assert "explicit_negatives" not in plain.counts and not plain.slices["metric"].str.startswith("neg").any()


def test_the_usual_metrics_are_those_that_k_results_are_enough_for() -> None:
    assert choose_metrics([]) == list(DEFAULT_METRICS)
    assert choose_metrics([], 5) == ["hit@1", "hit@5", "p@1", "p@5", "p@r", "ap@r"]
    assert choose_metrics(["MRR@10"], 5) == ["rr@10"]
