"""`querytruth audit`: how much of a set's truth is missing or wrong, and what its figures would be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from querytruth import terminal
from querytruth.cli import options, trust_tables

app = typer.Typer(
    help="Estimate how much of a set's truth is missing or wrong, and what the figures of systems would be.",
    no_args_is_help=True,
)
NameOption = Annotated[str, typer.Option(help="The name of the audit.")]
_ADDED_JUDGMENTS = 100


@app.command()
@options.expand_option_groups
def plan(
    context: typer.Context,
    audited: trust_tables.AuditedArgument,
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
    *,
    draw: trust_tables.DrawOptions,
) -> None:
    """Show what an audit would judge, the width of its interval, a person's hours and a judge's calls. Writes nothing.

    Example: querytruth audit plan family-album --run bm25.trec --run clip.trec --width 0.1

    Example: querytruth audit plan audit.yaml --set judgments=500
    """
    from querytruth.audit.steps import plan_audit

    read = trust_tables.read_audit_options(context, audited, draw, out)
    judge, planned = read.judge, plan_audit(read.path, read.pooled, read.size, read.judge)
    if json:
        terminal.print_json(planned)
        return
    rows: list[list[Any]] = [[row["stratum"], row["pairs"], row["to_judge"]] for row in planned["strata"]]
    terminal.print_table(f"Audit of {planned['set']}", ["stratum", "pairs", "to judge"], rows)
    pace = f"{planned['seconds_per_pair']} s a pair" + (", assumed" if planned["pace_is_assumed"] else ", as logged")
    each = f" by {planned['people']} people each" if planned["people"] > 1 else ""
    work = f"{planned['judgments']:,} judgments{each}, about {planned['hours']} hours"
    terminal.out.print(f"{work} ({pace})", markup=False)
    if judge is not None:
        cost = [f"{value:,} {unit}" for unit, value in planned["judge_cost"].items() if value is not None]
        costs = f" ({', '.join(cost)}, by its card)" if cost else ""
        terminal.out.print(f"judge {planned['judge']}: {planned['judge_calls']:,} calls{costs}", markup=False)
    if planned["expected_width"] is not None:
        width = f"{planned['expected_width']:.3f} wide where strata are as relevant as usual"
        terminal.out.print(f"the interval of the missing share is about {width}", soft_wrap=True)
    if planned["judgments_for_width"] is not None:
        usual = f"in all about {planned['judgments_for_width']:,} where strata are as relevant as usual"
        terminal.out.print(f"these are the first, {usual}; later: audit extend --width", soft_wrap=True)
    terminal.out.print("Next: the same with start in place of plan")


@app.command()
@options.expand_option_groups
def start(
    context: typer.Context,
    audited: trust_tables.AuditedArgument,
    name: NameOption = "audit",
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
    *,
    draw: trust_tables.DrawOptions,
) -> None:
    """Draw the sample of an audit and store it beside the set's versions. The same command draws the same.

    Example: querytruth audit start family-album --run bm25.trec --run clip.trec --judgments 300

    Example: querytruth audit start audit.yaml
    """
    from querytruth.audit.judge import judge_pool
    from querytruth.audit.steps import start_audit

    read = trust_tables.read_audit_options(context, audited, draw, out, name, seed)
    wanted, path, pooled = read.definition, read.path, read.pooled
    with terminal.reported_run(offline=draw.offline):
        judged = None if read.judge is None else judge_pool(read.judge, pooled)
        manifest = start_audit(
            path, pooled, wanted.name, read.size, depth=wanted.depth, seed=wanted.seed, judged=judged
        )
    if json:
        terminal.print_json(manifest)
        return
    rows: list[list[Any]] = [[row["stratum"], row["pairs"], row["drawn"]] for row in manifest["strata"]]
    rows.append(["outside", manifest["outside"]["pairs"], manifest["outside"]["drawn"]])
    terminal.print_table(f"{wanted.name}, an audit of {pooled.name}", ["stratum", "pairs", "drawn"], rows)
    review = f"querytruth review {wanted.set} (view Audit)"
    next_steps = f"{review}, or querytruth audit export-csv {wanted.set} --name {wanted.name}"
    terminal.out.print(f"Next: {next_steps}", markup=False, soft_wrap=True)


@app.command()
@options.expand_option_groups
def extend(
    set_: options.SetArgument,
    name: NameOption = "audit",
    judgments: Annotated[
        int | None, typer.Option(help="Pairs that people judge in addition (default: 100).", min=20, max=100_000)
    ] = None,
    width: Annotated[
        float | None, typer.Option(help="No systems: as many more pairs as this width needs.", min=0.001, max=1)
    ] = None,
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
    *,
    added: trust_tables.AddedOptions,
) -> None:
    """Add systems, or judgments, to an audit that has begun. All drawn pairs and answers stay; a part of what only the
    new systems return is drawn in addition, or, by the answers so far, what an interval of the missing share of a width
    lacks. A CSV that was handed out before is imported with --allow-missing.

    Example: querytruth audit extend family-album --run new-search.trec --judgments 100

    Example: querytruth audit extend family-album --width 0.05
    """
    from querytruth.audit.extension import extend_audit, narrow_audit, read_extension
    from querytruth.sets import set_files

    if width is not None and (added.run or added.judge or judgments is not None):
        raise typer.BadParameter("--width or --run, --judge, --judgments: one after the other")
    if width is not None:
        with terminal.reported_run():
            manifest = narrow_audit(set_files.find_set(set_, out), name, width)
        drawn = manifest["extensions"][-1]["drawn"]
        summary = f"{name}: {drawn:,} pairs drawn in addition for a width of {width}"
        if json:
            terminal.print_json(manifest)
            return
        terminal.out.print(summary, markup=False)
        terminal.out.print(f"Next: querytruth review {set_} (view Audit)", markup=False, soft_wrap=True)
        return
    judge = trust_tables.build_judge_options(added.judge, added.judge_option, added.allow_contestant)
    with terminal.reported_run(offline=added.offline):
        extension = read_extension(set_files.find_set(set_, out), name, added.run, judge)
        manifest = extend_audit(extension, judgments or _ADDED_JUDGMENTS)
    if json:
        terminal.print_json(manifest)
        return
    drawn = manifest["extensions"][-1]["drawn"]
    pairs = f"{len(extension.pooled.pool.pairs):,} pairs are new in the pool, {drawn:,} of them drawn in addition"
    terminal.out.print(f"{name}: {', '.join(manifest['extensions'][-1]['systems'])} added; {pairs}", markup=False)
    terminal.out.print(f"Next: querytruth review {set_} (view Audit)", markup=False, soft_wrap=True)


@app.command("export-csv")
def export_csv(
    set_: options.SetArgument,
    name: NameOption = "audit",
    to: Annotated[Path, typer.Option(help="The file to write.")] = Path("audit.csv"),
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
) -> None:
    """Write the sample of an audit as a CSV for one person. It shows neither grades nor systems.

    Fill in the column decision: a grade, 0 for an image that does not fit, or ? where you cannot tell.

    Example: querytruth audit export-csv family-album --to audit.csv
    """
    from querytruth.audit.answers import build_sample_export, load_audit
    from querytruth.errors import translate_write_errors
    from querytruth.sets import review_csv, set_files

    audit, audited_set = load_audit(set_files.find_set(set_, out), name)
    export = build_sample_export(audit, audited_set)
    with translate_write_errors("export audit CSV", to, "or give --to another file"):
        review_csv.write_review_csv(export, to, audited_set.path)
    terminal.out.print(f"{to}: {len(export.rows):,} pairs", markup=False, soft_wrap=True)
    next_step = f"querytruth audit import-csv {set_} {to} --name {name} --reviewer YOU"
    terminal.out.print(f"Fill in `decision`, then: {next_step}", markup=False, soft_wrap=True)


@app.command("import-csv")
@options.expand_option_groups
def import_csv(
    set_: options.SetArgument,
    file: Annotated[Path, typer.Argument(help="A filled-in CSV.")],
    name: NameOption = "audit",
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    reviewer: Annotated[str, typer.Option(help="Whose answers they are.")] = "",
    *,
    table: options.TableOptions,
) -> None:
    """Take the answers of a filled-in CSV: all of them, or, where a row cannot be taken, none. Rows may wait.

    Example: querytruth audit import-csv family-album audit.csv --reviewer lin
    """
    from querytruth.audit.answers import import_sample, take_answers
    from querytruth.cli.review_commands import raise_problems
    from querytruth.sets import set_files

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
    set_: options.SetArgument,
    name: NameOption = "audit",
    out: options.OutOption = options.DEFAULT_DATASETS_FOLDER,
    json: options.JsonOption = False,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html into the audit's folder.")] = True,
    page_language: Annotated[Literal["en", "zh"], typer.Option(help="Of the page.")] = "en",
) -> None:
    """Estimate from the answers so far what the set lacks, what of it is wrong, and what the figures would be.

    Example: querytruth audit report family-album
    """
    from querytruth.audit.report import report_audit
    from querytruth.cli.trust_tables import show_audit_report
    from querytruth.sets import set_files

    with terminal.reported_run():
        findings, file = report_audit(set_files.find_set(set_, out), name, page_language if page else None)
    if json:
        terminal.print_json(findings)
        return
    show_audit_report(findings)
    terminal.out.print(f"written: {file}", markup=False, soft_wrap=True)
    terminal.out.print(f"Next: querytruth apply {set_}", markup=False, soft_wrap=True)
