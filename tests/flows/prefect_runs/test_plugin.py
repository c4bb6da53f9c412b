"""`prefect run`: a command of Prefect's own that this project adds, and what is said where it cannot."""

import logging
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import pytest
from prefect.plugins import HookContext

from flows.prefect_runs import plugin
from tests.flows.prefect_test_server import PREFECT, prefect_environment

ROOT = Path(__file__).parents[3]
CONTEXT = HookContext("3.8.8", None, logging.getLogger)


def prefect(*words: str, place: Path, home: Path) -> subprocess.CompletedProcess[str]:
    if not entry_points(group="prefect.plugins", name="querytruth"):
        pytest.skip("installed before the plugin was there: pip install -e . again")
    environment = prefect_environment(home, COLUMNS="120")
    called = [PREFECT, *words]
    return subprocess.run(called, cwd=place, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.thorough
def test_run_is_a_command_in_this_folder_and_tells_how_it_is_called(tmp_path: Path) -> None:
    told = prefect("run", "--help", place=ROOT, home=tmp_path)
    assert told.returncode == 0 and "prefect run [OPTIONS] ENTRYPOINT" in told.stdout
    assert "flows/recall_set.py:recall_set" in told.stdout and "definition=recall.yaml" in told.stdout


@pytest.mark.thorough
def test_elsewhere_prefect_knows_no_such_command(tmp_path: Path) -> None:
    told = prefect("run", place=tmp_path, home=tmp_path / "home")
    assert told.returncode == 2 and 'Unknown command "run"' in told.stderr


def test_a_prefect_without_that_name_says_so_and_what_works_instead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/prefect", "run", "flows.recall_set.recall_set"])
    monkeypatch.delattr("prefect.cli._app._app")
    assert plugin.setup_environment(ctx=CONTEXT) is None
    told = capsys.readouterr().err
    assert "`prefect run` cannot be added to Prefect 3.8.8" in told and "python -m flows.recall_set" in told
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/prefect", "worker", "start"])
    plugin.setup_environment(ctx=CONTEXT)
    assert not capsys.readouterr().err, "nobody asked for it"


def test_only_prefect_s_own_command_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[str] = []
    monkeypatch.setattr(
        "prefect.cli._app._app", SimpleNamespace(command=lambda *_, name, **__: registered.append(name))
    )
    for argv in (["/somewhere/bin/querytruth", "run"], ["/somewhere/run.py"], ["-c"]):
        monkeypatch.setattr(sys, "argv", argv)
        plugin.setup_environment(ctx=CONTEXT)
    assert not registered
    for argv in (["/somewhere/bin/prefect", "run"], ["/lib/site-packages/prefect/__main__.py", "run"]):
        monkeypatch.setattr(sys, "argv", argv)
        plugin.setup_environment(ctx=CONTEXT)
    assert registered == ["run", "resume"] * 2
