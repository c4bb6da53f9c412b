"""`querytruth collect`: the last stage of a generated set before it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from querytruth import terminal
from querytruth.build_commands import (
    DefinitionArgument,
    JsonOption,
    OfflineWebOption,
    OverridesOption,
    format_collection_summary,
)
from querytruth.self_instruct_commands import AllowChanged, AllowDoubled, AllowMissing, AllowUnknown, EncodingOption

if TYPE_CHECKING:
    from flows.generation.collect_stage import CollectResult


def collect(
    definition: DefinitionArgument,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    offline: OfflineWebOption = False,
    encoding: EncodingOption = None,
    allow_missing: AllowMissing = False,
    allow_doubled: AllowDoubled = False,
    allow_unknown: AllowUnknown = False,
    allow_changed: AllowChanged = False,
    json: JsonOption = False,
) -> None:
    """Search the web for the queries that people kept, and fetch their pictures; what was fetched once is kept.

    Example: querytruth collect generated.yaml
    """
    terminal.err.print(f"querytruth: reading {definition}", markup=False)
    from builders.review_tables import ImportTolerances
    from flows.definitions import load_definition
    from flows.generation.collect_stage import run_collect_stage
    from flows.generation.pool_review import ReviewTableOptions
    from flows.steps import BuildRun, active_run

    read: Any = load_definition(definition, set_, "generated")
    allowed = ImportTolerances(allow_missing, allow_doubled, allow_unknown, allow_changed)
    with active_run(BuildRun(terminal.TerminalReporter(), offline=offline)):
        result = run_collect_stage(read, str(definition), ReviewTableOptions(allowed, encoding))
    terminal.print_json(_summary(result)) if json else _show(result)


def _summary(result: CollectResult) -> dict[str, Any]:
    return {
        "stage": "collect",
        "table": str(result.file),
        "then": result.command,
        "fetched": result.fetches,
        "pending_queries": result.pending,
        "figures": result.figures,
        "funnel": result.ledger.funnel(),
    }


def _show(result: CollectResult) -> None:
    terminal.print_funnel(result.ledger.funnel())
    figures = result.figures
    terminal.out.print(format_collection_summary(figures), markup=False, soft_wrap=True)
    failed = sorted(figures["fetched"]["failed"].items(), key=lambda item: (-item[1], item[0]))
    if failed:
        failure_counts = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in failed)
        terminal.out.print(f"no picture: {failure_counts}", markup=False, soft_wrap=True)
    if result.pending:
        again = "the same command asks again for what may come yet"
        terminal.out.print(f"{result.pending:,} queries are pending: {again}", soft_wrap=True)
    terminal.out.print(f"what became of each query: {result.file}", markup=False, soft_wrap=True)
    terminal.out.print(f"then: {result.command}", markup=False, soft_wrap=True)
