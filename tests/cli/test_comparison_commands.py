"""`querytruth gate` as CI calls it."""

import csv
import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import querytruth as qt
from tests.cli.conftest import Run
from tests.small_sets import publish_small_set, small_tables

QUERIES = 600


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Judgments of bare queries, and runs that miss none, some and many of them."""
    rng = np.random.default_rng(1)
    (tmp_path / "truth.qrels").write_text("".join(f"q{n} 0 right{n} 1\n" for n in range(QUERIES)))
    for name, missed in (("old", 0.1), ("same", 0.1), ("bad", 0.3), ("near", 0.115)):
        hits = rng.random(QUERIES) >= missed if name != "same" else np.ones(QUERIES, dtype=bool)
        rows = [f"q{n} Q0 {'right' if hits[n] else 'wrong'}{n} 1 1.0 x\n" for n in range(QUERIES)]
        (tmp_path / f"{name}.trec").write_text("".join(rows))
    return tmp_path


def arguments(candidate: str, *more: object) -> list[object]:
    runs = ["--candidate", f"{candidate}.trec", "--baseline", "old.trec"]
    return ["gate", "--qrels", "truth.qrels", *runs, "--metric", "hit@1", "--margin", 0.01, *more]


@pytest.mark.thorough
def test_the_exit_code_is_the_verdict(run: Run, judged: Path) -> None:
    out, _ = run(*arguments("same"))
    assert out.endswith("PASS\n")
    assert run(*arguments("bad"), code=1)[0].endswith("FAIL\n")
    out, _ = run(*arguments("near"), code=3)
    assert out.endswith("UNDECIDED\n") and "more queries would be enough" in " ".join(out.split())
    run(*arguments("near", "--undecided", "pass"), code=0)
    run(*arguments("near", "--undecided", "fail"), code=1)


def test_the_report_is_read_by_ci(run: Run, judged: Path) -> None:
    run(*arguments("bad", "--metric", "ndcg@10", "--report", "ci/report"), code=1)
    suite = ElementTree.parse(judged / "ci/report/gate.junit.xml").getroot()
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "2", "2")
    assert [case.find("failure") is not None for case in suite] == [True, True]
    content = json.loads((judged / "ci/report/gate.json").read_text("utf-8"))
    assert content["verdict"] == "FAIL" and [check["metric"] for check in content["checks"]] == ["hit@1", "ndcg@10"]
    text = (judged / "ci/report/gate.md").read_text("utf-8")
    assert text.startswith("### ❌ FAIL: bad against old") and text.count("| ❌ FAIL |") == 2
    run(*arguments("near", "--undecided", "pass", "--report", "ci"))
    assert ElementTree.parse(judged / "ci/gate.junit.xml").getroot().get("skipped") == "1"


@pytest.mark.thorough
def test_slices_of_a_set_are_gated_besides_all_queries(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    for name in ("oracle", "random"):
        run("evaluate", "small", "--out", "sets", "--baseline", name, "--no-page")
    folder = "sets/small/evaluations/v1"
    gated = ["gate", "small", "--out", "sets", "--candidate", f"{folder}/random", "--baseline", f"{folder}/oracle"]
    gated += ["--metric", "hit@1", "--margin", 0.01]
    found = run.json(*gated, "--slice", "language=en", code=3)
    assert [(one["slice"], one["queries"]) for one in found["checks"]] == [("", 4), ("language=en", 3)]
    assert found["labels"] == 2
    assert "2 labels: the search could fail for up to 100% of labels undetected" in run(*gated, code=3)[0]
    assert "has no judged queries" in run.error(*gated, "--slice", "language=de")
    assert "is not a slice of this set" in run.error(*gated, "--slice", "colour=red")
    assert "has no measured latency" in run.error(*gated, "--max-latency", "p95=200")


def test_what_cannot_be_gated_is_refused_in_one_line(run: Run, judged: Path) -> None:
    assert "not between 0 and 1" in run.error(*arguments("same")[:-1], "0", code=2)
    assert "do not match" in run.error(*arguments("same", "--margin", 0.1), code=2)
    assert "is not a latency budget" in run.error(*arguments("same", "--max-latency", "p97=1"), code=2)
    assert "is not aspect=value" in run.error(*arguments("same", "--slice", "zh"), code=2)


def test_the_same_from_python(judged: Path) -> None:
    report = qt.gate(
        None, candidate=judged / "bad.trec", baseline=judged / "old.trec", metric="hit@1", margin=0.01,
        qrels=judged / "truth.qrels",
    )  # fmt: skip
    assert report.verdict == "FAIL" and report.checks[0].difference < -0.1
    assert repr(report).startswith("FAIL: bad against old, 90% intervals\n") and report.table["metric"].tolist() == [
        "hit@1"
    ]


def test_two_runs_that_list_the_same_pass_and_a_difference_below_the_cut_does_not(run: Run, tmp_path: Path) -> None:
    (tmp_path / "truth.qrels").write_text("q1 0 i1 1\nq2 0 i2 1\n")
    (tmp_path / "old.trec").write_text("q1 Q0 i1 1 2 a\nq1 Q0 i2 2 1 a\nq2 Q0 i2 1 2 a\nq2 Q0 i1 2 1 a\n")
    (tmp_path / "same.trec").write_text("q2 Q0 i2 1 20 b\nq2 Q0 i1 2 10 b\nq1 Q0 i1 1 20 b\nq1 Q0 i2 2 10 b\n")
    (tmp_path / "other.trec").write_text("q1 Q0 i1 1 2 a\nq1 Q0 i3 2 1 a\nq2 Q0 i2 1 2 a\nq2 Q0 i1 2 1 a\n")
    line = ("gate", "--qrels", "truth.qrels", "--baseline", "old.trec", "--metric", "hit@1", "--margin", "0.01")

    out, _ = run(*line, "--candidate", "same.trec", code=0)
    assert out.startswith("same against old") and "PASS" in out and "score the same on all" in out

    out, _ = run(*line, "--candidate", "other.trec", code=3)
    assert "IDENTICAL" in out and "score the same on all" in out


@pytest.mark.thorough
def test_the_board_of_a_set(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    assert "has no evaluation results" in run.error("leaderboard", "small", "--out", "sets")
    for name in ("oracle", "random", "lexical"):
        run("evaluate", "small", "--out", "sets", "--baseline", name, "--no-page")
    shutil.copytree(tmp_path / "sets/small/evaluations/v1/lexical", tmp_path / "sets/small/evaluations/v1/other")
    out, _ = run("leaderboard", "small", "--out", "sets", "--to", "pages/board.html")
    assert "no significant difference: lexical, other" in out and "1-2" in out
    page = (tmp_path / "pages/board.html").read_text("utf-8")
    assert len(page) < 1_000_000 and "oracle" in page and "language" in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    rows = list(csv.DictReader((tmp_path / "pages/board.csv").open(encoding="utf-8-sig")))
    ranks = {row["system"]: (row["best_rank"], row["worst_rank"]) for row in rows}
    assert rows[0]["system"] == "oracle", "the ceiling stands first, without a rank"
    assert ranks == {"oracle": ("", ""), "random": ("", ""), "lexical": ("1", "2"), "other": ("1", "2")}
    board = json.loads((tmp_path / "pages/board.json").read_text("utf-8"))
    assert board["metric"] == "ndcg@10" and board["groups"] == [["lexical", "other"]]
    assert "is missing from some results" in run.error("leaderboard", "small", "--out", "sets", "--metric", "ndcg@7")


@pytest.mark.thorough
def test_a_result_that_was_changed_is_refused_by_every_command_that_reads_it(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    for name in ("oracle", "random"):
        run("evaluate", "small", "--out", "sets", "--baseline", name, "--no-page")
    results = tmp_path / "sets" / "small" / "evaluations"
    oracle, rival = (str(results / "v1" / name) for name in ("oracle", "random"))
    judged = ("--metric", "hit@1", "--margin", "0.1", "--out", "sets")
    commands = {
        "run.parquet": [
            ("compare", "small", oracle, rival, "--out", "sets"),
            ("gate", "small", "--candidate", oracle, "--baseline", rival, *judged),
            ("evaluate", "small", "--run", oracle, "--out", "sets", "--name", "again"),
            ("audit", "plan", "small", "--run", oracle, "--out", "sets"),
            ("search", "small", "a dog, wet", "--run", oracle, "--out", "sets"),
            ("review", "small", "--no-open", "--run", oracle, "--out", "sets"),
        ],
        "per_query.parquet": [("leaderboard", "small", "--out", "sets")],
        "result.json": [
            ("leaderboard", "small", "--out", "sets"),
            ("compare", "small", oracle, rival, "--out", "sets"),
        ],
    }
    for name, lines in commands.items():
        file = Path(oracle, name)
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b'"value": 1.0', b'"value": 0.9') if name == "result.json" else whole + b" ")
        for line in lines:
            error = run.error(*line)
            assert name in error.replace("\n", "") and "is damaged" in error.replace("\n", " "), (line, error)
        file.write_bytes(whole)


def test_the_size_from_a_discordance_and_from_a_pilot(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    (tmp_path / "truth.qrels").write_text("".join(f"q{n} 0 right{n} 1\n" for n in range(300)))
    for name in ("old", "new"):
        hits = rng.random(300) >= 0.1
        rows = [f"q{n} Q0 {'right' if hits[n] else name}{n} 1 1.0 x\n" for n in range(300)]
        (tmp_path / f"{name}.trec").write_text("".join(rows))
    planned = ["plan-size", "--qrels", "truth.qrels", "--difference", 0.02]
    out, _ = run(*planned, "--discordance", 0.2)
    assert "3,189 queries would let a gate with a margin of 0.02 pass an equal system with the same power" in out
    assert (
        "needs 3,924 queries (300 available)" in out and "3,924 judgments, about 6.5 hours (6.0 s each, assumed)" in out
    )
    plan = run.json(*planned, "--pilot", "old.trec", "new.trec")
    assert 2500 < plan["queries"] < 5000 and 1 < plan["judgments_per_query"] < 1.3
    assert "needs exactly one source" in run.error(*planned)
    assert "is less than the difference" in run.error(*planned, "--discordance", 0.01)
    assert "plan for hit@K" in run.error(*planned, "--discordance", 0.2, "--metric", "ndcg@10")
