"""All commands with what each does. Loads no library: what `querytruth --help` prints is printed at once."""

import textwrap
from importlib.metadata import version

PURPOSE = "Turns images into a trusted benchmark for text-to-image search."
# In the order of work. A module is imported when its command is run, so each says here what it does, as it says itself.
COMMANDS = {
    "Start": {
        "demo": ("demo:demo", "Build, check and show the sets of the sample album."),
        "demo-servers": ("demo:demo_servers", "Serve stand-ins of a caption model and a search, to try the walk."),
        "open": ("start_commands:open_", "Open one page over a folder, and measure your own search on its photos."),
        "init": ("start_commands:init", "Write a commented definition, or the deployments of Prefect, to start from."),
        "doctor": ("start_commands:doctor", "Check libraries, folders, keys, models and disk before a build."),
    },
    "Build": {
        "build": ("build_commands:app", "Build a set from its definition."),
        "topics": ("self_instruct_commands:topics", "Have a chat model propose topics and objects of them."),
        "objects": ("self_instruct_commands:objects", "Have the chat model propose more objects for accepted topics."),
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
        "check": ("check_commands:app", "Check that a search still finds what it must, by golden queries."),
        "gate": ("comparison_commands:gate", "Decide whether a candidate may replace a baseline."),
        "plan-size": (
            "comparison_commands:plan_size",
            "Plan the number of queries that find a difference of two systems.",
        ),
        "leaderboard": ("comparison_commands:leaderboard", "Order all systems that were evaluated on a set."),
    },
    "Trust": {
        "audit": ("trust_commands:app", "Estimate how much of a set's truth is missing or wrong."),
        "overlap": ("trust_commands:overlap", "Find what a set shares with training data or with another set."),
        "notice": (
            "trust_commands:notice",
            "Measure which damages of a search a set would notice, and where that search is blind.",
        ),
        "verify": ("set_commands:verify", "Compute every checksum again, and follow the decision logs."),
        "rebuild": ("set_commands:rebuild", "Build a version again from its manifest, and compare."),
        "gc": ("set_commands:gc", "Remove the unfinished writes that interrupted runs left."),
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
_OTHER = {
    "--help (-h)": "Display this message and exit.",
    "--install-completion": "Install the completion of names for your shell.",
    "--version": "Display application version.",
}


def name_version() -> str:
    """Return the name of the command with its version."""
    return f"querytruth {version('querytruth')}"


def describe(columns: int) -> str:
    """Return what `querytruth --help` says, in lines of so many columns at most."""
    panels = {panel: {name: about for name, (_, about) in commands.items()} for panel, commands in COMMANDS.items()}
    lines = ["Usage: querytruth COMMAND", "", *textwrap.wrap(PURPOSE, columns)]
    for panel, rows in {**panels, "Other": _OTHER}.items():
        lines += ["", panel]
        width = max(map(len, rows))
        for name, about in rows.items():
            head, rest = f"  {name:<{width}}  ", " " * (width + 4)
            lines += textwrap.wrap(head + about, columns, subsequent_indent=rest, drop_whitespace=True)
    return "\n".join([*lines, "", "Each command says more: querytruth COMMAND --help"])
