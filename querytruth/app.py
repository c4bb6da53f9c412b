"""The `querytruth` command with its sub-commands; prints each error as one line."""

import signal
import sys
from types import FrameType
from typing import Annotated

import typer
from rich.markup import escape

from backends.memory import configure_allocator
from backends.object_storage.transfer_bars import transfer_bars
from builders.errors import UserError
from querytruth import (
    audit_commands,
    build_commands,
    calibrate_command,
    comparison_commands,
    demo,
    doctor_command,
    evaluate_command,
    exchange_commands,
    gate_command,
    init,
    judge_commands,
    labels_commands,
    leaderboard_commands,
    list_command,
    overlap_commands,
    plan_size_command,
    reply_commands,
    review_commands,
    search_command,
    self_instruct_commands,
    set_commands,
    shortcuts_command,
    storage_commands,
    systems_commands,
    train_command,
)
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
        typer.Option(
            "--version", help="Print the version, and end.", callback=list_command.print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options of the command itself."""


app.command()(demo.demo)
app.command()(init.init)
app.command()(doctor_command.doctor)
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
    storage_commands.publish,
    storage_commands.fetch,
):
    app.command()(command)
app.command("list")(list_command.list_)
app.command("import")(exchange_commands.import_)
app.add_typer(review_commands.app, name="review")
app.command()(review_commands.apply)
app.command()(calibrate_command.calibrate)
app.command()(evaluate_command.evaluate)
app.command()(search_command.search)
app.command()(comparison_commands.compare)
app.command()(comparison_commands.stability)
app.command()(gate_command.gate)
app.command()(plan_size_command.plan_size)
app.add_typer(overlap_commands.app, name="overlap")
app.command()(shortcuts_command.shortcuts)
app.command()(leaderboard_commands.leaderboard)
app.command()(leaderboard_commands.history)
app.add_typer(systems_commands.app, name="systems")
app.add_typer(audit_commands.app, name="audit")
app.add_typer(judge_commands.app, name="judge")
app.add_typer(reply_commands.app, name="replies")
app.add_typer(labels_commands.app, name="labels")
app.command()(train_command.train)


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
