"""What the shell completes: names of sets, their versions, and formats."""

from pathlib import Path

import pytest

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
