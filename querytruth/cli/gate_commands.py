"""`querytruth gate`: may a candidate replace the baseline?

`querytruth plan-size`: how many queries find a difference of two systems?
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import terminal
from querytruth.cli.evaluate_command import OptionalSetArgument
from querytruth.cli.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption, QrelsOption

if TYPE_CHECKING:
    from querytruth.evaluation.release_gate import GateReport

EXIT_CODES = {"PASS": 0, "FAIL": 1, "UNDECIDED": 3, "IDENTICAL": 3}


def gate(
    candidate: Annotated[Path, typer.Option(help="The run, or result folder, that is to go out.", metavar="RUN")],
    baseline: Annotated[Path, typer.Option(help="The run, or result folder, to hold it against.", metavar="RUN")],
    metric: Annotated[list[str], typer.Option(help="Such as ndcg@10; several times for several.")],
    margin: Annotated[list[float], typer.Option(help="The loss that is tolerated: one for all, or one per metric.")],
    set_: OptionalSetArgument = None,
    slice_: Annotated[
        list[str] | None, typer.Option("--slice", help="Checked besides all queries.", metavar="ASPECT=VALUE")
    ] = None,
    max_latency: Annotated[
        list[str] | None, typer.Option(help="A budget of the candidate, in milliseconds.", metavar="p95=250")
    ] = None,
    undecided: Annotated[
        str | None, typer.Option(help="What too little evidence counts as (exit 3).", metavar="pass|fail")
    ] = None,
    qrels: QrelsOption = None,
    report: Annotated[
        Path | None, typer.Option(help="Write gate.json, gate.md and gate.junit.xml into it.", metavar="FOLDER")
    ] = None,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Decide whether a candidate may replace a baseline. Exit 0: not worse by the margin; 1: worse; 3: too few queries
    to decide.

    Example: querytruth gate family-album --candidate new.trec --baseline old.trec --metric ndcg@10 --margin 0.01"""
    if (set_ is None) == (qrels is None):
        raise typer.BadParameter("name a SET, or give --qrels FILE in its place")
    if undecided not in (None, "pass", "fail"):
        raise typer.BadParameter(f"--undecided is pass or fail, not {undecided!r}")
    terminal.err.print(f"querytruth: reading {set_ or qrels}", markup=False)
    from flows.gate import write_gate_report
    from querytruth.api import comparisons
    from querytruth.evaluation.release_gate import parse_latency_budget, parse_margins
    from querytruth.review.gate_reports import gate_to_json

    with terminal.reported_run():
        found = comparisons.gate(
            set_,
            candidate=candidate,
            baseline=baseline,
            margins=parse_margins(metric, margin),
            slices=slice_ or [],
            max_latency=parse_latency_budget(max_latency or []),
            qrels=qrels,
            out=out,
        )
    written = write_gate_report(found, report, is_undecided_failure=undecided != "pass") if report else []
    terminal.print_json(gate_to_json(found)) if json else _show(found, written)
    code = EXIT_CODES[found.verdict]
    if found.verdict in ("UNDECIDED", "IDENTICAL") and undecided is not None:
        code = EXIT_CODES[undecided.upper()]
    raise typer.Exit(code)


def _show(report: GateReport, written: list[Path]) -> None:
    from querytruth.review.gate_reports import describe_check, describe_latency

    terminal.out.print(f"{report.candidate} against {report.baseline} (90% intervals)", markup=False, soft_wrap=True)
    lines = [
        (one.verdict, f"{one.metric}, {one.slice or 'all'} ({one.queries:,} queries)", describe_check(one))
        for one in report.checks
    ]
    lines += [(one.verdict, f"latency {one.percentile}", describe_latency(one)) for one in report.latency]
    for verdict, name, evidence in lines:
        terminal.out.print(f"{verdict:9}  {name}: {evidence}", markup=False, soft_wrap=True)
    for path in written:
        terminal.out.print(f"written: {path}", markup=False, soft_wrap=True)
    terminal.out.print(report.verdict, markup=False)


def plan_size(
    difference: Annotated[float, typer.Option(help="The true difference that is to be found, such as 0.02.")],
    set_: OptionalSetArgument = None,
    metric: Annotated[str, typer.Option(help="Such as ndcg@10.")] = "hit@1",
    pilot: Annotated[tuple[Path, Path] | None, typer.Option(help="Two runs: how much systems differ by query.")] = None,
    discordance: Annotated[float | None, typer.Option(help="Share of queries that differ, without a pilot.")] = None,
    power: Annotated[float, typer.Option(help="The chance to find the difference.")] = 0.8,
    stratum: Annotated[
        str | None, typer.Option(help="Allocate by this aspect.", metavar="language|style|level|topic|labels|length")
    ] = None,
    qrels: QrelsOption = None,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Plan the number of queries that a two-sided paired test at 5% needs to find a difference of two systems.

    Example: querytruth plan-size family-album --difference 0.02 --metric ndcg@10 --pilot old.trec new.trec"""
    terminal.err.print(f"querytruth: reading {set_ or qrels}", markup=False)
    from querytruth.api import comparisons

    with terminal.reported_run():
        plan = comparisons.plan_size(
            set_,
            difference=difference,
            metric=metric,
            pilot=pilot,
            discordance=discordance,
            power=power,
            stratum=stratum,
            qrels=qrels,
            out=out,
        )
    terminal.print_json(plan) if json else _show_plan(plan)


def _show_plan(plan: dict[str, Any]) -> None:
    at_hand = f"{plan['queries_at_hand']:,} at hand"
    about = f"a difference of {plan['difference']:g} by {plan['metric']}, found in {plan['power']:.0%} of cases"
    terminal.out.print(f"{plan['queries']:,} queries ({at_hand}) for {about}", markup=False, soft_wrap=True)
    pace = f"{plan['seconds_per_judgment']} s each" + (", assumed" if plan["pace_is_assumed"] else ", as logged")
    cost = f"{plan['judgments']:,} judgments, about {plan['hours']} hours ({pace})"
    terminal.out.print(f"{cost}; {plan['judgments_per_query']} a query", markup=False, soft_wrap=True)
    if strata := plan["strata"]:
        rows: list[list[object]] = [
            [one["name"], f"{one['share']:.1%}", f"{one['deviation']:.4f}", one["proportional"], one["neyman"]]
            for one in strata
        ]
        rows.append(["all", "", "", *(sum(one[kind] for one in strata) for kind in ("proportional", "neyman"))])
        columns = ["stratum", "share", "deviation", "proportional", "Neyman"]
        terminal.print_table("Queries drawn by stratum", columns, rows)
