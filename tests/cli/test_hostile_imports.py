"""Files from a stranger are data, in every import format, when they are imported and when the set is used."""

import shutil
from pathlib import Path

import pytest

from tests.hostile_imports import HostileImport, hostile_imports
from tests.publisher_files import PUBLISHER_FILES, FirstEntry, write_source
from tests.small_sets import publish_small_set, small_tables
from tests.watched_commands import do_work_in_process, make_home, run_command, run_watched, use_set

_CASES = list(hostile_imports())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of four images, with which the others are compared."""
    return publish_small_set(tmp_path_factory.mktemp("whole"), small_tables()).path.parent


@pytest.mark.parametrize("layout", PUBLISHER_FILES)
@pytest.mark.slow
def test_whole_files_are_imported_and_used(
    layout: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = HostileImport(layout, layout.split()[0], lambda source, _home: write_source(layout, source, FirstEntry()))
    _run_case(case, whole, tmp_path, monkeypatch)
    assert (tmp_path / "sets" / "taken" / "v1" / "manifest.json").is_file()


@pytest.mark.parametrize("case", _CASES[::61], ids=lambda case: case.name)
@pytest.mark.slow
def test_a_sample_of_hostile_imports(
    case: HostileImport, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_case(case, whole, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_all_hostile_imports(case: HostileImport, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_case(case, whole, tmp_path, monkeypatch)


def _run_case(case: HostileImport, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, sets = make_home(tmp_path), tmp_path / "sets"
    shutil.copytree(whole, sets / "whole")
    case.write(sets / "received" / "source", home)
    do_work_in_process(monkeypatch)

    def run() -> tuple[list[str], str]:
        received = sets / "received"
        command = ["import", case.format, str(received / "source"), str(sets / "taken"), "--images"]
        problem, printed = run_command([*command, str(received / "photos")])
        problems = [f"import: {problem}"] if problem else []
        if not (sets / "taken" / "v1" / "manifest.json").is_file():
            return problems, printed
        more, used = use_set(sets / "taken" / "v1", sets / "whole")
        return problems + more, printed + used

    run_watched(run, home, tmp_path, monkeypatch)
