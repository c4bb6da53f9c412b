"""`querytruth collect`: the last stage of a generated set before it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from querytruth import terminal
from querytruth.build import Definition, FromStore, Json, Set, collected_line
from querytruth.generating import AllowChanged, AllowDoubled, AllowMissing, AllowUnknown, Encoding

if TYPE_CHECKING:
    from flows.generation.collect_stage import CollectResult


def collect(
    definition: Definition,
    set_: Set = [],  # noqa: B006 - Typer's way to say "none given"
    offline: FromStore = False,
    encoding: Encoding = None,
    allow_missing: AllowMissing = False,
    allow_doubled: AllowDoubled = False,
    allow_unknown: AllowUnknown = False,
    allow_changed: AllowChanged = False,
    json: Json = False,
) -> None:
    """Search the web for the queries that people kept, and fetch their pictures; what was fetched once is kept.

    Example: querytruth collect generated.yaml
    """
    terminal.err.print(f"querytruth: reading {definition}", markup=False)
    from builders.review_tables import Allow
    from flows.definitions import load_definition
    from flows.generation.collect_stage import collect_stage
    from flows.generation.pool_review import Filling
    from flows.steps import Run, running

    read: Any = load_definition(definition, set_, "generated")
    allowed = Allow(allow_missing, allow_doubled, allow_unknown, allow_changed)
    with running(Run(terminal.Terminal(), offline=offline)):
        result = collect_stage(read, str(definition), Filling(allowed, encoding))
    terminal.as_json(_summary(result)) if json else _show(result)


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
    terminal.funnel(result.ledger.funnel())
    figures = result.figures
    terminal.out.print(collected_line(figures), markup=False, soft_wrap=True)
    failed = sorted(figures["fetched"]["failed"].items(), key=lambda item: (-item[1], item[0]))
    if failed:
        told = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in failed)
        terminal.out.print(f"no picture: {told}", markup=False, soft_wrap=True)
    if result.pending:
        again = "the same command asks again for what may come yet"
        terminal.out.print(f"{result.pending:,} queries are pending: {again}", soft_wrap=True)
    terminal.out.print(f"what became of each query: {result.file}", markup=False, soft_wrap=True)
    terminal.out.print(f"then: {result.command}", markup=False, soft_wrap=True)
