"""Sets going out and coming in by the command line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.small_sets import publish_small_set, small_tables

FAULTS = [
    (["export", "sets/small", "beirr", "out"], "unknown format. Next: did you mean 'beir'?"),
    (["export", "sets/small", "chinese_clip", "out"], "--allow-loss"),
    (["import", "mteb", "nowhere", "datasets/other"], "nowhere"),
    (["import", "mugee", "sets", "datasets/other"], "unknown format. Next: did you mean 'muge'?"),
    (["import", "csv", "sets", "datasets/UPPER"], "name"),
]


@pytest.mark.slow
def test_what_is_exported_comes_back_the_same(run: Run, tmp_path: Path) -> None:
    name = "sets/small"
    publish_small_set(tmp_path, small_tables())
    assert run.json("export", name, "csv", "out", "--with-places")["format"] == "csv"
    built = run.json("import", "csv", "out", "datasets/again")
    assert built["kind"] == "imported" and built["published"]
    assert run.json("show", "again")["content_digest"] == run.json("show", name)["content_digest"]
    assert "same content digest" in run("rebuild", "again", "--check")[0]
    assert "unchanged" in run("import", "csv", "out", "datasets/again")[0]


@pytest.mark.parametrize(("words", "says"), FAULTS)
@pytest.mark.thorough
def test_what_cannot_be_is_one_line(run: Run, tmp_path: Path, words: list[str], says: str) -> None:
    publish_small_set(tmp_path, small_tables())
    assert says in run.error(*words)
