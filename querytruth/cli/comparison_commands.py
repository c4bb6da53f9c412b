"""`querytruth compare`, `gate`, `plan-size` and `leaderboard`: systems beside each other on one set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from querytruth import terminal
from querytruth.cli import options
from querytruth.cli.command_line import command, option
from querytruth.defaults import DATASETS_FOLDER
from querytruth.evaluation.requests import CompareRequest, GateRequest, SizeRequest

if TYPE_CHECKING:
    import pandas as pd

    from querytruth.evaluation.release_gate import GateReport

_MOST_LANGUAGES = 4
_COSTS = {"ms_per_image": "ms per image", "mb_per_100000_images": "MB per 100,000"}
_EXIT_CODES = {"PASS": 0, "FAIL": 1, "UNDECIDED": 3, "IDENTICAL": 3}


class TypedComparison(CompareRequest):
    """The arguments of `compare` as typed: with qrels, the argument at the place of the set is a run."""

    queries: int = Field(10, ge=0, description="Number of queries to show, of those on which two systems differ most.")

    @model_validator(mode="before")
    @classmethod
    def _take_first_run(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("qrels") is not None and values.get("of") is not None:
            return {**values, "of": None, "run": [values["of"], *values.get("run", [])]}
        return values


@command
def compare(json: options.JsonOption = False, *, request: TypedComparison) -> None:
    """Compare systems on the same queries: their differences, whether these exceed chance, and on which queries.

    Example: querytruth compare family-album bm25.trec lexical
    """
    terminal.report(f"querytruth: reading {request.label}")
    from querytruth.api import comparisons
    from querytruth.cli import result_tables

    with terminal.reported_run():
        found = comparisons.compare_runs(request, [(None, run) for run in request.run])
    if request.page is not None:
        terminal.report(f"page written: {request.page}")
    if json:
        most_different = found.pair.most_different_queries[: request.queries] if found.pair else []
        leaked = {"leaked": _plain(found.leaked)} if len(found.leaked) else {}
        phrasings = {"phrasings": _plain(found.phrasings)} if len(found.phrasings) else {}
        terminal.print_json({"pairs": _plain(found.table), "most_different": most_different} | leaked | phrasings)
        return
    result_tables.show_results(found.results)
    result_tables.show_pairwise_differences(found.table)
    result_tables.show_leaked_differences(found.leaked)
    result_tables.show_phrasing_spreads(found.phrasings)
    if found.pair is not None:
        result_tables.show_most_different_queries(found.pair, found.texts, request.queries)


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON values; unknown values are null."""
    return [{k: None if v != v else v for k, v in row.items()} for row in table.to_dict("records")]


@command
def leaderboard(
    set_: options.SetArgument,
    to: Annotated[Path | None, option(help="Write an HTML page, with CSV and JSON files next to it.")] = None,
    metric: Annotated[str | None, option(help="Metric to sort by (default: ndcg@10, else hit@1).")] = None,
    page_language: options.PageLanguageOption = "en",
    out: options.OutOption = DATASETS_FOLDER,
    json: options.JsonOption = False,
) -> None:
    """Rank all systems that were evaluated on a set, with rank intervals and groups without significant differences.

    Example: querytruth leaderboard family-album --to board.html"""
    terminal.report(f"querytruth: reading the results of {set_}")
    from querytruth.api.loaded_set import load
    from querytruth.evaluation.evaluation_result import describe_queries
    from querytruth.review.board_pages import format_rank

    with terminal.reported_run():
        found = load(set_, out=out).leaderboard(metric)
    board = found.board
    written = [] if to is None else found.save(to, page_language)
    if json:
        terminal.print_json(board)
        return
    slices = [row for one in board["systems"] for row in one["slices"] if row["slice"] == "language"]
    languages = sorted({row["value"] for row in slices})
    languages = languages if 1 < len(languages) <= _MOST_LANGUAGES else []
    rows: list[list[object]] = [
        [
            format_rank(one["best_rank"], one["worst_rank"]),
            one["name"],
            f"{one['mean']:.4f}",
            "" if one["low"] is None else f"{one['low']:.4f} to {one['high']:.4f}",
            f"{one['at_least']:.4f} to {one['at_most']:.4f}",
            *_format_languages(one, languages),
        ]
        for one in board["systems"]
    ]
    columns = ["rank", "system", "figure", "95%", "at least, at most", *languages]
    terminal.print_table(f"{board['metric']} on {set_}; {describe_queries(board, board['queries'])}", columns, rows)
    for names in board["groups"]:
        if len(names) > 1:
            terminal.say(f"no significant difference: {', '.join(names)}")
    costs: list[list[object]] = []
    for one in board["systems"]:
        p95, encoding = (one["latency_ms"] or {}).get("p95"), one["encoding"] or {}
        cells = ["" if p95 is None else f"{p95:.1f}", *(f"{encoding[name]:.4g}" if encoding else "" for name in _COSTS)]
        costs += [[one["name"], *cells]] if any(cells) else []
    if costs:  # a table of its own: with these columns, the figures do not fit into a terminal
        terminal.print_table("Time and memory", ["system", "p95 ms", *_COSTS.values()], costs)
    for path in written:
        terminal.say(f"written: {path}")


def _format_languages(one: dict[str, Any], languages: list[str]) -> list[str]:
    means = {row["value"]: f"{row['mean']:.4f}" for row in one["slices"] if row["slice"] == "language"}
    return [means.get(language, "") for language in languages]


@command
def gate(json: options.JsonOption = False, *, request: GateRequest) -> None:
    """Decide whether a candidate may replace a baseline. Exit 0: not worse by the margin; 1: worse; 3: too few queries
    to decide, unless --undecided sets the result.

    Example: querytruth gate family-album --candidate new.trec --baseline old.trec --metric ndcg@10 --margin 0.01"""
    terminal.report(f"querytruth: reading {request.label}")
    from flows.gate import write_gate_report
    from querytruth.api.comparisons import gate_runs
    from querytruth.review.gate_reports import gate_to_json

    with terminal.reported_run():
        found = gate_runs(request)
    written = []
    if request.report is not None:
        written = write_gate_report(found, request.report, is_undecided_failure=request.undecided != "pass")
    terminal.print_json(gate_to_json(found)) if json else _show_gate(found, written)
    verdict = found.verdict
    if verdict in ("UNDECIDED", "IDENTICAL") and request.undecided is not None:
        raise SystemExit(_EXIT_CODES[request.undecided.upper()])
    raise SystemExit(_EXIT_CODES[verdict])


def _show_gate(report: GateReport, written: list[Path]) -> None:
    from querytruth.evaluation.release_gate import GATE_INTERVAL
    from querytruth.review.gate_reports import describe_gated_truth, list_verdicts

    terminal.say(f"{report.candidate} against {report.baseline} ({GATE_INTERVAL} intervals)")
    for verdict, name, reason in list_verdicts(report):
        terminal.say(f"{verdict:9}  {name}: {reason}")
    if truth := describe_gated_truth(report):
        terminal.say(truth)
    for path in written:
        terminal.say(f"written: {path}")
    terminal.say(report.verdict)


@command
def plan_size(json: options.JsonOption = False, *, request: SizeRequest) -> None:
    """Plan the number of queries needed to detect a difference of two systems, by a two-sided paired test at 5%.

    Example: querytruth plan-size family-album --difference 0.02 --metric ndcg@10 --pilot old.trec new.trec"""
    terminal.report(f"querytruth: reading {request.label}")
    from querytruth.api.comparisons import plan_queries

    with terminal.reported_run():
        plan = plan_queries(request)
    terminal.print_json(plan) if json else _show_plan(plan)


def _show_plan(plan: dict[str, Any]) -> None:
    at_hand = f"{plan['queries_at_hand']:,} available"
    about = f"detecting a difference of {plan['difference']:g} in {plan['metric']} with {plan['power']:.0%} power"
    terminal.say(f"{about} needs {plan['queries']:,} queries ({at_hand})")
    to_pass = plan["queries_to_pass"]
    passes = f"{to_pass:,} queries" if to_pass else "no number of similar queries"
    gate = f"{passes} would let a gate with a margin of {plan['difference']:g} pass an equal system with the same power"
    terminal.say(gate)
    pace = f"{plan['seconds_per_judgment']} s each" + (", assumed" if plan["pace_is_assumed"] else ", as logged")
    cost = f"{plan['judgments']:,} judgments, about {plan['hours']} hours ({pace})"
    terminal.say(f"{cost}; {plan['judgments_per_query']} per query")
