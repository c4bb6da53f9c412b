"""Builds in processes of their own: with another locale, killed under way."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_BUILD = """
import sys
from pathlib import Path
from flows.set_kinds import build_set
from flows.definition_loader import load_definition
from querytruth.backends.steps import BuildRun, active_run
with active_run(BuildRun(workers=int(sys.argv[3]))):
    print(build_set(load_definition(Path(sys.argv[2]), [], sys.argv[1])).manifest["content_digest"])
"""

Digest = Callable[..., str]


def build_command(kind: str, definition: Path, workers: int = 1, before: str = "") -> list[str]:
    return [sys.executable, "-c", f"{before}\n{_BUILD}", kind, str(definition), str(workers)]


@pytest.fixture
def digest_of() -> Digest:
    """The content digest of a build run in a process of its own, in whatever environment. `before`: Python to run
    first."""

    def run(
        kind: str, definition: Path, workers: int = 1, umask: int = 0o022, before: str = "", **environment: str
    ) -> str:
        environment = {**os.environ, **environment}
        arguments = build_command(kind, definition, workers, before)
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, umask=umask)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()

    return run


@pytest.fixture
def start_build() -> Callable[..., subprocess.Popen[bytes]]:
    """A build that is under way when the call returns."""

    def start(kind: str, definition: Path, workers: int = 2) -> subprocess.Popen[bytes]:
        arguments = build_command(kind, definition, workers)
        return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return start
