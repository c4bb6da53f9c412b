"""The flow `evaluate` takes what the command takes, and does the same with it."""

import inspect
from pathlib import Path

import pytest
from pydantic import ValidationError

import querytruth as qt
from flows.prefect_runs import evaluate_flow
from flows.prefect_runs.evaluate_flow import EvaluationParameters
from querytruth.cli.evaluate_command import evaluate as command
from querytruth.errors import UserError
from tests.small_sets import publish_small_set, query_id_of, small_tables

# The command's own: what it prints, and truth without a set.
OF_THE_COMMAND = {"json", "qrels", "corrected", "slice_"}
OTHER_NAMES = {"set_": "of", "model": "models", "run": "runs", "baseline": "baselines", "system": "systems"}
PARTS = {"language", "level", "topic", "family"}


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate_flow, "call_server_if_available", lambda _: None)
    monkeypatch.setattr(evaluate_flow, "create_page_link", lambda *_: None)


def test_every_option_of_the_command_is_a_parameter() -> None:
    options = set(inspect.signature(command).parameters) - OF_THE_COMMAND - PARTS
    assert {OTHER_NAMES.get(name, name) for name in options} - EvaluationParameters.model_fields.keys() == set()
    assert "part" in EvaluationParameters.model_fields


@pytest.mark.usefixtures("no_server")
@pytest.mark.thorough
def test_runs_and_a_part_of_the_set(tmp_path: Path) -> None:
    version = publish_small_set(tmp_path, small_tables()).path
    oracle = qt.evaluate(version, baseline="oracle", report=tmp_path / "oracle")
    asked = EvaluationParameters.model_validate(
        {"of": "small", "out": tmp_path / "sets", "runs": [tmp_path / "oracle"], "baselines": ["random"], "seed": 3}
        | {"part": {"language": "zh"}, "metrics": ["hit@1"], "report": tmp_path / "report", "page": False}
    )
    state = evaluate_flow._evaluate_systems(asked)
    assert state.message == "evaluated 2 systems on small/v1"
    again = qt.evaluate(version, run=tmp_path / "report" / "oracle", part={"language": "zh"}, metrics=["hit@1"])
    assert again.per_query.index.tolist() == [query_id_of("狗")] and again["hit@1"] == 1 == oracle["hit@1"]
    assert not list((tmp_path / "report").rglob("report.html"))


@pytest.mark.usefixtures("no_server")
def test_both_directions_are_rows_of_their_own(tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables())
    values = {"of": "small", "out": tmp_path / "sets", "baselines": ["oracle"], "direction": "both", "page": False}
    state = evaluate_flow._evaluate_systems(EvaluationParameters.model_validate(values))
    assert state.message == "evaluated 2 systems on small/v1"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "no system is named"),
        ({"similarities": "a.npy"}, "has a part of a matrix"),
        ({"baselines": ["random"], "part": {"colour": "red"}}, "is no column to choose by"),
        ({"baselines": ["random"], "metrics": ["ndgc@10"]}, "is no metric"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, values: dict[str, object], reason: str) -> None:
    publish_small_set(tmp_path, small_tables())
    asked = EvaluationParameters.model_validate({"of": "small", "out": tmp_path / "sets"} | values)
    with pytest.raises(UserError, match=reason):
        evaluate_flow._evaluate_systems(asked)


def test_an_index_that_is_none_is_refused_before_the_run() -> None:
    with pytest.raises(ValidationError):
        EvaluationParameters.model_validate({"of": "small", "index": "best"})
