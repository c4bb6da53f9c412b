"""Output of the commands: lines and bars on stderr, tables on stdout, or JSON for machines."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from rich.console import Console
from rich.text import Text

from querytruth.errors import escape_invisible, make_visible
from querytruth.sets.manifest import FunnelStage

out, err = Console(highlight=False), Console(stderr=True, highlight=False)
_MEGABYTE = 1_000_000
_SECONDS_BETWEEN_LINES = 30.0


def say(text: object, bold: str = "") -> None:
    """Print a line on stdout, brackets as they are and invisible characters made visible, after a part in bold."""
    out.print(Text.assemble((make_visible(bold), "bold"), make_visible(str(text))), soft_wrap=True)


def report(text: object, red: str = "") -> None:
    """Print a line on stderr in the same way, after a part in bold red."""
    err.print(Text.assemble((red, "bold red"), make_visible(str(text))), soft_wrap=True)


class _ProgressLines:
    """A line about a step's progress on stderr every half minute, for logs."""

    def __init__(self, title: str, total: float, unit: str) -> None:
        self._title, self._total, self._unit = title, total, unit
        self._done, self._lock = 0.0, Lock()
        self._start = self._last = time.monotonic()

    def advance(self, count: float) -> None:
        """Add to what is done, and print where the last line is half a minute old."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if now - self._last < _SECONDS_BETWEEN_LINES:
                return
            self._last, seconds = now, now - self._start
            rate = self._done / seconds
            left = f", about {max(self._total - self._done, 0) / rate:,.0f} s left" if rate and self._total else ""
            of_total = f"{self._done:,.0f}/{self._total:,.0f} {self._unit}"
            report(f"{self._title}: {of_total} in {seconds:,.0f} s{left}")


class TerminalReporter:
    """Shows a progress bar per step on stderr; where that is not a terminal, a line every half minute."""

    def log(self, text: str) -> None:
        """Print one line on stderr."""
        report(text)

    @contextmanager
    def bar(self, title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """Show a bar of a step; bytes are shown as MB."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        scale, shown = (_MEGABYTE, "MB") if unit == "bytes" else (1, unit)
        lines = None if err.is_terminal else _ProgressLines(title, total / scale, shown)
        columns = (
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} " + shown),
            TextColumn("{task.fields[rate]}"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
            task = progress.add_task(title, total=max(total, 1) / scale, rate="")

            def advance(count: int) -> None:
                if lines is not None:
                    lines.advance(count / scale)
                    return
                progress.advance(task, count / scale)
                speed = progress.tasks[0].speed
                progress.update(task, rate=f"{speed:.0f} {shown}/s" if speed else "")

            yield advance


@contextmanager
def reported_run(**options: Any) -> Iterator[None]:
    """Report steps on the terminal while the block runs; `options` are those of querytruth.backends.steps.BuildRun."""
    from querytruth.backends.steps import BuildRun, active_run

    with active_run(BuildRun(TerminalReporter(), **options)):
        yield


def print_json(value: object) -> None:
    """Print a value as JSON, with colours on a terminal."""
    from rich.highlighter import JSONHighlighter

    text = escape_invisible(json.dumps(value, ensure_ascii=False, indent=2, default=str))
    out.print(JSONHighlighter()(text), soft_wrap=True) if out.is_terminal else print(text)


def print_table(title: str, columns: list[str], rows: list[list[object]]) -> None:
    """Print a table, numbers to the right and text to the left."""
    from rich.table import Table

    shown = Table(title=Text(make_visible(title)), title_justify="left", title_style="bold", header_style="bold")
    for place, column in enumerate(columns):
        numeric = all(isinstance(row[place], int | float) for row in rows) and bool(rows)
        shown.add_column(Text(make_visible(column)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        texts = (f"{cell:,}" if isinstance(cell, int) else make_visible(str(cell)) for cell in row)
        shown.add_row(*map(Text, texts))
    out.print(shown)


def print_funnel(stages: Iterable[FunnelStage]) -> None:
    """Print each stage with the numbers that entered and were accepted, and the reasons for the others."""
    from querytruth.sets.manifest import FUNNEL_COLUMNS, tabulate_funnel

    print_table("Funnel", FUNNEL_COLUMNS, tabulate_funnel(stages))
