"""Progress where stderr is a log file: a line every half minute, with what is left."""

import pytest

from querytruth import terminal


def test_a_log_gets_a_line_every_half_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    with terminal.TerminalReporter().bar("scan", 600, "images") as advance:
        for _ in range(6):
            clock[0] += 11
            advance(100)
    assert capsys.readouterr().err.splitlines() == [
        "scan: 300/600 images in 33 s, about 33 s left",
        "scan: 600/600 images in 66 s, about 0 s left",
    ]


def test_a_quick_step_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.TerminalReporter().bar("scan", 600, "images") as advance:
        advance(600)
    assert capsys.readouterr().err == ""
