"""The figures of other evaluators: by hand where they differ from ours, and beside the tools themselves.

Each tool is run in an environment of its own, made from the package index, where it is not among those of the tests.
"""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from querytruth.errors import UserError
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.metrics import compute_metric, parse_metric
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.tool_figures import TOOLS, compute_tool_figures
from tests.evaluation import parity_runs

Qrels, Run = dict[str, dict[str, int]], dict[str, dict[str, float]]
METRICS = [
    *("p@1", "p@5", "p@20", "r@1", "r@5", "r@20", "hit@1", "hit@5", "hit@10", "rr", "rr@10", "ap", "ap@5", "p@r"),
    *("ndcg@5(gain=linear)", "ndcg@10(gain=linear)", "ndcg(gain=linear)"),
    *("ndcg@5", "ndcg@10"),
]
# What each needs besides those of the tests; cn_clip without its own needs, since the script alone is run.
PACKAGES = {
    "ranx": ["ranx>=0.3.21"],
    "torchmetrics": ["torchmetrics>=1.9", "torch>=2.6"],
    "clip_benchmark": ["clip-benchmark>=1.6", "torch>=2.6"],
    "chinese_clip": ["--no-deps", "cn-clip>=1.5", "numpy"],
}
RUNS = 1000


def qrels_of(qrels: Qrels) -> pd.DataFrame:
    rows = [(query, image, grade) for query, of in qrels.items() for image, grade in of.items()]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"])


def run_of(run: Run) -> pd.DataFrame:
    rows = [(query, image, score) for query, of in run.items() for image, score in of.items()]
    return pd.DataFrame(rows, columns=["query_id", "image_id", "score"])


def figures(tool: str, qrels: Qrels, run: Run, *metrics: str, queries: tuple[str, ...] = ()) -> dict[str, float]:
    found = compute_tool_figures(tool, qrels_of(qrels), run_of(run), metrics, queries)
    return {metric: value for metric, (_, value) in found.figures.items()}


def ours(qrels: Qrels, run: Run, metric: str) -> float:
    truth = index_qrels(qrels_of(qrels))
    known = {query: of for query, of in run.items() if query in qrels}
    return float(compute_metric(rank_run(run_of(known), truth), parse_metric(metric)).mean())


# ---- where they differ, by hand: one world for each reason of docs/conventions.md

ONE = {"q1": {"a": 1, "b": 0}}


def test_a_query_that_the_run_leaves_out() -> None:
    qrels, run = {"q1": {"a": 1}, "q2": {"b": 1}}, {"q1": {"a": 1.0}}
    assert ours(qrels, run, "hit@1") == 0.5
    found = {tool: figures(tool, qrels, run, "hit@1")["hit@1"] for tool in TOOLS if not TOOLS[tool].needs}
    assert found == {"trec_eval": 1, "ir_measures": 0.5, "mteb": 1, "ranx": 0.5, "torchmetrics": 1}


def test_a_query_without_a_relevant_image() -> None:
    qrels, run = {"q1": {"a": 1}, "q2": {"a": 0}}, {"q1": {"a": 1.0}, "q2": {"a": 1.0}}
    assert ours(qrels, run, "hit@1") == 1
    found = {tool: figures(tool, qrels, run, "hit@1")["hit@1"] for tool in TOOLS if tool != "chinese_clip"}
    assert set(found.values()) == {0.5}


def test_scores_that_only_double_precision_can_tell_apart() -> None:
    run = {"q1": {"a": 0.1, "b": 0.1 - 1e-12}}
    assert ours(ONE, run, "hit@1") == 1
    assert figures("trec_eval", ONE, run, "hit@1") == {"hit@1": 0}  # a tie in single precision, and b is the higher id
    assert figures("ranx", ONE, run, "hit@1") == {"hit@1": 1}


def test_tied_scores_are_counted_where_the_tool_has_no_rule() -> None:
    run = {"q1": {"a": 0.5, "b": 0.5}}
    for tool, rules in TOOLS.items():
        if tool != "chinese_clip":
            found = compute_tool_figures(tool, qrels_of(ONE), run_of(run), ["hit@1", "ndcg@10"])
            assert found.tied == (0 if rules.has_tie_rule else 1)


def test_the_gain_of_a_grade() -> None:
    qrels, run = {"q1": {"a": 2, "b": 1}}, {"q1": {"b": 2.0, "a": 1.0}}
    exponential = pytest.approx((1 + 3 / 1.584962500721156) / (3 + 1 / 1.584962500721156))
    linear = pytest.approx((1 + 2 / 1.584962500721156) / (2 + 1 / 1.584962500721156))
    assert ours(qrels, run, "ndcg@10") == exponential
    for tool in ("trec_eval", "ir_measures", "torchmetrics"):
        assert figures(tool, qrels, run, "ndcg@10")["ndcg@10"] == linear, tool
    assert figures("ranx", qrels, run, "ndcg@10")["ndcg@10"] == exponential


def test_relevant_images_that_did_not_come_back() -> None:
    qrels, run = {"q1": {"a": 1, "b": 1}}, {"q1": {"a": 1.0, "c": 0.5}}
    assert ours(qrels, run, "r@10") == ours(qrels, run, "ap") == 0.5
    assert figures("torchmetrics", qrels, run, "r@10", "ap") == {"r@10": 1, "ap": 1}


def test_scores_of_zero_and_below() -> None:
    run = {"q1": {"a": -0.1, "b": -0.2}}
    assert ours(ONE, run, "rr") == 1
    assert figures("torchmetrics", ONE, run, "rr", "hit@1") == {"rr": 0, "hit@1": 1}


def test_decimals_and_percents() -> None:
    qrels = {f"q{n}": {"a": 1} for n in range(3)}
    run = {f"q{n}": {"a": 1.0, "b": 2.0 if n else 0.0} | {f"c{m}": -m for m in range(9)} for n in range(3)}
    assert figures("mteb", qrels, run, "p@1", "rr@10") == {"p@1": 0.33333, "rr@10": 2 / 3}
    assert figures("chinese_clip", qrels, run, "hit@1", "hit@5") == {"hit@1": 1 / 3 * 100, "hit@5": 100}


def test_a_list_that_ends_before_the_cut() -> None:
    run = {"q1": {"a": 1.0}}
    assert ours(ONE, run, "p@5") == 0.2
    for tool in ("trec_eval", "ir_measures", "mteb", "ranx", "torchmetrics"):
        assert figures(tool, ONE, run, "p@5")["p@5"] == pytest.approx(0.2)
    with pytest.raises(UserError, match="has fewer than 10 results, which chinese_clip refuses"):
        figures("chinese_clip", ONE, run, "hit@1")


def test_texts_that_nobody_judged_count_where_a_tool_counts_all_texts() -> None:
    run = {"q1": {"a": 1.0}, "q2": {"a": 1.0}}
    assert figures("clip_benchmark", ONE, run, "hit@1", queries=("q1", "q2")) == {"hit@1": 0.5}


def test_what_a_tool_does_not_have_is_named() -> None:
    found = compute_tool_figures(
        "clip_benchmark", qrels_of(ONE), run_of({"q1": {"a": 1.0}}), ["hit@5", "ap_trapezoid@4"]
    )
    assert found.figures == {"hit@5": ("image_retrieval_recall@5", 1.0)} and found.unknown == ["ap_trapezoid@4"]
    with pytest.raises(UserError, match="did you mean 'mteb'"):
        figures("mtab", ONE, {"q1": {"a": 1.0}}, "hit@1")


# ---- beside the tools themselves


def random_world(rng: random.Random, tool: str) -> tuple[Qrels, Run]:
    """Judgments and a run: queries left out, without a relevant image, without a judgment; tied scores where the tool
    has a rule for them, scores below 0, and lists of any length that the tool takes."""
    images = [f"img_{n}" for n in rng.sample(range(10**6), rng.randint(21, 60))]
    has_all = tool in ("clip_benchmark", "chinese_clip")
    qrels: Qrels = {}
    run: Run = {}
    for number in range(rng.randint(1, 25)):
        query = f"q_{number}"
        judged = rng.sample(images, rng.randint(1, len(images)))
        qrels[query] = {image: rng.choice([0, 0, 0, 1, 1, 2, 3]) for image in judged}
        if has_all or rng.random() < 0.9 or not run:
            shown = images if has_all else rng.sample(images, rng.randint(1, len(images)))
            rng.shuffle(shown)
            spread = (lambda: rng.randrange(-2, 5) / 4 + 1e-11 * rng.random()) if TOOLS[tool].has_tie_rule else None
            run[query] = {image: spread() if spread else rng.random() - 0.2 for image in shown}
    return dict(sorted(qrels.items())), dict(sorted(run.items()))


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
@pytest.mark.parametrize("tool", TOOLS)
def test_a_thousand_random_runs_come_out_bit_by_bit_as_the_tool_has_them(tool: str, interpreters: Any) -> None:
    rng = random.Random(11)
    worlds = [random_world(rng, tool) for _ in range(RUNS)]
    expected, asked = [], []
    for qrels, run in worlds:
        found = compute_tool_figures(tool, qrels_of(qrels), run_of(run), METRICS)
        assert found.figures and not found.tied
        expected.append(dict(found.figures.values()))
        asked.append([qrels, run, [name for name, _ in found.figures.values()]])
    script = Path(__file__).with_name("other_evaluators.py")
    words = [interpreters(tool), "-P", script, tool]
    answer = subprocess.run(words, input=json.dumps(asked), capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-2000:]
    theirs = json.loads(answer.stdout.splitlines()[-1])
    differing = [
        (number, name, value, other[name])
        for number, (mine, other) in enumerate(zip(expected, theirs, strict=True))
        for name, value in mine.items()
        if value != other[name]
    ]
    assert not differing, (len(differing), differing[:5])


@pytest.mark.parametrize("language", ["", "zh/"])
@pytest.mark.parametrize("run", ["plain", "open"])
def test_the_tables_of_the_page_are_what_is_computed(language: str, run: str) -> None:
    qrels, rows = (
        (parity_runs.QRELS, parity_runs.PLAIN) if run == "plain" else (parity_runs.OPEN_QRELS, parity_runs.OPEN)
    )
    found: dict[str, dict[str, float] | None] = {}
    for tool in TOOLS:
        try:
            found[tool] = figures(tool, qrels, rows, *parity_runs.METRICS)
        except UserError:
            found[tool] = None
    own = {metric: ours(qrels, rows, metric) for metric in parity_runs.METRICS}
    page = (Path(__file__).parents[2] / "docs" / f"{language}conventions.md").read_text("utf-8")
    assert "\n".join(parity_runs.list_rows(own, found)) in page
