"""Small worlds of queries, judgments and rankings: ranked as in an evaluation, or drawn by Hypothesis, full of ties."""

from typing import Any

from hypothesis import strategies as st

from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.ranking import RankedRun, rank_run
from tests.evaluation.naive_metrics import NaiveQrels, NaiveRun, qrels_table, run_table

IMAGES = ["img_a", "img_B", "img_b", "img_é", "图_一", "图_二", "img_10", "img_9", "x"]
SCORES = [-1.5, 0.0, 0.25, 0.5, 0.75, 1.0]
METRIC_NAMES = [
    *("p@1", "p@3", "p@20", "p@r", "r@2", "r@5", "r", "hit@1", "hit@4", "hit", "rr@3", "rr"),
    *("ndcg@1", "ndcg@3", "ndcg@10", "ndcg", "ndcg@3(gain=linear)", "ndcg(gain=linear)"),
    *("ap@1", "ap@3", "ap@3(norm=min)", "ap", "ap@r", "ap(norm=min)"),
    *("ap_graded@3", "ap_graded", "ap_graded(scale=set)", "ap_trapezoid@4", "ap_trapezoid"),
]


def ranked(qrels: NaiveQrels, run: NaiveRun) -> RankedRun:
    return rank_run(run_table(run), index_qrels(qrels_table(qrels)))


def shown(images: list[str]) -> dict[str, float]:
    return {image: float(-place) for place, image in enumerate(images)}


@st.composite
def qrels_and_runs(draw: Any, grades: int = 3) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """qrels of which at least one query has a relevant image, and a run that leaves some queries out."""
    queries = draw(st.lists(st.sampled_from(["q_1", "q_2", "q_10", "问", "Q"]), min_size=1, unique=True))
    judgments = st.dictionaries(st.sampled_from(IMAGES), st.integers(0, grades), max_size=len(IMAGES))
    qrels = {query: draw(judgments) for query in queries}
    qrels[queries[0]][draw(st.sampled_from(IMAGES))] = draw(st.integers(1, grades))
    rankings = st.dictionaries(st.sampled_from(IMAGES), st.sampled_from(SCORES), max_size=len(IMAGES))
    judged_queries = draw(st.lists(st.sampled_from([query for query in queries if qrels[query]]), unique=True))
    return qrels, {query: draw(rankings) for query in judged_queries}
