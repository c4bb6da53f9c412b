"""Folders of tasks that leave nothing on the machine that they run on."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


def task_root() -> Path:
    """Returns the folder of all tasks of this process: a decoder process that may write there serves one after another.
    It is removed when the process ends."""
    root = _make_root(os.getpid())
    root.mkdir(exist_ok=True)
    return root


@contextmanager
def open_task_folder() -> Iterator[Path]:
    """Makes a folder for a task, and removes it afterwards."""
    with tempfile.TemporaryDirectory(dir=task_root()) as folder:
        yield Path(folder)


@cache
def _make_root(process: int) -> Path:
    root = Path(tempfile.mkdtemp(prefix="querytruth-"))
    atexit.register(_remove, root, process)
    return root


def _remove(root: Path, process: int) -> None:
    if os.getpid() == process:  # a fork of the process has its own
        shutil.rmtree(root, ignore_errors=True)
