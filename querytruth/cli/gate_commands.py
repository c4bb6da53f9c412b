"""`querytruth gate` and `querytruth plan-size`: may a candidate go out, and how many queries decide it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from querytruth import terminal
from querytruth.cli.command_line import command
from querytruth.cli.options import JsonOption
from querytruth.evaluation.release_gate import GATE_INTERVAL
from querytruth.evaluation.requests import GateRequest, SizeRequest

if TYPE_CHECKING:
    from querytruth.evaluation.release_gate import GateReport

EXIT_CODES = {"PASS": 0, "FAIL": 1, "UNDECIDED": 3, "IDENTICAL": 3}


@command
def gate(json: JsonOption = False, *, request: GateRequest) -> None:
    """Decide whether a candidate may replace a baseline. Exit 0: not worse by the margin; 1: worse; 3: too few queries
    to decide, unless --undecided says what that counts as.

    Example: querytruth gate family-album --candidate new.trec --baseline old.trec --metric ndcg@10 --margin 0.01"""
    terminal.err.print(f"querytruth: reading {request.label}", markup=False)
    from flows.gate import write_gate_report
    from querytruth.api.comparisons import gate_runs
    from querytruth.review.gate_reports import gate_to_json

    with terminal.reported_run():
        found = gate_runs(request)
    written = []
    if request.report is not None:
        written = write_gate_report(found, request.report, is_undecided_failure=request.undecided != "pass")
    terminal.print_json(gate_to_json(found)) if json else _show(found, written)
    verdict = found.verdict
    if verdict in ("UNDECIDED", "IDENTICAL") and request.undecided is not None:
        raise SystemExit(EXIT_CODES[request.undecided.upper()])
    raise SystemExit(EXIT_CODES[verdict])


def _show(report: GateReport, written: list[Path]) -> None:
    from querytruth.review.gate_reports import describe_check, describe_gated_truth, describe_latency

    terminal.out.print(
        f"{report.candidate} against {report.baseline} ({GATE_INTERVAL} intervals)",
        markup=False,
        soft_wrap=True,
    )
    lines = [
        (one.verdict, f"{one.metric}, {one.slice or 'all'} ({one.queries:,} queries)", describe_check(one))
        for one in report.checks
    ]
    lines += [(one.verdict, f"latency {one.percentile}", describe_latency(one)) for one in report.latency]
    for verdict, name, evidence in lines:
        terminal.out.print(f"{verdict:9}  {name}: {evidence}", markup=False, soft_wrap=True)
    if truth := describe_gated_truth(report):
        terminal.out.print(truth, markup=False, soft_wrap=True)
    for path in written:
        terminal.out.print(f"written: {path}", markup=False, soft_wrap=True)
    terminal.out.print(report.verdict, markup=False)


@command
def plan_size(json: JsonOption = False, *, request: SizeRequest) -> None:
    """Plan the number of queries that find a difference of two systems, by a two-sided paired test at 5%.

    Example: querytruth plan-size family-album --difference 0.02 --metric ndcg@10 --pilot old.trec new.trec"""
    terminal.err.print(f"querytruth: reading {request.label}", markup=False)
    from querytruth.api.comparisons import plan_queries

    with terminal.reported_run():
        plan = plan_queries(request)
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
