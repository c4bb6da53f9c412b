"""`querytruth topics` and `querytruth objects`: stages of a generated set, each ending in a table for people."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import terminal
from querytruth.build_commands import (
    DefinitionArgument,
    JsonOption,
    OfflineRepliesOption,
    OverridesOption,
    RetryFailuresOption,
)
from querytruth.health import write_health_page

if TYPE_CHECKING:
    from flows.topics_and_objects import StageResult

AllowMissing = Annotated[bool, typer.Option("--allow-missing", help="Rows may have been deleted from the table.")]
AllowDoubled = Annotated[bool, typer.Option("--allow-doubled", help="Rows may be there twice if they agree.")]
AllowUnknown = Annotated[bool, typer.Option("--allow-unknown", help="Rows may have been added; they are passed over.")]
AllowChanged = Annotated[bool, typer.Option("--allow-changed", help="Cells may differ that nobody was to change.")]
EncodingOption = Annotated[str | None, typer.Option(help="The filled-in table's, where it does not say; e.g. gb18030.")]


def topics(
    definition: DefinitionArgument,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    offline: OfflineRepliesOption = False,
    retry_failures: RetryFailuresOption = False,
    encoding: EncodingOption = None,
    allow_missing: AllowMissing = False,
    allow_doubled: AllowDoubled = False,
    allow_unknown: AllowUnknown = False,
    allow_changed: AllowChanged = False,
    json: JsonOption = False,
) -> None:
    """Have a chat model think of topics and of things that belong to them, and hand out a table to choose from.

    Example: querytruth topics generated.yaml
    """
    allowed = (allow_missing, allow_doubled, allow_unknown, allow_changed)
    _run_stage("topics", definition, set_, (offline, retry_failures), allowed, encoding, json)


def objects(
    definition: DefinitionArgument,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    offline: OfflineRepliesOption = False,
    retry_failures: RetryFailuresOption = False,
    encoding: EncodingOption = None,
    allow_missing: AllowMissing = False,
    allow_doubled: AllowDoubled = False,
    allow_unknown: AllowUnknown = False,
    allow_changed: AllowChanged = False,
    json: JsonOption = False,
) -> None:
    """Have the chat model think of more things for each topic that people kept, and hand out a table to choose from.

    Example: querytruth objects generated.yaml
    """
    allowed = (allow_missing, allow_doubled, allow_unknown, allow_changed)
    _run_stage("objects", definition, set_, (offline, retry_failures), allowed, encoding, json)


def _run_stage(
    stage: str,
    path: Path,
    overrides: list[str],
    chat_options: tuple[bool, bool],
    allowed: tuple[bool, bool, bool, bool],
    encoding: str | None,
    json: bool,
) -> None:
    terminal.err.print(f"querytruth: reading {path}", markup=False)
    from builders.review_tables import ImportTolerances
    from flows.definitions import load_definition
    from flows.generation.pool_review import ReviewTableOptions
    from flows.steps import BuildRun, active_run
    from flows.topics_and_objects import run_objects_stage, run_topics_stage

    definition: Any = load_definition(path, overrides, "generated")
    offline, retry_failures = chat_options
    stage_function = {"topics": run_topics_stage, "objects": run_objects_stage}[stage]
    with active_run(BuildRun(terminal.TerminalReporter(), offline=offline, retry_failures=retry_failures)):
        result = stage_function(definition, str(path), ReviewTableOptions(ImportTolerances(*allowed), encoding))
    page = write_health_page(definition, stage)
    terminal.print_json(_summary(result, page)) if json else _show(result, page)


def _summary(result: StageResult, page: Path) -> dict[str, Any]:
    return {
        "stage": result.stage,
        "awaiting_review": str(result.file),
        "then": result.command,
        "stops": result.stop_counts,
        "rows": result.rows,
        "model_calls": result.calls,
        "health": result.health.as_dict(),
        "page": str(page),
        "funnel": result.ledger.funnel(),
    }


def _show(result: StageResult, page: Path) -> None:
    terminal.print_funnel(result.ledger.funnel())
    terminal.out.print(result.health.summary_line, markup=False, soft_wrap=True)
    for warning in result.health.warnings:
        terminal.err.print(f"warning: {warning.text}", markup=False, soft_wrap=True)
    ended = ", ".join(f"{number} {why.replace('_', ' ')}" for why, number in sorted(result.stop_counts.items()))
    terminal.out.print(f"{result.calls:,} model calls; stopped: {ended}", markup=False)
    terminal.out.print(f"how it went: {page}", markup=False, soft_wrap=True)
    terminal.out.print(result.next_step_text, markup=False, soft_wrap=True)
    on_page = f"querytruth review {shlex.quote(str(result.file))}"
    terminal.out.print(f"in a spreadsheet, or on a page: {on_page}", markup=False, soft_wrap=True)
