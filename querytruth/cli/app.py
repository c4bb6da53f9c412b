"""The `querytruth` command with its sub-commands; prints each error as one line."""

import signal
import sys
from importlib.metadata import version
from pathlib import Path
from types import FrameType

from cyclopts import App, Group, Parameter
from rich.markup import escape

from querytruth.backends.environment import configure_allocator
from querytruth.backends.files.bucket import transfer_bars
from querytruth.cli.command_line import run_command
from querytruth.errors import UserError
from querytruth.terminal import TerminalReporter, err

# In the order of work. A module is imported when its command is run, so each says here what it does, as it says itself.
COMMANDS = {
    "Start": {
        "demo": ("demo:demo", "Build, check and show the sets of the sample album."),
        "demo-servers": (
            "demo:demo_servers",
            "Serve stand-ins of a caption model and a search, to try the walk.",
        ),
        "init": ("start_commands:init", "Write a commented definition, or the deployments of Prefect, to start from."),
        "doctor": (
            "start_commands:doctor",
            "Check libraries, folders, keys, models and disk before a build.",
        ),
    },
    "Build": {
        "build": ("build_commands:app", "Build a set from its definition."),
        "topics": ("self_instruct_commands:topics", "Have a chat model propose topics and objects of them."),
        "objects": (
            "self_instruct_commands:objects",
            "Have the chat model propose more objects for accepted topics.",
        ),
        "collect": (
            "self_instruct_commands:collect",
            "Search the web for the accepted queries and fetch their images.",
        ),
        "labels": (
            "build_commands:labels_app",
            "Translate the labels of annotations, or take tags from the dates of photos.",
        ),
    },
    "Look": {
        "list": ("set_commands:list_", "List the sets below a folder with their newest version."),
        "show": ("set_commands:show", "Show the card of a set: counts, grades, funnel."),
        "lint": ("set_commands:lint", "Check for dangling ids, empty truth, duplicates, overlaps and leaks."),
        "diff": ("set_commands:diff", "Show what two versions differ in, and whether figures stay comparable."),
        "search": ("search_commands:search", "Try one query on a set by any system, and write a page of the results."),
    },
    "Review": {
        "review": ("review_commands:app", "Open the page on which people judge a set, or its CSV."),
        "apply": ("review_commands:apply", "Publish the next version of a set from the decisions made on it."),
    },
    "Measure": {
        "evaluate": ("evaluate_command:evaluate", "Measure how well systems find a set's images."),
        "compare": ("comparison_commands:compare", "Compare systems on the same queries."),
        "gate": ("gate_commands:gate", "Decide whether a candidate may replace a baseline."),
        "plan-size": ("gate_commands:plan_size", "Plan the number of queries that find a difference of two systems."),
        "leaderboard": ("comparison_commands:leaderboard", "Order all systems that were evaluated on a set."),
    },
    "Trust": {
        "audit": ("trust_commands:app", "Estimate how much of a set's truth is missing or wrong."),
        "overlap": ("check_commands:app", "Find what a set shares with training data or with another set."),
        "shortcuts": ("check_commands:shortcuts", "Test whether queries are answered without a look at the images."),
        "verify": ("set_commands:verify", "Compute every checksum again, and follow the decision logs."),
        "rebuild": ("set_commands:rebuild", "Build a version again from its manifest, and compare."),
        "gc": ("set_commands:gc", "Remove what interrupted runs left below a set's folder."),
    },
    "Share": {
        "import": ("exchange_commands:import_", "Make a set of somebody else's files."),
        "export": ("exchange_commands:export", "Write a set as other evaluators read it."),
        "publish": ("exchange_commands:publish", "Store a version in object storage."),
        "fetch": ("exchange_commands:fetch", "Put a version from object storage into a folder of sets."),
    },
    "Models": {
        "judge": ("judge_commands:app", "Check a model that judges whether images fit queries."),
        "replies": ("judge_commands:replies_app", "The stored replies of chat models."),
        "train": ("self_instruct_commands:train", "Train a dual encoder on a set's own images and queries."),
    },
}
_FORMER = {  # commands of earlier releases, and what to say now
    "history": "compare SET --history",
    "stability": "compare SET --with OTHER",
    "health": "topics DEFINITION.yaml --health, or objects",
    "systems": "search SET TEXT --system FILE.yaml --trial",
    "audit export-csv": "review export-csv SET --audit NAME",
    "audit import-csv": "review import-csv SET FILE --audit NAME",
}


def advise(command: str, word: str) -> str | None:
    """Returns what to type in the place of a word that is no command."""
    if command == "querytruth build":
        return f"choose from gallery, recall, precision, generated; a folder: {command} gallery --set images={word}"
    now = _FORMER.get(" ".join([*command.split()[1:], word]))
    return f"say querytruth {now}" if now else None


def name_kind(words: list[str]) -> list[str]:
    """Returns the words of a command line; `build FILE.yaml` gets the kind that the definition names."""
    if words[:1] != ["build"] or not words[1:] or Path(words[1]).suffix not in (".yaml", ".yml"):
        return words
    from flows.definition_loader import read_kind

    return ["build", read_kind(Path(words[1])), *words[1:]]


def _version() -> str:
    return f"querytruth {version('querytruth')}"


app = App(
    name="querytruth",
    help="Turns images into a trusted benchmark for text-to-image search.",
    version=_version,
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
app.register_install_completion_command(help="Install the completion of names for your shell.")


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
        run_command(app, name_kind(sys.argv[1:]), advise)
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
