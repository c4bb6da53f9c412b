"""Folders of tasks: nothing is left."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from querytruth.backends.files.durable_files import open_task_folder, task_root

ROOT = Path(__file__).parents[3]


def test_a_folder_is_removed_with_what_is_in_it() -> None:
    with open_task_folder() as one, open_task_folder() as other:
        (one / "file").write_text("x")
        assert one != other and one.parent == other.parent == task_root()
    assert not one.exists() and not other.exists()
    with pytest.raises(ZeroDivisionError), open_task_folder() as one:
        1 / 0  # noqa: B018
    assert not one.exists()


def test_the_end_of_the_process_removes_all_and_that_of_a_fork_nothing(tmp_path: Path) -> None:
    program = """
import os, sys
from querytruth.backends.files.durable_files import task_root
place = task_root()
if not (child := os.fork()):
    assert task_root() != place
    sys.exit()
os.waitpid(child, 0)
print(place.exists(), len(list(place.parent.iterdir())))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1"]
    assert list(tmp_path.iterdir()) == []
