"""`querytruth topics` and `querytruth objects`: stages of a generated set, each ending in a table for people."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import terminal
from querytruth.build import Definition, Json, Offline, RetryFailures, Set
from querytruth.health import write_page

if TYPE_CHECKING:
    from flows.topics_and_objects import StageResult

AllowMissing = Annotated[bool, typer.Option("--allow-missing", help="Rows may have been deleted from the table.")]
AllowDoubled = Annotated[bool, typer.Option("--allow-doubled", help="Rows may be there twice if they agree.")]
AllowUnknown = Annotated[bool, typer.Option("--allow-unknown", help="Rows may have been added; they are passed over.")]
AllowChanged = Annotated[bool, typer.Option("--allow-changed", help="Cells may differ that nobody was to change.")]
Encoding = Annotated[str | None, typer.Option(help="The filled-in table's, where it does not say; e.g. gb18030.")]


def topics(
    definition: Definition,
    set_: Set = [],  # noqa: B006 - Typer's way to say "none given"
    offline: Offline = False,
    retry_failures: RetryFailures = False,
    encoding: Encoding = None,
    allow_missing: AllowMissing = False,
    allow_doubled: AllowDoubled = False,
    allow_unknown: AllowUnknown = False,
    allow_changed: AllowChanged = False,
    json: Json = False,
) -> None:
    """Have a chat model think of topics and of things that belong to them, and hand out a table to choose from.

    Example: querytruth topics generated.yaml
    """
    allowed = (allow_missing, allow_doubled, allow_unknown, allow_changed)
    _stage("topics", definition, set_, (offline, retry_failures), allowed, encoding, json)


def objects(
    definition: Definition,
    set_: Set = [],  # noqa: B006 - Typer's way to say "none given"
    offline: Offline = False,
    retry_failures: RetryFailures = False,
    encoding: Encoding = None,
    allow_missing: AllowMissing = False,
    allow_doubled: AllowDoubled = False,
    allow_unknown: AllowUnknown = False,
    allow_changed: AllowChanged = False,
    json: Json = False,
) -> None:
    """Have the chat model think of more things for each topic that people kept, and hand out a table to choose from.

    Example: querytruth objects generated.yaml
    """
    allowed = (allow_missing, allow_doubled, allow_unknown, allow_changed)
    _stage("objects", definition, set_, (offline, retry_failures), allowed, encoding, json)


def _stage(
    stage: str,
    path: Path,
    overrides: list[str],
    asking: tuple[bool, bool],
    allowed: tuple[bool, bool, bool, bool],
    encoding: str | None,
    json: bool,
) -> None:
    terminal.err.print(f"querytruth: reading {path}", markup=False)
    from builders.review_tables import Allow
    from flows.definitions import load_definition
    from flows.generation.pool_review import Filling
    from flows.steps import Run, running
    from flows.topics_and_objects import objects_stage, topics_stage

    definition: Any = load_definition(path, overrides, "generated")
    offline, retry_failures = asking
    run = {"topics": topics_stage, "objects": objects_stage}[stage]
    with running(Run(terminal.Terminal(), offline=offline, retry_failures=retry_failures)):
        result = run(definition, str(path), Filling(Allow(*allowed), encoding))
    page = write_page(definition, stage)
    terminal.as_json(_summary(result, page)) if json else _show(result, page)


def _summary(result: StageResult, page: Path) -> dict[str, Any]:
    return {
        "stage": result.stage,
        "awaiting_review": str(result.file),
        "then": result.command,
        "stops": result.stops,
        "rows": result.rows,
        "model_calls": result.calls,
        "health": result.health.as_dict(),
        "page": str(page),
        "funnel": result.ledger.funnel(),
    }


def _show(result: StageResult, page: Path) -> None:
    terminal.funnel(result.ledger.funnel())
    terminal.out.print(result.health.line, markup=False, soft_wrap=True)
    for warning in result.health.warnings:
        terminal.err.print(f"warning: {warning.text}", markup=False, soft_wrap=True)
    ended = ", ".join(f"{number} {why.replace('_', ' ')}" for why, number in sorted(result.stops.items()))
    terminal.out.print(f"{result.calls:,} model calls; stopped: {ended}", markup=False)
    terminal.out.print(f"how it went: {page}", markup=False, soft_wrap=True)
    terminal.out.print(result.awaiting, markup=False, soft_wrap=True)
    on_page = f"querytruth review {shlex.quote(str(result.file))}"
    terminal.out.print(f"in a spreadsheet, or on a page: {on_page}", markup=False, soft_wrap=True)
