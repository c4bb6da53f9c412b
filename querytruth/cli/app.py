"""The `querytruth` command with its sub-commands; prints each error as one line."""

import signal
import sys
from pathlib import Path
from types import FrameType

from cyclopts import App, Group, Parameter

from querytruth.backends.environment import configure_allocator
from querytruth.backends.steps import transfer_reporter
from querytruth.cli.command_line import run_command
from querytruth.cli.command_list import COMMANDS, PURPOSE, name_version
from querytruth.errors import UserError, suggest_choice
from querytruth.terminal import TerminalReporter, report


def advise(command: str, word: str) -> str | None:
    """Return a suggestion for a word that is not a command."""
    if command != "querytruth build":
        return None
    from querytruth.sets.manifest import KINDS

    kinds = [kind for kind in KINDS if kind != "imported"]  # which `import` makes
    folder = f"choose from {', '.join(kinds)}; for a folder, run: {command} gallery --set images={word}"
    return folder if Path(word).is_dir() else suggest_choice(word, kinds)


def name_kind(words: list[str]) -> list[str]:
    """Return the words of a command line; `build FILE.yaml` gets the kind that the definition names."""
    if words[:1] != ["build"] or not words[1:] or Path(words[1]).suffix not in (".yaml", ".yml"):
        return words
    from flows.definition_loader import read_kind

    return ["build", read_kind(Path(words[1])), *words[1:]]


app = App(
    name="querytruth",
    help=PURPOSE,
    version=name_version,
    help_flags=["--help", "-h"],
    version_flags=["--version"],
    help_format="plaintext",
    default_parameter=Parameter(negative=(), negative_iterable=()),
    group_parameters="Options",
    group_commands="Other",
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
)
for panel, commands in COMMANDS.items():
    ordered = Group.create_ordered(panel)
    for place, (name, (where, about)) in enumerate(commands.items()):
        app.command(f"{__package__}.{where}", name=name, help=about, group=ordered, sort_key=place)
app.register_install_completion_command(help="Install shell completion for querytruth.")


class _StopRequested(BaseException):
    """SIGINT or SIGTERM; not KeyboardInterrupt, which libraries handle themselves."""


def main() -> None:
    """Run the command. Exit 0: done; 1: the work failed; 2: wrong arguments; 3: a gate is undecided; 4: the budget
    is spent; 130: stopped; 143: stopped by SIGTERM."""
    configure_allocator()
    transfer_reporter.set(TerminalReporter())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _raise_stop_requested)
    try:
        run_command(app, name_kind(sys.argv[1:]), advise)
    except UserError as error:
        report(f" {error}", red="error")
        sys.exit(error.exit_code)
    except _StopRequested as stop:
        report("stopped; run the same command again to continue")
        sys.exit(128 + stop.args[0])
    except BrokenPipeError:
        sys.exit(1)


def _raise_stop_requested(number: int, _frame: FrameType | None) -> None:
    raise _StopRequested(int(number))
