"""A version that is gone: it is named, and its number is never given to another one."""

import shutil
from pathlib import Path

import pytest

from builders.publication import publish_decisions
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sets.decision_log import append_decisions, verify_decision_logs
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.manifest import read_manifest
from querytruth.sets.set_files import StoredSet
from tests.small_sets import publish_small_set, small_tables


def drop(stored: StoredSet, row: int) -> None:
    query = stored.tables.queries.iloc[row]
    append_decisions(stored.path.parent, [QueryDecision(query.query_id, query.text, "drop", at="2026-01-01")])


@pytest.fixture
def stored(tmp_path: Path) -> StoredSet:
    """The first of two versions."""
    first = publish_small_set(tmp_path, small_tables())
    drop(first, 0)
    assert publish_decisions(first.path).version == 2
    return first


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder / "v2")


def remove_manifest(folder: Path) -> None:
    (folder / "v2" / "manifest.json").unlink()


def remove_folder_and_latest(folder: Path) -> None:
    """Only an evaluation remembers it."""
    shutil.rmtree(folder / "v2")
    (folder / "latest").write_text("v1\n")
    (folder / "evaluations" / "v2").mkdir(parents=True)


@pytest.mark.parametrize("lose", [remove_folder, remove_manifest, remove_folder_and_latest])
def test_a_lost_version_is_named_and_its_number_is_not_used_again(stored: StoredSet, lose: object) -> None:
    folder = stored.path.parent
    lose(folder)  # type: ignore[operator]
    drop(stored, 1)
    with pytest.raises(UserError, match=r"v2 (is missing|has no manifest), but .* refers to it.*restore its folder"):
        publish_decisions(stored.path)
    assert not (folder / "v3").exists()
    assert any("v2" in line for line in verify_decision_logs(stored.path))
    with active_run(BuildRun(accept_loss=True)):
        result = publish_decisions(stored.path)
    assert result.version == 3
    assert any("v2" in line for line in read_manifest(result.path)["known_limitations"])
    assert list(verify_decision_logs(result.path)) == [], "v3 says it, and goes on"


def test_that_an_older_version_is_gone_changes_nothing(stored: StoredSet) -> None:
    shutil.rmtree(stored.path)
    drop(stored, 1)
    assert publish_decisions(stored.path.parent / "v2").version == 3
