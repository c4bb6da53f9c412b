"""The `querytruth` command: its sub-commands, and the edge at which errors become one line."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import typer
from rich.markup import escape

from backends.memory import give_back_what_is_freed
from builders.errors import UserError
from querytruth import (
    build,
    collecting,
    comparing,
    demo,
    evaluating,
    exchange,
    generating,
    health,
    init,
    judging,
    sets,
    training,
)
from querytruth.terminal import err, plain

app = typer.Typer(
    help="Turns pictures into a trusted benchmark for text-to-image search.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(init.init)
app.add_typer(build.app, name="build")
app.command()(generating.topics)
app.command()(generating.objects)
app.command()(collecting.collect)
app.command()(health.health)
for command in (sets.show, sets.verify, sets.lint, sets.diff, sets.rebuild, exchange.export):
    app.command()(command)
app.command("import")(exchange.import_)
app.add_typer(judging.app, name="review")
app.command()(judging.apply)
app.command()(evaluating.evaluate)
app.command()(comparing.compare)
app.command()(comparing.stability)
app.command()(training.train)


class _Stopped(BaseException):
    """Ctrl-C or a polite kill, in a form that no library takes for its own."""


def main() -> None:
    """Run the command. Exit 0: done; 1: the work failed; 2: the call was wrong; 130: stopped."""
    give_back_what_is_freed()
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, _stop)
    try:
        app()
    except UserError as error:
        err.print(f"[bold red]error[/] {escape(plain(str(error)))}", soft_wrap=True)
        sys.exit(1)
    except _Stopped:
        err.print("stopped; the same command goes on where it stopped")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise _Stopped
