"""Sets going out and coming in by the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_sets import publish_small_set, small_tables

FAULTS = [
    (["export", "sets/small", "beirr", "out"], "unknown format. Next: did you mean 'beir'?"),
    (["export", "sets/small", "chinese_clip", "out"], "--allow-loss"),
    (["import", "mteb", "nowhere", "datasets/other"], "nowhere"),
    (["import", "mugee", "sets", "datasets/other"], "unknown format. Next: did you mean 'muge'?"),
    (["import", "csv", "sets", "datasets/UPPER"], "name"),
]


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "querytruth", *words]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def digest(folder: Path, name: str) -> str:
    return str(json.loads(run(folder, "show", name, "--json").stdout)["content_digest"])


@pytest.mark.slow
def test_what_is_exported_comes_back_the_same(tmp_path: Path) -> None:
    name = "sets/small"
    publish_small_set(tmp_path, small_tables())
    told = json.loads(run(tmp_path, "export", name, "csv", "out", "--with-places", "--json").stdout)
    assert told["format"] == "csv"
    built = json.loads(run(tmp_path, "import", "csv", "out", "datasets/again", "--json").stdout)
    assert built["kind"] == "imported" and built["published"]
    assert digest(tmp_path, "again") == digest(tmp_path, name)
    assert "same content digest" in run(tmp_path, "rebuild", "again", "--check").stdout
    assert "unchanged" in run(tmp_path, "import", "csv", "out", "datasets/again").stdout


@pytest.mark.parametrize(("words", "says"), FAULTS)
@pytest.mark.thorough
def test_what_cannot_be_is_one_line(tmp_path: Path, words: list[str], says: str) -> None:
    publish_small_set(tmp_path, small_tables())
    failed = run(tmp_path, *words, code=1).stderr
    assert says in failed.replace("\n", " ")
