"""Evaluations for stories about their pages: five queries on a beach, and as many as wished."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from querytruth.evaluation.evaluation_result import TEXT_TO_IMAGE, EvaluationResult, SystemComparison
from querytruth.evaluation.open_set import OpenSetThreshold
from querytruth.sets.benchmark_set import Tables
from tests.review.recall_sets import qrels_table, recall_beach_tables

METRICS = ["hit@1", "hit@5", "ndcg@10", "p@1"]
FIGURES = ["metric", "value", "low", "high", "at_least", "at_most", "chance"]
SLICES = ["slice", "value", "queries", "metric", "mean", "low", "high"]


THRESHOLD = OpenSetThreshold(0.8, 0.9, 0.95, 0.4, 1234, 1, 0, float("nan"))
SET = {"name": "beach", "version": 1, "content_digest": "c0ffee", "kind": "recall", "title": "The beach 海边"}


def make_ranked_table(answers: dict[str, list[tuple[str, int]]]) -> pd.DataFrame:
    """Rows from (image, relevance) by query, the best first; scores fall by a tenth."""
    rows = [
        (query_id, rank, image_id, 1 - rank / 10, relevance)
        for query_id, listed in answers.items()
        for rank, (image_id, relevance) in enumerate(listed, 1)
    ]
    ranked = pd.DataFrame(rows, columns=["query_id", "rank", "image_id", "score", "relevance"])
    return ranked.astype({"rank": "int64", "relevance": "int64", "score": "float64"})


ANSWERS = {
    "q_1": [("img_dog", 1), ("img_ship", -1)],
    "q_2": [("img_ship", -1), ("img_dog", 1)],
    "q_3": [("img_ship", -1), ("img_boat", -1)],
    "q_4": [("img_dog", 0), ("img_ship", 1)],
}


def beach_tables() -> Tables:
    """The beach, where q_4 was judged not to fit the dog."""
    set_ = recall_beach_tables()
    rows = list(set_.qrels[["query_id", "image_id", "relevance"]].itertuples(index=False, name=None))
    return replace(set_, qrels=qrels_table(sorted([*rows, ("q_4", "img_dog", 0)])))


def make_evaluation(
    ranked: pd.DataFrame | None = None, query_ids: list[str] | None = None, **changes: Any
) -> EvaluationResult:
    """The figures are no means of anything: pages show what they are given."""
    names = query_ids or [f"q_{n}" for n in range(1, 6)]
    per_query = pd.DataFrame(0.5, index=pd.Index(names, name="query_id"), columns=METRICS)
    figures = pd.DataFrame([(name, 0.5, 0.4, 0.6, 0.5, 0.7, 0.1) for name in METRICS], columns=FIGURES)
    parts = [("language", "zh", 4), ("language", "en", 1), ("level", "1", 5)]
    slices = [(*part, metric, 0.5, 0.25, 0.75) for part in parts for metric in METRICS]
    curve = np.linspace(0.4, 0.9, 20)
    base = EvaluationResult(
        system={"name": "tiny-clip", "kind": "model", "k": 50},
        set=SET,
        direction=TEXT_TO_IMAGE,
        conventions={"ties": "by image id, highest first"},
        figures=figures,
        per_query=per_query,
        slices=pd.DataFrame(slices, columns=SLICES),
        cmc=curve,
        precision_recall=pd.DataFrame({"recall": curve, "precision": 1 - curve}),
        open_set=pd.DataFrame(
            {"threshold": [0.9, 0.5], "precision": [1.0, 0.4], "recall": [0.1, 0.9], "shown": [3, 40]}
        ),
        ranked=make_ranked_table(ANSWERS) if ranked is None else ranked,
        counts={"queries": 5},
        definitions={"hit@1": "1 where the first one is right."},
        thresholds={"0.9": THRESHOLD, "0.99": None},
    )
    return replace(base, **changes)


def make_comparison(**changes: Any) -> SystemComparison:
    """The second system answers q_2 better and q_1 worse."""
    other = {**ANSWERS, "q_1": [("img_ship", -1), ("img_dog", 1)], "q_2": [("img_dog", 1)]}
    two = (make_evaluation(), make_evaluation(make_ranked_table(other), system={"name": "lexical"}))
    rows = [
        (name, "tiny-clip", "lexical", 0.07, 0.03, 0.11, 0.001, 0.002, 2, 2, 1, 0.05) if n == 0
        else (name, "tiny-clip", "lexical", -0.01, -0.05, 0.03, 0.6, 0.6, 1, 3, 1, 0.06)
        for n, name in enumerate(METRICS)
    ]  # fmt: skip
    columns = ["metric", "one", "other", "difference", "low", "high", "p", "p_holm", "wins", "ties", "losses"]
    table = pd.DataFrame(rows, columns=[*columns, "detectable"])
    differences = pd.Series({"q_1": 1.0, "q_2": -0.5, "q_3": 0.0})
    return replace(SystemComparison(*two, table, ["q_1", "q_2"], differences), **changes)
