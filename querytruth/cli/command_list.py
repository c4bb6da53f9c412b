"""All commands with what each does. Loads no library: what `querytruth --help` prints is printed at once."""

import textwrap
from importlib.metadata import version

PURPOSE = "Turn images into a trusted benchmark for text-to-image search."
# In the order of work. A module is imported when its command is run, so each says here what it does, as it says itself.
COMMANDS = {
    "Start": {
        "demo": ("demo:demo", "Build, check and show the sets of the sample album."),
        "demo-servers": ("demo:demo_servers", "Serve a mock caption endpoint and a mock search, to try the tutorial."),
        "open": ("start_commands:open_", "Open a page over a folder, and measure your own search on its photos."),
        "init": ("start_commands:init", "Write a commented definition, or Prefect deployments, as a starting point."),
        "doctor": ("start_commands:doctor", "Check libraries, folders, keys, models and disk before a build."),
    },
    "Build": {
        "build": ("build_commands:app", "Build a set from its definition."),
        "topics": ("self_instruct_commands:topics", "Propose topics and their objects with a chat model."),
        "objects": ("self_instruct_commands:objects", "Propose more objects for accepted topics with a chat model."),
        "collect": (
            "self_instruct_commands:collect",
            "Search the web for the accepted queries and download their images.",
        ),
        "labels": (
            "build_commands:labels_app",
            "Translate the labels of annotations, or read facts from photos and files beside them.",
        ),
    },
    "Look": {
        "list": ("set_commands:list_", "List the sets in a folder with their newest version."),
        "show": ("set_commands:show", "Show the card of a set: counts, grades, funnel."),
        "lint": ("set_commands:lint", "Check for dangling ids, missing truth, duplicates, overlaps and leaks."),
        "diff": ("set_commands:diff", "Show how two versions differ, and whether figures stay comparable."),
        "search": ("search_commands:search", "Run one query on a set with any system, and write a result page."),
    },
    "Review": {
        "review": ("review_commands:app", "Open the page on which people judge a set, or exchange judgments as CSV."),
        "apply": ("review_commands:apply", "Publish the next version of a set with the decisions made on it."),
    },
    "Measure": {
        "evaluate": ("evaluate_command:evaluate", "Measure how well systems find the images of a set."),
        "compare": ("comparison_commands:compare", "Compare systems on the same queries."),
        "check": ("check_commands:app", "Check with golden queries that a search still finds the expected images."),
        "gate": ("comparison_commands:gate", "Decide whether a candidate may replace a baseline."),
        "plan-size": (
            "comparison_commands:plan_size",
            "Plan the number of queries needed to detect a difference between two systems.",
        ),
        "leaderboard": ("comparison_commands:leaderboard", "Rank all systems that were evaluated on a set."),
    },
    "Trust": {
        "audit": ("trust_commands:app", "Estimate how many judgments of a set are missing or wrong."),
        "overlap": ("trust_commands:overlap", "Find overlap between a set and training data or another set."),
        "notice": (
            "trust_commands:notice",
            "Measure which kinds of damage to a search a set detects, and what the search never finds.",
        ),
        "verify": ("set_commands:verify", "Recompute all checksums, and check the decision logs."),
        "rebuild": ("set_commands:rebuild", "Rebuild a version from its manifest, and compare the result."),
        "gc": ("set_commands:gc", "Remove unfinished files that interrupted runs left behind."),
    },
    "Share": {
        "import": ("exchange_commands:import_", "Create a set from files in another format."),
        "export": ("exchange_commands:export", "Export a set in the format of another evaluator."),
        "publish": ("exchange_commands:publish", "Store a version in object storage."),
        "fetch": ("exchange_commands:fetch", "Download a version from object storage into a folder of sets."),
    },
    "Models": {
        "judge": ("judge_commands:app", "Check a model that judges whether images match queries."),
        "replies": ("judge_commands:replies_app", "Manage the stored replies of chat models."),
        "train": ("self_instruct_commands:train", "Train a dual encoder on the images and queries of a set."),
    },
}
_OTHER = {
    "--help (-h)": "Show this message and exit.",
    "--install-completion": "Install shell completion for querytruth.",
    "--version": "Show the version and exit.",
}


def name_version() -> str:
    """Return the name of the command with its version."""
    return f"querytruth {version('querytruth')}"


def describe(columns: int) -> str:
    """Return the text of `querytruth --help`, with at most so many columns."""
    panels = {panel: {name: about for name, (_, about) in commands.items()} for panel, commands in COMMANDS.items()}
    lines = ["Usage: querytruth COMMAND", "", *textwrap.wrap(PURPOSE, columns)]
    for panel, rows in {**panels, "Other": _OTHER}.items():
        lines += ["", panel]
        width = max(map(len, rows))
        for name, about in rows.items():
            head, rest = f"  {name:<{width}}  ", " " * (width + 4)
            lines += textwrap.wrap(head + about, columns, subsequent_indent=rest, drop_whitespace=True)
    return "\n".join([*lines, "", "Details of a command: querytruth COMMAND --help"])
