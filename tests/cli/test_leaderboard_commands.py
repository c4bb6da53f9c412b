"""`querytruth leaderboard` as a user types it, and results that were changed."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.small_sets import publish_small_set, small_tables

Run = Callable[..., tuple[str, str]]


@pytest.mark.thorough
def test_the_board_of_a_set(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    assert "has no evaluation results" in run("leaderboard", "small", "--out", "sets", code=1)[1]
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
    assert (
        "is missing from some results" in run("leaderboard", "small", "--out", "sets", "--metric", "ndcg@7", code=1)[1]
    )


@pytest.mark.thorough
def test_a_result_that_was_changed_is_refused_by_every_command_that_reads_it(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables(graded=False))
    for name in ("oracle", "random"):
        run("evaluate", "small", "--out", "sets", "--baseline", name, "--no-page")
    results = tmp_path / "sets" / "small" / "evaluations"
    oracle, rival = (str(results / "v1" / name) for name in ("oracle", "random"))
    commands = {
        "run.parquet": [
            ("compare", "small", oracle, rival, "--out", "sets"),
            (
                "gate",
                "small",
                "--candidate",
                oracle,
                "--baseline",
                rival,
                "--metric",
                "hit@1",
                "--margin",
                "0.1",
                "--out",
                "sets",
            ),
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
            error = run(*line, code=1)[1]
            assert name in error.replace("\n", "") and "is damaged" in error.replace("\n", " "), (line, error)
        file.write_bytes(whole)
