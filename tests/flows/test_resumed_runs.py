"""`prefect resume`: which run is answered; and how a flow is found by its path."""

import contextlib
import sys
import tomllib
from pathlib import Path
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun

from flows.prefect_runs.one_off_run import find_entrypoint
from flows.prefect_runs.resume_run import choose_waiting_run
from querytruth.cli.app import main
from querytruth.errors import UserError


def test_the_only_waiting_run_needs_no_name() -> None:
    one, other = (FlowRun(flow_id=uuid4(), name=name) for name in ("album", "pets"))

    assert choose_waiting_run([one], "") is one
    assert choose_waiting_run([one, other], "pets") is other and choose_waiting_run([one, other], str(one.id)) is one
    with pytest.raises(UserError, match=r"2 runs are waiting.*give one of: album .*pets"):
        choose_waiting_run([one, other], "")
    with pytest.raises(UserError, match="0 runs are waiting"):
        choose_waiting_run([], "")


def test_a_flow_of_the_project_is_found_by_its_path_where_there_is_no_such_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert find_entrypoint("flows/recall_set.py:recall_set") == "flows.recall_set.recall_set"
    assert find_entrypoint("mine/other.py:main") == "mine/other.py:main"
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/recall_set.py").touch()
    assert find_entrypoint("flows/recall_set.py:recall_set") == "flows/recall_set.py:recall_set"


def test_the_folder_of_the_deployments_allows_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    monkeypatch.setattr(sys, "argv", ["querytruth", "init", "prefect"])
    with contextlib.suppress(SystemExit):
        main()

    settings = tomllib.loads((tmp_path / "prefect.toml").read_text("utf-8"))
    assert settings["plugins"] == {"enabled": True, "allow": ["querytruth"]} and (tmp_path / "prefect.yaml").is_file()
