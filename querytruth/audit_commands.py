"""`querytruth audit`: how much of a set's truth is missing or wrong, and what its figures would be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import terminal
from querytruth.options import (
    DEFAULT_DATASETS_FOLDER,
    JsonOption,
    OutOption,
    SetArgument,
    TableOptions,
    expand_option_groups,
)

if TYPE_CHECKING:
    from flows.audits.audit_plan import AuditSize
    from flows.audits.audit_pools import PooledSet

app = typer.Typer(
    help="Estimate how much of a set's truth is missing or wrong, and what the figures of systems would be.",
    no_args_is_help=True,
)
RunsOption = Annotated[
    list[Path], typer.Option("--run", help="A system's run file, or the folder of its result.", metavar="RUN")
]
DepthOption = Annotated[int, typer.Option(help="Results of each query and run that are pooled.", min=1, max=1000)]
JudgmentsOption = Annotated[int, typer.Option(help="Pairs that people judge.", min=20, max=100_000)]
WidthOption = Annotated[
    float | None, typer.Option(help="As many pairs as an interval of this width needs.", min=0.001, max=1)
]
QueriesOption = Annotated[
    int | None, typer.Option(help="Judge whole queries, so many, in place of single pairs.", min=5)
]
NameOption = Annotated[str, typer.Option(help="The name of the audit.")]


@app.command()
def plan(
    set_: SetArgument,
    run: RunsOption = [],  # noqa: B006 - typer needs a list
    depth: DepthOption = 20,
    judgments: JudgmentsOption = 300,
    width: WidthOption = None,
    queries: QueriesOption = None,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Show what an audit would judge, the width of its interval, and a person's hours. Writes nothing.

    Example: querytruth audit plan family-album --run bm25.trec --run clip.trec --width 0.1
    """
    from flows.audits.audit_plan import plan_audit

    path, pooled, size = _read_pool(set_, run, depth, judgments, width, queries, out)
    planned = plan_audit(path, pooled, size)
    if json:
        terminal.print_json(planned)
        return
    rows: list[list[Any]] = [[row["stratum"], row["pairs"], row["to_judge"]] for row in planned["strata"]]
    terminal.print_table(f"Audit of {planned['set']}", ["stratum", "pairs", "to judge"], rows)
    pace = f"{planned['seconds_per_pair']} s a pair" + (", assumed" if planned["pace_is_assumed"] else ", as logged")
    terminal.out.print(f"{planned['judgments']:,} judgments, about {planned['hours']} hours ({pace})", markup=False)
    if planned["expected_width"] is not None:
        terminal.out.print(
            f"the interval of the missing share is about {planned['expected_width']:.3f} wide where strata are as "
            "relevant as usual",
            soft_wrap=True,
        )
    terminal.out.print("Next: the same with start in place of plan")


@app.command()
def start(
    set_: SetArgument,
    run: RunsOption = [],  # noqa: B006 - typer needs a list
    name: NameOption = "audit",
    depth: DepthOption = 20,
    judgments: JudgmentsOption = 300,
    width: WidthOption = None,
    queries: QueriesOption = None,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Draw the sample of an audit and store it beside the set's versions. The same command draws the same.

    Example: querytruth audit start family-album --run bm25.trec --run clip.trec --judgments 300
    """
    from flows.audits.audit_start import start_audit

    path, pooled, size = _read_pool(set_, run, depth, judgments, width, queries, out)
    with terminal.reported_run():
        manifest = start_audit(path, pooled, name, size, depth, seed)
    if json:
        terminal.print_json(manifest)
        return
    rows: list[list[Any]] = [[row["stratum"], row["pairs"], row["drawn"]] for row in manifest["strata"]]
    rows.append(["outside", manifest["outside"]["pairs"], manifest["outside"]["drawn"]])
    terminal.print_table(f"{name}, an audit of {pooled.name}", ["stratum", "pairs", "drawn"], rows)
    terminal.out.print(f"Next: querytruth audit export-csv {set_} --name {name}", markup=False, soft_wrap=True)


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
) -> None:
    """Estimate from the answers so far what the set lacks, what of it is wrong, and what the figures would be.

    Example: querytruth audit report family-album
    """
    from backends.sets import set_files
    from flows.audits.audit_report import report_audit
    from querytruth.audit_tables import show_audit_report

    with terminal.reported_run():
        findings, file = report_audit(set_files.find_set(set_, out), name)
    if json:
        terminal.print_json(findings)
        return
    show_audit_report(findings)
    terminal.out.print(f"written: {file}", markup=False, soft_wrap=True)
    terminal.out.print(f"Next: querytruth apply {set_}", markup=False, soft_wrap=True)


def _read_pool(
    set_: str, run: list[Path], depth: int, judgments: int, width: float | None, queries: int | None, out: Path
) -> tuple[Path, PooledSet, AuditSize]:
    """Return the set's folder, the pool of the runs, and the size of the sample."""
    if width is not None and queries is not None:
        raise typer.BadParameter("--width is about single pairs, leave out --queries")
    from backends.sets import set_files
    from flows.audits.audit_plan import AuditSize
    from flows.audits.audit_pools import pool_set

    path = set_files.find_set(set_, out)
    with terminal.reported_run():
        pooled = pool_set(path, run, depth)
    return path, pooled, AuditSize(judgments, width, queries)
