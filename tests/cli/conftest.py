"""The command line in the process of the tests."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from querytruth.cli import app

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: what it prints on stdout, and on stderr in one line."""
    monkeypatch.chdir(tmp_path)

    def command(*words: object, code: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["querytruth", *map(str, words)])
        ended = 0
        try:
            app.main()
        except SystemExit as stop:
            ended = int(stop.code or 0)
        printed = capsys.readouterr()
        assert ended == code, printed.out + printed.err
        return printed.out, " ".join(printed.err.split())

    return command
