"""What the shell completes: names of sets, their versions, and formats."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from querytruth.cli import exchange_commands
from querytruth.cli.options import complete_sets
from tests.small_sets import publish_small_set, small_tables


class _Typed:
    """What was typed so far."""

    def __init__(self, **params: object) -> None:
        self.params = params


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    publish_small_set(folder, small_tables())
    folder.joinpath("sets/smoke").mkdir()
    return folder / "sets"


def test_sets_are_completed_and_after_a_slash_their_versions(sets: Path) -> None:
    typed = _Typed(out=sets)
    assert complete_sets(typed, "sm") == ["small"]  # type: ignore[arg-type]
    assert complete_sets(typed, "small/") == ["small/v1"]  # type: ignore[arg-type]
    assert complete_sets(_Typed(out=sets / "gone"), "s") == []  # type: ignore[arg-type]


def test_formats_are_completed() -> None:
    assert exchange_commands._complete_export_formats("tre") == ["trec"]
    assert exchange_commands._complete_import_formats("flickr8k") == ["flickr8k", "flickr8k_cn"]


@pytest.mark.thorough
def test_a_shell_gets_the_names_of_the_folder_that_was_typed(sets: Path) -> None:
    words = f"querytruth show --out {sets} sm"
    asked = {"_QUERYTRUTH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"}
    code = "from querytruth.cli.app import app; app(prog_name='querytruth')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["small"], done.stderr
