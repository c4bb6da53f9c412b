"""The `querytruth` command with its sub-commands; prints each error as one line."""

import signal
import sys
from types import FrameType
from typing import Annotated

import typer
from rich.markup import escape

from querytruth.backends.environment import configure_allocator
from querytruth.backends.files.bucket import transfer_bars
from querytruth.cli import (
    build_commands,
    check_commands,
    comparison_commands,
    demo,
    evaluate_command,
    exchange_commands,
    gate_commands,
    judge_commands,
    review_commands,
    search_commands,
    self_instruct_commands,
    set_commands,
    start_commands,
    trust_commands,
)
from querytruth.cli.build_commands import labels_app
from querytruth.cli.comparison_commands import history, leaderboard
from querytruth.cli.exchange_commands import fetch, publish
from querytruth.cli.judge_commands import calibrate, replies_app
from querytruth.cli.self_instruct_commands import train
from querytruth.cli.set_commands import list_, print_version
from querytruth.errors import UserError
from querytruth.terminal import TerminalReporter, err

app = typer.Typer(
    help="Turns pictures into a trusted benchmark for text-to-image search.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version, and end.", callback=print_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options of the command itself."""


app.command()(demo.demo)
app.command()(start_commands.init)
app.command()(start_commands.doctor)
app.add_typer(build_commands.app, name="build")
app.command()(self_instruct_commands.topics)
app.command()(self_instruct_commands.objects)
app.command()(self_instruct_commands.collect)
app.command()(self_instruct_commands.health)
for command in (
    set_commands.show,
    set_commands.verify,
    set_commands.gc,
    set_commands.lint,
    set_commands.diff,
    set_commands.rebuild,
    exchange_commands.export,
    publish,
    fetch,
):
    app.command()(command)
app.command("list")(list_)
app.command("import")(exchange_commands.import_)
app.add_typer(review_commands.app, name="review")
app.command()(review_commands.apply)
app.command()(calibrate)
app.command()(evaluate_command.evaluate)
app.command()(search_commands.search)
app.command()(comparison_commands.compare)
app.command()(comparison_commands.stability)
app.command()(gate_commands.gate)
app.command()(gate_commands.plan_size)
app.add_typer(check_commands.app, name="overlap")
app.command()(check_commands.shortcuts)
app.command()(leaderboard)
app.command()(history)
app.add_typer(search_commands.app, name="systems")
app.add_typer(trust_commands.app, name="audit")
app.add_typer(judge_commands.app, name="judge")
app.add_typer(replies_app, name="replies")
app.add_typer(labels_app, name="labels")
app.command()(train)


class _StopRequested(BaseException):
    """SIGINT or SIGTERM; not KeyboardInterrupt, which libraries handle themselves."""


def main() -> None:
    """Run the command. Exit 0: done; 1: the work failed; 2: wrong arguments; 3: a gate is undecided; 4: the budget
    is spent; 130: stopped; 143: stopped by SIGTERM."""
    configure_allocator()
    transfer_bars.set(TerminalReporter().bar)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _raise_stop_requested)
    try:
        app()
    except UserError as error:
        err.print(f"[bold red]error[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
    except _StopRequested as stop:
        err.print("stopped; the same command goes on where it stopped")
        sys.exit(128 + stop.args[0])
    except BrokenPipeError:
        sys.exit(1)


def _raise_stop_requested(number: int, _frame: FrameType | None) -> None:
    raise _StopRequested(int(number))
