"""What the terminal shows of names is what they are: brackets, emoji codes and backslashes are no markup."""

from __future__ import annotations

import pytest

from querytruth import terminal

NAMES = ["g[bold].yaml", "[/]", "[red]x[/red]", "a\\", "\\[b]", ":cat:", "[link=https://x.test]y[/link]", "[[x]]"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_printed_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say(f"{name} written")
    terminal.say(" written", bold=name)
    terminal.report(name)
    terminal.print_table(name, [name], [[name]])
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert [*map(str.rstrip, lines[:3])] == [f"{name} written"] * 2 + [name] and err == f"{name}\n"
    assert sum(f"┃ {name}" in line or f"│ {name}" in line for line in lines) == 2, (
        "the head of the column, and the cell"
    )


def test_every_line_of_the_commands_goes_that_way() -> None:
    from pathlib import Path

    for path in Path(terminal.__file__).parent.joinpath("cli").glob("*.py"):
        text = path.read_text("utf-8")
        assert "out.print(" not in text and "err.print(" not in text, path


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
