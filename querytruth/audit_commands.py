"""`querytruth audit`: how much of a set's truth is missing or wrong, and what its figures would be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from querytruth import terminal
from querytruth.options import (
    DEFAULT_DATASETS_FOLDER,
    JsonOption,
    OfflineOption,
    OutOption,
    SetArgument,
    TableOptions,
    expand_option_groups,
)

if TYPE_CHECKING:
    from backends.chat import ChatModel
    from flows.audits.audit_plan import AuditSize
    from flows.audits.audit_pools import PooledSet

app = typer.Typer(
    help="Estimate how much of a set's truth is missing or wrong, and what the figures of systems would be.",
    no_args_is_help=True,
)
NameOption = Annotated[str, typer.Option(help="The name of the audit.")]


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """The options of a plan and of a start: the systems, the size of the sample, and the judge."""

    run: Annotated[
        list[Path], typer.Option("--run", help="A system's run file, or the folder of its result.", metavar="RUN")
    ] = field(default_factory=list)
    depth: Annotated[int, typer.Option(help="Results of each query and run that are pooled.", min=1, max=1000)] = 20
    judgments: Annotated[int, typer.Option(help="Pairs that people judge.", min=20, max=100_000)] = 300
    width: Annotated[
        float | None, typer.Option(help="As many pairs as an interval of this width needs.", min=0.001, max=1)
    ] = None
    queries: Annotated[
        int | None, typer.Option(help="Judge whole queries, so many, in place of single pairs.", min=5)
    ] = None
    judge: Annotated[str | None, typer.Option(help="A chat model that sees images and divides the strata.")] = None
    judge_option: Annotated[
        list[str], typer.Option("--judge-option", help="An option of that model.", metavar="KEY=VALUE")
    ] = field(default_factory=list)
    allow_contestant: Annotated[
        bool, typer.Option("--allow-contestant", help="The judge may be one of the systems.")
    ] = False
    offline: OfflineOption = False


@app.command()
@expand_option_groups
def plan(
    set_: SetArgument, out: OutOption = DEFAULT_DATASETS_FOLDER, json: JsonOption = False, *, draw: DrawOptions
) -> None:
    """Show what an audit would judge, the width of its interval, a person's hours and a judge's calls. Writes nothing.

    Example: querytruth audit plan family-album --run bm25.trec --run clip.trec --width 0.1
    """
    from flows.audits.audit_plan import plan_audit

    path, pooled, size, judge = _read_pool(set_, draw, out)
    planned = plan_audit(path, pooled, size, judge)
    if json:
        terminal.print_json(planned)
        return
    rows: list[list[Any]] = [[row["stratum"], row["pairs"], row["to_judge"]] for row in planned["strata"]]
    terminal.print_table(f"Audit of {planned['set']}", ["stratum", "pairs", "to judge"], rows)
    pace = f"{planned['seconds_per_pair']} s a pair" + (", assumed" if planned["pace_is_assumed"] else ", as logged")
    terminal.out.print(f"{planned['judgments']:,} judgments, about {planned['hours']} hours ({pace})", markup=False)
    if judge is not None:
        cost = [f"{value:,} {unit}" for unit, value in planned["judge_cost"].items() if value is not None]
        costs = f" ({', '.join(cost)}, by its card)" if cost else ""
        terminal.out.print(f"judge {planned['judge']}: {planned['judge_calls']:,} calls{costs}", markup=False)
    if planned["expected_width"] is not None:
        width = f"{planned['expected_width']:.3f} wide where strata are as relevant as usual"
        terminal.out.print(f"the interval of the missing share is about {width}", soft_wrap=True)
    terminal.out.print("Next: the same with start in place of plan")


@app.command()
@expand_option_groups
def start(
    set_: SetArgument,
    name: NameOption = "audit",
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
    *,
    draw: DrawOptions,
) -> None:
    """Draw the sample of an audit and store it beside the set's versions. The same command draws the same.

    Example: querytruth audit start family-album --run bm25.trec --run clip.trec --judgments 300
    """
    from flows.audits.audit_judge import judge_pool
    from flows.audits.audit_start import start_audit

    path, pooled, size, judge = _read_pool(set_, draw, out)
    with terminal.reported_run(offline=draw.offline):
        judged = None if judge is None else judge_pool(judge, pooled)
        manifest = start_audit(path, pooled, name, size, depth=draw.depth, seed=seed, judged=judged)
    if json:
        terminal.print_json(manifest)
        return
    rows: list[list[Any]] = [[row["stratum"], row["pairs"], row["drawn"]] for row in manifest["strata"]]
    rows.append(["outside", manifest["outside"]["pairs"], manifest["outside"]["drawn"]])
    terminal.print_table(f"{name}, an audit of {pooled.name}", ["stratum", "pairs", "drawn"], rows)
    next_steps = f"querytruth review {set_} (view Audit), or querytruth audit export-csv {set_} --name {name}"
    terminal.out.print(f"Next: {next_steps}", markup=False, soft_wrap=True)


@app.command("export-csv")
def export_csv(
    set_: SetArgument,
    name: NameOption = "audit",
    to: Annotated[Path, typer.Option(help="The file to write.")] = Path("audit.csv"),
    out: OutOption = DEFAULT_DATASETS_FOLDER,
) -> None:
    """Write the sample of an audit as a CSV for one person. It shows neither grades nor systems.

    Fill in the column decision: a grade, 0 for an image that does not fit, or ? where you cannot tell.

    Example: querytruth audit export-csv family-album --to audit.csv
    """
    from backends.file_errors import translate_write_errors
    from backends.sets import review_csv, set_files
    from flows.audits.audit_answers import build_sample_export, load_audit

    export = build_sample_export(*load_audit(set_files.find_set(set_, out), name))
    with translate_write_errors("export audit CSV", to, "or give --to another file"):
        review_csv.write_review_csv(export, to)
    terminal.out.print(f"{to}: {len(export.rows):,} pairs", markup=False, soft_wrap=True)
    next_step = f"querytruth audit import-csv {set_} {to} --name {name} --reviewer YOU"
    terminal.out.print(f"Fill in `decision`, then: {next_step}", markup=False, soft_wrap=True)


@app.command("import-csv")
@expand_option_groups
def import_csv(
    set_: SetArgument,
    file: Annotated[Path, typer.Argument(help="A filled-in CSV.")],
    name: NameOption = "audit",
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    reviewer: Annotated[str, typer.Option(help="Whose answers they are.")] = "",
    *,
    table: TableOptions,
) -> None:
    """Take the answers of a filled-in CSV: all of them, or, where a row cannot be taken, none. Rows may wait.

    Example: querytruth audit import-csv family-album audit.csv --reviewer lin
    """
    from backends.sets import set_files
    from flows.audits.audit_answers import import_sample, take_answers
    from querytruth.review_commands import raise_problems

    path = set_files.find_set(set_, out)
    reviewer = reviewer or terminal.current_user_name()
    decisions, undetermined, problems = import_sample(path, name, file, reviewer, table.to_review_options())
    if problems:
        raise_problems(file, problems)
    known = take_answers(path, decisions, undetermined)
    taken = len(decisions) + len(undetermined) - known
    counted = f"{taken:,} answers taken, {len(undetermined):,} of the file cannot tell"
    terminal.out.print(counted + (f"; {known:,} were there already" if known else ""), markup=False)
    terminal.out.print(f"Next: querytruth audit report {set_} --name {name}", markup=False, soft_wrap=True)


@app.command()
def report(
    set_: SetArgument,
    name: NameOption = "audit",
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html into the audit's folder.")] = True,
    page_language: Annotated[Literal["en", "zh"], typer.Option(help="Of the page.")] = "en",
) -> None:
    """Estimate from the answers so far what the set lacks, what of it is wrong, and what the figures would be.

    Example: querytruth audit report family-album
    """
    from backends.sets import set_files
    from flows.audits.audit_report import report_audit
    from querytruth.audit_tables import show_audit_report

    with terminal.reported_run():
        findings, file = report_audit(set_files.find_set(set_, out), name, page_language if page else None)
    if json:
        terminal.print_json(findings)
        return
    show_audit_report(findings)
    terminal.out.print(f"written: {file}", markup=False, soft_wrap=True)
    terminal.out.print(f"Next: querytruth apply {set_}", markup=False, soft_wrap=True)


def _read_pool(set_: str, draw: DrawOptions, out: Path) -> tuple[Path, PooledSet, AuditSize, ChatModel | None]:
    """Return the set's folder, the pool of the runs, the size of the sample, and the judge."""
    if draw.width is not None and draw.queries is not None:
        raise typer.BadParameter("--width is about single pairs, leave out --queries")
    if draw.judge is None and (draw.judge_option or draw.allow_contestant):
        raise typer.BadParameter("there is no judge, give --judge", param_hint="--judge-option, --allow-contestant")
    from backends.sets import set_files
    from flows.audits.audit_judge import JudgeChoice, load_judge
    from flows.audits.audit_plan import AuditSize
    from flows.audits.audit_pools import pool_set
    from querytruth.judge_options import parse_judge_options

    path = set_files.find_set(set_, out)
    with terminal.reported_run():
        pooled = pool_set(path, draw.run, draw.depth)
    judge = None
    if draw.judge is not None:
        options = parse_judge_options(draw.judge_option)
        judge = load_judge(JudgeChoice(draw.judge, options, draw.allow_contestant), pooled, draw.run)
    return path, pooled, AuditSize(draw.judgments, draw.width, draw.queries), judge
