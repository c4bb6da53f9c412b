"""The two tables of docs/methods.md: recomputed from each tool's definitions, and asked of the tools themselves.

Each tool runs in an environment of its own, made from the package index, where it is not among those of the tests.
"""

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metrics import compute_metric, parse_metric
from querytruth.evaluation.ranking import rank_run
from tests.evaluation.other_evaluators import Qrels, Run

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("methods.md", "zh/methods.md")]
IMAGES = [f"img_{n:02}" for n in range(12)]
QRELS: Qrels = {
    "q1": {"img_00": 2, "img_03": 1, "img_05": 0},
    "q2": {"img_01": 1},
    "q3": {"img_02": 2, "img_04": 2, "img_06": 1, "img_07": 1},
    "q4": {"img_08": 1, "img_09": 0},
}


def rank_images(*first: int) -> dict[str, float]:
    """All twelve images, these first, each with a score of its own above 0."""
    order = [*first, *(n for n in range(12) if n not in first)]
    return {IMAGES[n]: (len(order) - place) / 16 for place, n in enumerate(order)}


PLAIN: Run = {
    "q1": rank_images(3, 1, 0),
    "q2": rank_images(1),
    "q3": rank_images(0, 2, 6, 1, 4),
    "q4": rank_images(0, 1, 2, 3, 8),
}
# q1: a tie, which ranx and torchmetrics leave in the order of the rows, and a relevant image that did not come back; q2
# is left out; q3: a score of 0 and one below; q5 has no relevant image; q6 was not judged.
OPEN: Run = {
    "q1": {"img_04": 0.5, "img_03": 0.5, "img_01": 0.25},
    "q3": {"img_02": 0.25, "img_00": 0.0, "img_04": -0.25},
    "q4": {"img_00": 0.75, "img_08": 0.5},
    "q5": {"img_01": 0.5},
    "q6": {"img_00": 0.5},
}
RUNS = {"plain": (QRELS, PLAIN), "open": (QRELS | {"q5": {"img_01": 0}}, OPEN)}
METRICS = ["hit@1", "hit@5", "p@5", "r@5", "rr@10", "rr", "ap@5", "ndcg@10"]
# Each tool's names for METRICS; without one it does not have the metric.
NAMES = {
    "trec_eval": ["success_1", "success_5", "P_5", "recall_5", "", "recip_rank", "map_cut_5", "ndcg_cut_10"],
    "ir_measures": ["Success@1", "Success@5", "P@5", "R@5", "", "RR", "AP@5", "nDCG@10"],
    "mteb": [
        *("hit_rate_at_1", "hit_rate_at_5", "precision_at_5", "recall_at_5"),
        *("mrr_at_10", "", "map_at_5", "ndcg_at_10"),
    ],
    "ranx": ["hit_rate@1", "hit_rate@5", "precision@5", "recall@5", "mrr@10", "mrr", "map@5", "ndcg_burges@10"],
    "clip_benchmark": ["image_retrieval_recall@1", "image_retrieval_recall@5", "", "", "", "", "", ""],
    "chinese_clip": ["r1", "r5", "", "", "", "", "", ""],
    "torchmetrics": [
        *("RetrievalHitRate(top_k=1)", "RetrievalHitRate(top_k=5)", "RetrievalPrecision(top_k=5)"),
        *("RetrievalRecall(top_k=5)", "RetrievalMRR(top_k=10)", "RetrievalMRR()", "RetrievalMAP(top_k=5)"),
        "RetrievalNormalizedDCG(top_k=10)",
    ],
}
# What each needs besides those of the tests; cn_clip without its own needs, since the script alone is run.
PACKAGES = {
    "ranx": ["ranx>=0.3.21"],
    "torchmetrics": ["torchmetrics>=1.9", "torch>=2.6"],
    "clip_benchmark": ["clip-benchmark>=1.6", "torch>=2.6"],
    "chinese_clip": ["--no-deps", "cn-clip>=1.5", "numpy"],
}
SHORTEST = {"clip_benchmark": 1, "chinese_clip": 10}  # results that each query must have


def compute_figure(tool: str, qrels: Qrels, run: Run, metric: str) -> float:
    """The mean of a metric by the tool's definition, over the queries that the tool counts."""
    counted = {
        "trec_eval": qrels.keys() & run.keys(),
        "mteb": qrels.keys() & run.keys(),
        "torchmetrics": run.keys(),
    }.get(tool, qrels.keys())
    values = [score_query(tool, metric, qrels.get(query, {}), run.get(query, {})) for query in sorted(counted)]
    mean = sum(values) / len(values)
    if tool == "mteb" and not metric.startswith("rr"):
        return round(mean, 5)
    return mean * 100 if tool == "chinese_clip" else mean


def score_query(tool: str, metric: str, judged: dict[str, int], answers: dict[str, float]) -> float:
    order = sorted(answers, key=lambda image: (answers[image], image), reverse=True)
    ranked = [judged.get(image, 0) for image in order]
    name, _, cut = metric.partition("@")
    k = int(cut or len(ranked))
    if name == "ndcg":
        ideal = sorted(ranked if tool == "torchmetrics" else judged.values(), reverse=True)
        gains = share_gains_of_ties(ranked, [answers[image] for image in order]) if tool == "torchmetrics" else ranked
        best = sum_gains(ideal[:k], is_exponential=tool == "ranx")
        return sum_gains(gains[:k], is_exponential=tool == "ranx") / best if best else 0.0
    relevant = sum(grade > 0 for grade in judged.values())
    hits = [grade > 0 for grade in ranked]
    if tool == "torchmetrics":
        relevant = sum(hits)
        if name != "hit":
            hits = [hit and answers[image] > 0 for hit, image in zip(hits, order, strict=True)]
    found = [rank for rank, hit in enumerate(hits[:k], start=1) if hit]
    if not relevant or not found:
        return 0.0
    precisions = sum(count / rank for count, rank in enumerate(found, start=1))
    return {
        "hit": 1.0,
        "p": len(found) / k,
        "r": len(found) / relevant,
        "rr": 1 / found[0],
        "ap": precisions / (len(found) if tool == "torchmetrics" else relevant),
    }[name]


def share_gains_of_ties(grades: Sequence[float], scores: Sequence[float]) -> list[float]:
    """The mean grade of all results with the same score, for each of them."""
    return [float(np.mean([g for g, s in zip(grades, scores, strict=True) if s == score])) for score in scores]


def sum_gains(grades: Sequence[float], *, is_exponential: bool) -> float:
    gains = [2**grade - 1 if is_exponential else grade for grade in grades]
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def compute_our_figure(qrels: Qrels, run: Run, metric: str) -> float:
    judged = [(query, image, grade) for query, of in qrels.items() for image, grade in of.items()]
    rows = [(query, image, score) for query, of in run.items() if query in qrels for image, score in of.items()]
    truth = index_qrels(pd.DataFrame(judged, columns=["query_id", "image_id", "relevance"]))
    ranking = rank_run(pd.DataFrame(rows, columns=["query_id", "image_id", "score"]), truth)
    return float(compute_metric(ranking, parse_metric(metric)).mean())


def is_refused(tool: str, qrels: Qrels, run: Run) -> bool:
    return any(len(run.get(query, {})) < SHORTEST.get(tool, 0) for query in qrels)


def write_row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


@pytest.mark.parametrize("run", RUNS)
def test_the_tables_of_the_pages_are_what_is_computed(run: str) -> None:
    qrels, rows = RUNS[run]
    lines = [
        write_row("", METRICS).replace("|  |", "| |"),
        "|---" * (len(METRICS) + 1) + "|",
        write_row("ours", [f"{compute_our_figure(qrels, rows, metric):.5g}" for metric in METRICS]),
    ]
    for tool, names in NAMES.items():
        cells = ["refused"] * len(METRICS)
        if not is_refused(tool, qrels, rows):
            cells = [
                f"{compute_figure(tool, qrels, rows, metric):.5g}" if name else "–"
                for metric, name in zip(METRICS, names, strict=True)
            ]
        lines.append(write_row(tool, cells))
    for page in PAGES:
        assert "\n".join(lines) in page.read_text("utf-8"), page


@pytest.fixture(scope="module")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The interpreter of a tool's environment; the test is skipped, saying so, where it cannot be made."""
    made: dict[str, Path] = {}

    def find(tool: str) -> Path:
        if tool not in PACKAGES:
            return Path(sys.executable)
        if tool not in made:
            folder = tmp_path_factory.mktemp(tool)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
            made[tool] = folder / "bin" / "python"
            words = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", made[tool], *PACKAGES[tool]]
            installed = subprocess.run(words, capture_output=True, text=True, check=False)
            if installed.returncode:
                pytest.skip(f"{tool} cannot be installed: nothing to compare with ({installed.stderr[-200:]})")
        return made[tool]

    return find


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tool", NAMES)
def test_the_tables_of_the_pages_are_what_the_tools_give(tool: str, interpreters: Any) -> None:
    accepted = [(qrels, rows) for qrels, rows in RUNS.values() if not is_refused(tool, qrels, rows)]
    if tool == "mteb":  # it stops at a query without judgments
        accepted = [(qrels, {query: of for query, of in rows.items() if query in qrels}) for qrels, rows in accepted]
    named = [name for name in NAMES[tool] if name]
    script = Path(__file__).with_name("other_evaluators.py")
    words = [interpreters(tool), "-P", script, tool]
    asked = json.dumps([[qrels, rows, named] for qrels, rows in accepted])
    answer = subprocess.run(words, input=asked, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-2000:]
    for figures in json.loads(answer.stdout.splitlines()[-1]):
        row = write_row(tool, [f"{figures[name]:.5g}" if name else "–" for name in NAMES[tool]])
        for page in PAGES:
            assert row in page.read_text("utf-8"), page
