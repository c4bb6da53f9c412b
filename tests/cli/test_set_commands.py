"""What the shell completes of sets, and that commands which read a set leave it as it was."""

import hashlib
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.command_runner import invoke
from tests.small_sets import publish_small_set, small_tables


def complete(*words: object) -> list[str]:
    """What the shell offers in the place of the last word."""
    return invoke("__complete", *words).stdout.partition("begin\n")[2].splitlines()


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    publish_small_set(folder, small_tables())
    folder.joinpath("sets/smoke").mkdir()
    return folder / "sets"


def test_sets_are_completed_and_after_a_slash_their_versions(sets: Path) -> None:
    assert complete("show", "--out", sets, "sm") == ["small"]
    assert complete("review", "--out", sets, "small/") == ["small/v1"]
    assert complete("evaluate", "--out", sets / "gone", "s") == []
    assert complete("compare", "--out", sets, "small", "sm") == [], "a run is no set"


def test_formats_are_completed() -> None:
    assert complete("export", "small", "tre") == ["trec"]
    assert complete("import", "flickr8k") == ["flickr8k", "flickr8k_cn"]


READS = [
    ["show", "small"],
    ["verify", "small"],
    ["lint", "small"],
    ["diff", "small/v1", "small/v1"],
    ["export", "small", "csv", "exported"],
    ["evaluate", "small", "--baseline", "oracle", "--report", "report"],
    ["search", "small", "a dog, wet", "--run", "report", "--page", "search.html"],
    ["compare", "small", "report", "report", "--page", "compare.html"],
]


def state_of(folder: Path) -> dict[str, tuple[int, int, str]]:
    """By path: rights, time of the last change in nanoseconds, and digest."""
    state = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        state[str(path)] = path.stat().st_mode, path.stat().st_mtime_ns, digest
    return state


@pytest.mark.slow
def test_commands_that_read_leave_a_set_as_it_was(run: Run, tmp_path: Path) -> None:
    sets = publish_small_set(tmp_path, small_tables()).path.parent.parent
    folders = [sets, *(path for path in sets.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    before = state_of(sets)
    try:
        for command in READS:
            run(*command, "--out", sets, code=int(command[0] == "lint"))  # lint finds an empty truth
            assert state_of(sets) == before, command
    finally:
        for folder in folders:
            folder.chmod(0o755)
