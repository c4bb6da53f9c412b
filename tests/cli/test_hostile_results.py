"""Results, audits and comparisons of a stranger's set are data as well: the commands that read runs, figures, pools and
lists of overlaps."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile_results import hostile_results
from tests.hostile_sets import HostileCase, hostile_cases, version_of
from tests.resealed_sets import reseal
from tests.small_sets import publish_small_set, strangers_tables
from tests.watched_commands import do_work_in_process, make_home, run_command, run_watched

_Commands = Callable[[Path, Path], list[list[str]]]
_CASES = list(hostile_cases())
_PARTS = 40  # into which the cases are divided, which are made of the template's own files


def _list_result_commands(version: Path, whole: Path) -> list[list[str]]:
    """The commands on runs and results of a set."""
    spec, report, rival = str(version), "report", "rival"
    return [
        ["evaluate", spec, "--baseline", "oracle", "--report", report],
        ["evaluate", spec, "--baseline", "random", "--report", rival],
        ["evaluate", spec, "--baseline", "lexical"],
        ["compare", spec, report, rival, "--page", "compare.html"],
        ["gate", spec, "--candidate", report, "--baseline", rival, "--metric", "hit@1", "--margin", "0.1"],
        ["search", spec, "a dog, wet", "--run", report, "--page", "search.html"],
        ["leaderboard", spec, "--to", "board.html"],
        ["compare", spec, "--history", "--page", "history.html"],
        ["shortcuts", spec, "--to", "shortcuts"],
        ["overlap", spec, "--against", str(whole)],
        ["audit", "plan", spec, "--run", report, "--run", rival, "--depth", "1"],
        ["audit", "start", spec, "--run", report, "--run", rival, "--depth", "1", "--name", "second"],
        ["audit", "report", spec, "--name", "first"],
        ["audit", "report", spec, "--name", "second"],
    ]


def _list_stored_commands(version: Path, whole: Path) -> list[list[str]]:
    """The commands that read the results, audits and overlaps that came with a set."""
    spec, sent = str(version), str(version.parent / "evaluations" / "v1" / "oracle")
    mine, latency = str(whole / "evaluations" / "v1" / "oracle"), ["--max-latency", "p95=9"]
    return [
        ["compare", spec, sent, mine, "--page", "compare.html"],
        ["gate", spec, "--candidate", sent, "--baseline", mine, "--metric", "hit@1", "--margin", "0.1", *latency],
        ["search", spec, "a dog, wet", "--run", sent, "--page", "search.html"],
        ["leaderboard", spec, "--to", "board.html"],
        ["compare", spec, "--history", "--page", "history.html"],
        ["evaluate", spec, "--baseline", "oracle"],
        ["audit", "plan", spec, "--run", sent, "--depth", "1"],
        ["audit", "report", spec, "--name", "first"],
        ["review", "export-csv", "--audit", "first", spec],
    ]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole set of four images with a result, an audit and a list of overlaps."""
    folder = tmp_path_factory.mktemp("template")
    stored = publish_small_set(folder, strangers_tables())
    result = stored.path.parent / "evaluations" / "v1" / "oracle"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        do_work_in_process(patch)
        for command in (
            ["evaluate", str(stored.path), "--baseline", "oracle"],
            ["audit", "start", str(stored.path), "--run", str(result), "--depth", "1", "--name", "first"],
            ["overlap", str(stored.path), "--against", str(stored.path.parent)],
        ):
            problem, _ = run_command(command)
            assert not problem, problem
    return stored.path.parent


@pytest.mark.thorough
def test_whole_results_pass_every_command(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: HostileCase = ("whole", lambda _folder, _home: None)
    printed = _run(whole, _list_stored_commands, template, tmp_path, monkeypatch)
    errors = [line.partition(".")[0] for line in printed.splitlines() if line.startswith("Error: ")]
    assert errors == [
        "Error: oracle (gate): has no measured latency",
        "Error: first (audit): 0 of 4 pairs are answered",
    ]


@pytest.mark.thorough
def test_a_sample_of_hostile_results(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_all(hostile_results(template)[::149], _list_stored_commands, template, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_all_hostile_results(part: int, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_all(hostile_results(template)[part::_PARTS], _list_stored_commands, template, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case[0])
def test_systems_are_judged_on_all_hostile_sets(
    case: HostileCase, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(case, _list_result_commands, template, tmp_path, monkeypatch)


def _run_all(
    cases: list[HostileCase], commands: _Commands, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs all cases, also after one has failed, and names those that fail."""
    failed = []
    for number, case in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        try:
            _run(case, commands, template, tmp_path / str(number), monkeypatch)
        except AssertionError as error:
            failed.append(f"{case[0]}: {error}")
        shutil.rmtree(tmp_path / str(number))
    assert cases and not failed, "\n".join(failed)


def _run(
    case: HostileCase, commands: _Commands, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    home, folder, whole = make_home(tmp_path), tmp_path / "sets" / "small", tmp_path / "sets" / "whole"
    shutil.copytree(template, folder)
    shutil.copytree(template, whole)
    case[1](folder, home)
    reseal(version_of(folder))
    do_work_in_process(monkeypatch)

    def run() -> tuple[list[str], str]:
        given = [(command, *run_command(command)) for command in commands(version_of(folder), whole)]
        problems = [f"{' '.join(command[:2])}: {problem}" for command, problem, _ in given if problem]
        return problems, "".join(printed for _, _, printed in given)

    return run_watched(run, home, tmp_path, monkeypatch)
