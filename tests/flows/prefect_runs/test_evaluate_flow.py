"""The flow `evaluate` takes what the command takes, and does the same with it."""

from pathlib import Path

import pytest

import querytruth as qt
from flows.prefect_runs import evaluate_flow
from flows.prefect_runs.evaluate_flow import EvaluationParameters
from tests.small_sets import publish_small_set, query_id_of, small_tables


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate_flow, "call_server_if_available", lambda _: None)
    monkeypatch.setattr(evaluate_flow, "create_page_link", lambda *_: None)


@pytest.mark.usefixtures("no_server")
@pytest.mark.thorough
def test_runs_and_a_part_of_the_set(tmp_path: Path) -> None:
    version = publish_small_set(tmp_path, small_tables()).path
    oracle = qt.evaluate(version, baseline="oracle", report=tmp_path / "oracle")
    asked = EvaluationParameters.model_validate(
        {"of": "small", "out": tmp_path / "sets", "run": tmp_path / "oracle", "baseline": "random", "seed": 3}
        | {"language": "zh", "metrics": ["hit@1"], "report": tmp_path / "report", "page": False}
    )
    state = evaluate_flow._evaluate_systems(asked)
    assert state.message == "evaluated 2 systems on small/v1"
    again = qt.evaluate(version, run=tmp_path / "report" / "oracle", language="zh", metrics=["hit@1"])
    assert again.per_query.index.tolist() == [query_id_of("狗")] and again["hit@1"] == 1 == oracle["hit@1"]
    assert not list((tmp_path / "report").rglob("report.html"))


@pytest.mark.usefixtures("no_server")
def test_both_directions_are_rows_of_their_own(tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables())
    values = {"of": "small", "out": tmp_path / "sets", "baseline": ["oracle"], "direction": "both", "page": False}
    state = evaluate_flow._evaluate_systems(EvaluationParameters.model_validate(values))
    assert state.message == "evaluated 2 systems on small/v1"
