"""`qt.plan_size` and `qt.leaderboard` state what their commands print."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import querytruth as qt
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

Run = Callable[..., tuple[str, str]]


def test_a_plan_from_python_is_that_of_the_command(run: Run, tmp_path: Path) -> None:
    (tmp_path / "truth.qrels").write_text("q1 0 i1 1\nq2 0 i2 1\n")
    line = ("plan-size", "--qrels", "truth.qrels", "--difference", "0.02", "--discordance", "0.2", "--json")
    plan = qt.plan_size(None, qrels=tmp_path / "truth.qrels", difference=0.02, discordance=0.2)
    assert plan == json.loads(run(*line)[0]) and plan["queries"] == 3924
    with pytest.raises(qt.UserError, match="pilot"):
        qt.plan_size(None, qrels=tmp_path / "truth.qrels", difference=0.02)


@pytest.mark.thorough
def test_a_board_is_data_frames_and_a_page(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables(graded=False))
    with pytest.raises(qt.UserError, match="has no evaluation results"):
        qt.load(stored.path).leaderboard()
    found = {query_id_of("dog"): {image_id_of("dog"): 1.0}, query_id_of("none"): {image_id_of("cat"): 1.0}}
    for name, given in (("half", {"run": found}), ("all", {"baseline": "oracle"})):
        qt.evaluate(stored.path, name=name, metrics=["hit@1"], store=True, **given)
    board = qt.load(stored.path).leaderboard()
    assert board.metric == "hit@1" and board.groups == [["all", "half"]]
    assert board.systems["name"].tolist() == ["all", "half"] and board.systems["mean"].tolist() == [1.0, 0.25]
    assert board.systems[["best_rank", "worst_rank"]].to_numpy().tolist() == [[1, 2], [1, 2]]
    assert board.systems[["p50", "p95", "p99"]].isna().all(axis=None)
    chinese = board.slices.query("slice == 'language' and value == 'zh'").set_index("name")["mean"]
    assert chinese.to_dict() == {"all": 1.0, "half": 0.0}
    assert repr(board).startswith("2 systems on small/v1 by hit@1\n") and "half" in board._repr_html_()
    written = board.save(tmp_path / "pages/board.html", "zh")
    assert sorted(path.suffix for path in written) == [".csv", ".html", ".json"]
    assert '<html lang="zh">' in (tmp_path / "pages/board.html").read_text("utf-8")
