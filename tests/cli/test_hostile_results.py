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
from tests.watched_commands import (
    do_work_in_process,
    list_opened,
    make_home,
    run_cases,
    run_command,
    run_watched,
)

_Commands = Callable[[Path, Path], list[list[str]]]
_PARTS = 4  # into which the cases are divided


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
        ["notice", spec, "--run", report, "--to", "noticed", "--draws", "10"],
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
        "Error: first (audit): only 0 of 4 pairs have an answer",
    ]


@pytest.fixture(scope="module")
def readers(template: Path, tmp_path_factory: pytest.TempPathFactory) -> list[set[str]]:
    """The files of the set that each command on stored results opens."""
    place = tmp_path_factory.mktemp("readers")
    sets = [Path(shutil.copytree(template, place / name)) for name in ("small", "whole")]
    commands = _list_stored_commands(version_of(sets[0]), sets[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        do_work_in_process(patch)
        return [list_opened(command, sets[0]) for command in commands]


def test_every_file_of_results_is_opened_by_a_command(template: Path, readers: list[set[str]]) -> None:
    assert {_file_of(case) for case in hostile_results(template)} <= set().union(*readers)


@pytest.mark.thorough
def test_a_sample_of_hostile_results(
    template: Path, readers: list[set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_with_readers(hostile_results(template)[::149], readers, template, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(_PARTS))
def test_all_hostile_results(
    part: int, template: Path, readers: list[set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_with_readers(hostile_results(template)[part::_PARTS], readers, template, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(_PARTS))
def test_systems_are_judged_on_all_hostile_sets(
    part: int, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(case: HostileCase, place: Path) -> None:
        _run(case, _list_result_commands, template, place, monkeypatch)

    run_cases(list(hostile_cases())[part::_PARTS], run, tmp_path)


def _file_of(case: HostileCase) -> str:
    return case[0].partition(" ")[0]


def _run_with_readers(
    cases: list[HostileCase],
    readers: list[set[str]],
    template: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gives the commands that open the file in which a case has replaced something."""

    def run(case: HostileCase, place: Path) -> None:
        def list_readers(version: Path, whole: Path) -> list[list[str]]:
            commands = _list_stored_commands(version, whole)
            return [one for one, opened in zip(commands, readers, strict=True) if _file_of(case) in opened]

        _run(case, list_readers, template, place, monkeypatch)

    run_cases(cases, run, tmp_path)


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
