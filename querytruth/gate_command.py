"""`querytruth gate`: may a candidate replace the baseline?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querytruth import terminal
from querytruth.evaluate_command import OptionalSetArgument
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption, QrelsOption

if TYPE_CHECKING:
    from evaluation.release_gate import GateReport

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
    from flows.release_gates import parse_latency_budget, parse_margins, write_gate_report
    from querytruth.api import gates
    from review.gate_reports import gate_to_json

    with terminal.reported_run():
        found = gates.gate(
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
    from review.gate_reports import describe_check, describe_latency

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
