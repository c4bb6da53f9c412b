"""`querytruth health`: how the generator did under each strategy, side by side; and the page that each stage leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builders.errors import UserError
from querytruth import terminal
from querytruth.build_commands import JsonOption, OverridesOption

if TYPE_CHECKING:
    from flows.definitions.generated import GeneratedDefinition

DefinitionsArgument = Annotated[list[Path], typer.Argument(help="Definitions of generated sets.", show_default=False)]
_STAGES = ("topics", "objects")


def health(
    definitions: DefinitionsArgument,
    stage: Annotated[str, typer.Option(help="topics or objects.")] = "objects",
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    json: JsonOption = False,
) -> None:
    """Show the health of all runs of a stage side by side, of one definition or several: strategies, models, prompts.

    Example: querytruth health generated.yaml --stage objects
    """
    if stage not in _STAGES:
        raise typer.BadParameter(f"{stage!r} is none of {', '.join(_STAGES)}", param_hint="--stage")
    terminal.err.print(f"querytruth: reading {', '.join(map(str, definitions))}", markup=False)
    from flows.definitions import load_definition
    from flows.topics_and_objects import list_finished_runs
    from review.health_page import build_run_row

    rows = []
    for path in definitions:
        definition: Any = load_definition(path, set_, "generated")
        finished_runs = list_finished_runs(definition, stage)
        if not finished_runs:
            raise UserError("compare runs", path, f"has no run of {stage} that ended", f"run querytruth {stage} {path}")
        rows += [{"set": definition.name, **build_run_row(run)} for run in finished_runs]
    terminal.print_json(rows) if json else _show(stage, rows)


def write_health_page(definition: GeneratedDefinition, stage: str) -> Path:
    """Write the page of a stage that ended, beside the table that it handed out."""
    from backends import durable_files
    from flows.generation.pool_review import review_table_path
    from flows.topics_and_objects import list_finished_runs
    from review.health_page import render_health_page

    runs = list_finished_runs(definition, stage)
    page = review_table_path(definition, stage).with_name(f"{stage}-health.html")
    html = render_health_page(definition.name, next(run for run in runs if run["is_current"]), runs)
    try:
        durable_files.write_atomically(page, html.encode("utf-8", "replace"))
    except OSError as error:
        raise UserError(
            "write page", page, f"cannot be written ({error.strerror})", "mend that, and run again"
        ) from None
    return page


def _show(stage: str, rows: list[dict[str, Any]]) -> None:
    """A column for each run: more figures than runs is what there is."""
    figures: dict[str, list[object]] = {
        "set": [row["set"] for row in rows],
        "model": [row["model"] for row in rows],
        "run": [f"{row['run']}{' *' if row['is_current'] else ''}" for row in rows],
        "replies": [f"{row['replies']:,}" for row in rows],
        "objects": [f"{row['objects']:,}" for row in rows],
        "new of all rows": [f"{row['new']:.0%}" for row in rows],
        "length, of the last": [f"{row['length']:.1f}" for row in rows],
        "length, people's": [f"{row['length_of_people']:.1f}" for row in rows],
        "named most": [f"{row['head']} {row['head_share']:.0%}" if row["head"] else "" for row in rows],
        "tokens an object": [f"{row['tokens_per_object']:,.0f}" if row["objects"] else "" for row in rows],
        "warnings": [", ".join(row["warnings"]).replace("_", " ") for row in rows],
    }
    strategies = [row["strategy"].replace("_", " ") for row in rows]
    terminal.print_table(f"Runs of {stage}", ["", *strategies], [[name, *values] for name, values in figures.items()])
    terminal.out.print("* the run of the table that people have now")
