"""A set from a stranger is data: whatever it holds, no command reads, writes or connects where the set says."""

import shutil
from pathlib import Path

import pytest

from querytruth.errors import UserError
from querytruth.sets.set_files import find_set
from tests.command_runner import invoke
from tests.hostile_sets import HostileCase, hostile_cases, version_of
from tests.resealed_sets import reseal
from tests.small_sets import publish_small_set, strangers_tables
from tests.watched_commands import do_work_in_process, make_home, run_cases, run_watched, use_set

_PARTS = 4  # into which the cases are divided


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole set of four images, as a stranger would publish it."""
    return publish_small_set(tmp_path_factory.mktemp("template"), strangers_tables()).path.parent


@pytest.mark.thorough
def test_a_sample_of_hostile_sets(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_all(list(hostile_cases())[::13], template, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(_PARTS))
def test_all_hostile_sets(part: int, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_all(list(hostile_cases())[part::_PARTS], template, tmp_path, monkeypatch)


def _run_all(cases: list[HostileCase], template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cases(cases, lambda case, place: _run_case(case, template, place, monkeypatch), tmp_path)


def _run_case(case: HostileCase, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, folder = make_home(tmp_path), tmp_path / "sets" / "small"
    whole = tmp_path / "sets" / "whole"
    shutil.copytree(template, folder)
    shutil.copytree(template, whole)
    case[1](folder, home)
    reseal(version_of(folder))
    do_work_in_process(monkeypatch)
    run_watched(lambda: use_set(version_of(folder), whole), home, tmp_path, monkeypatch)


def test_a_version_that_is_a_link_is_not_followed(template: Path, tmp_path: Path) -> None:
    shutil.copytree(template, tmp_path / "private")
    shutil.copytree(template, tmp_path / "sent")
    (tmp_path / "sent" / "v9").symlink_to(tmp_path / "private" / "v1")
    with pytest.raises(UserError, match=r"v9 \(find set\): is a link"):
        find_set(str(tmp_path / "sent"))
    assert find_set(str(tmp_path / "sent" / "v1")).name == "v1"


def test_no_page_is_written_through_a_link(template: Path, tmp_path: Path) -> None:
    folder, outside = tmp_path / "sets" / "small", tmp_path / "outside"
    shutil.copytree(template, folder)
    outside.mkdir()
    (folder / "shown").symlink_to(outside)
    said = invoke("apply", folder / "v1")
    assert said.exit_code == 0 and "shown (write page): is a link" in said.output
    assert not list(outside.iterdir())
