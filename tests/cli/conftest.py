"""The command line in the process of the tests."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from querytruth.cli import app


@dataclass(frozen=True)
class Run:
    """The command in this process: what it prints on stdout, and on stderr in one line."""

    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]

    def __call__(self, *words: object, code: int = 0) -> tuple[str, str]:
        self.patch.setattr(sys, "argv", ["querytruth", *map(str, words)])
        ended = 0
        try:
            app.main()
        except SystemExit as stop:
            ended = int(stop.code or 0)
        printed = self.capture.readouterr()
        assert ended == code, printed.out + printed.err
        return printed.out, " ".join(printed.err.split())

    def json(self, *words: object, code: int = 0) -> Any:
        """What it prints with --json."""
        return json.loads(self(*words, "--json", code=code)[0])

    def error(self, *words: object, code: int = 1) -> str:
        """The line of a command that fails."""
        return self(*words, code=code)[1]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Commands that are given in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    return Run(monkeypatch, capsys)
