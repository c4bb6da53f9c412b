"""What a build under Prefect touches: no host but this one, no file but its own and those of Prefect's home."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.prefect_test_server import prefect_environment
from tests.flows.test_recall_set import CAPTIONS
from tests.flows.test_shrinkage_guard import write

ROOT = Path(__file__).parents[2]
# Loaded by every Python that is started with this folder on its path: the build, Prefect's server, and their workers.
WATCH = """
import json, os, sys

PLACE = os.environ["WATCHED"]
# Opened at the start: the kernel lets a worker that decodes images open nothing later.
LOG = os.open(f"{PLACE}/{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def noted(event, *what):
    os.write(LOG, (json.dumps([event, *map(str, what)]) + "\\n").encode())

def watch(event, args):
    if event == "open":
        path, mode, flags = args
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and not isinstance(path, int) and not str(path).startswith(PLACE):
            noted("file", os.path.abspath(os.fsdecode(path)))
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "sqlite3.connect"):
        for path in args[:2] if event in ("os.rename", "os.link", "os.symlink") else args[:1]:
            if path != ":memory:":
                noted("file", os.path.abspath(os.fsdecode(path)))
    elif event in ("socket.connect", "socket.sendto"):
        noted("address", args[1][0] if isinstance(args[1], tuple) else "unix")

sys.addaudithook(watch)
"""
# Where Python and the system keep their own: bytecode beside the code, and what is no file.
NO_FILES = ("/dev/", "/proc/", "/sys/")


def watched(place: Path, words: list[str], **more: str) -> list[list[Any]]:
    """All that a command and its children wrote and called."""
    for name in ("watch", "watched", "home", "tmp"):
        (place / name).mkdir()
    (place / "watch" / "sitecustomize.py").write_text(WATCH)
    environment = prefect_environment(place / "home", **more) | {
        "PYTHONPATH": f"{place / 'watch'}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "WATCHED": str(place / "watched"),
        "TMPDIR": str(place / "tmp"),
        "HOME": str(place / "nobody"),
        "XDG_STATE_HOME": str(place / "state"),
    }
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    logs = sorted((place / "watched").iterdir())
    assert len(logs) >= 2, "the build and the server that it starts"
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


@pytest.mark.slow
def test_only_loopback_is_called_and_only_our_folders_are_written(tmp_path: Path) -> None:
    definition = write(tmp_path, CAPTIONS)
    noted = watched(tmp_path, [sys.executable, "-m", "flows.recall_set", "-p", f"definition={definition}"])
    addresses = {what for event, what in noted if event == "address"}
    assert addresses and addresses <= {"127.0.0.1", "::1", "localhost", "unix"}, addresses
    files = {what for event, what in noted if event == "file" and not what.startswith(NO_FILES)} - {str(tmp_path)}
    ours = [str(tmp_path / name) + os.sep for name in ("sets", "home", "state", "tmp")]
    outside = {file for file in files if not any((file + os.sep).startswith(folder) for folder in ours)}
    assert not outside, sorted(outside)[:20]
    assert "街边有一辆公交车" in (tmp_path / "sets" / "album" / "shown" / "v1.html").read_text("utf-8")
    assert any("/sets/album/v1" in file for file in files) and any(file.endswith("prefect.db") for file in files)
    assert not (tmp_path / "nobody").exists() and not list((tmp_path / "tmp").iterdir())
