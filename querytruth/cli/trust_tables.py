"""What an audit is to be: by the options of a command, or by a definition.

The tables of an audit's report on the terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import terminal
from querytruth.cli.options import OfflineOption, OverridesOption

if TYPE_CHECKING:
    from querytruth.audit.definition import AuditDefinition, JudgeOptions
    from querytruth.audit.steps import PreparedAudit

AuditedArgument = Annotated[
    str, typer.Argument(help="The set, or an audit's definition, a YAML file.", metavar="SET|AUDIT.yaml")
]
_NOT_OF_DEFINITIONS = ("set_", "offline")
_OTHER_KEYS = ("name", "seed", "out")  # of a definition, and options of a start

RunsOption = Annotated[
    list[Path], typer.Option("--run", help="A system's run file, or the folder of its result.", metavar="RUN")
]
JudgeOption = Annotated[str | None, typer.Option(help="A chat model that sees images and divides the strata.")]
JudgeOptionsOption = Annotated[
    list[str], typer.Option("--judge-option", help="An option of that model.", metavar="KEY=VALUE")
]
AllowContestantOption = Annotated[bool, typer.Option("--allow-contestant", help="The judge may be one of the systems.")]
_MEASURE_TEXTS = {
    "missing_share": "relevant pairs that the set lacks, of all",
    "multiplier": "relevant pairs for each that the set has",
    "missing": "relevant pairs that the set lacks, number",
    "wrong_share": "wrong pairs, of those that the set calls relevant",
}


@dataclass(frozen=True, slots=True)
class AddedOptions:
    """The systems that are added to an audit, and its judge."""

    run: RunsOption = field(default_factory=list)
    judge: JudgeOption = None
    judge_option: JudgeOptionsOption = field(default_factory=list)
    allow_contestant: AllowContestantOption = False
    offline: OfflineOption = False


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """The options of a plan and of a start: the systems, the size of the sample, and the judge."""

    set_: OverridesOption = field(default_factory=list)
    run: RunsOption = field(default_factory=list)
    depth: Annotated[int, typer.Option(help="Results of each query and run that are pooled.", min=1, max=1000)] = 20
    judgments: Annotated[int, typer.Option(help="Pairs that people judge.", min=20, max=100_000)] = 300
    width: Annotated[
        float | None, typer.Option(help="As many pairs as an interval of this width needs.", min=0.001, max=1)
    ] = None
    queries: Annotated[
        int | None, typer.Option(help="Judge whole queries, so many, in place of single pairs.", min=5)
    ] = None
    people: Annotated[int, typer.Option(help="How many people judge each pair.", min=1, max=5)] = 1
    judge: JudgeOption = None
    judge_option: JudgeOptionsOption = field(default_factory=list)
    allow_contestant: AllowContestantOption = False
    offline: OfflineOption = False


def read_audit_options(
    context: typer.Context, audited: str, draw: DrawOptions, out: Path, name: str = "audit", seed: int = 0
) -> PreparedAudit:
    """Return the audit of a definition, or of a set and options, with its pool. Raises UserError for a wrong one,
    typer.BadParameter for options that do not go together."""
    from querytruth.audit.steps import prepare_audit
    from querytruth.sets import set_files

    if Path(audited).suffix in (".yaml", ".yml"):
        definition = _load_definition(context, Path(audited), draw.set_)
    else:
        definition = _build_definition(audited, draw, out, name, seed)
    path = set_files.find_set(definition.set, definition.out)
    with terminal.reported_run():
        return prepare_audit(definition, path)


def _load_definition(context: typer.Context, path: Path, overrides: list[str]) -> AuditDefinition:
    from flows.definition_loader import load_audit_definition

    for option in (*_OTHER_KEYS, *(one.name for one in fields(DrawOptions) if one.name not in _NOT_OF_DEFINITIONS)):
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            shown = f"--{option.replace('_', '-')}"
            raise typer.BadParameter(f"{path} says it: change the file, or say --set KEY=VALUE", param_hint=shown)
    return load_audit_definition(path, overrides)


def _build_definition(set_: str, draw: DrawOptions, out: Path, name: str, seed: int) -> AuditDefinition:
    if draw.set_:
        raise typer.BadParameter("it changes a key of a definition, name one: AUDIT.yaml", param_hint="--set")
    if draw.width is not None and draw.queries is not None:
        raise typer.BadParameter("--width is about single pairs, leave out --queries")
    from querytruth.audit.definition import AuditDefinition

    judge = build_judge_options(draw.judge, draw.judge_option, draw.allow_contestant)
    keys = {key: getattr(draw, key) for key in ("depth", "judgments", "width", "queries", "people")}
    return AuditDefinition(set=set_, runs=draw.run, judge=judge, name=name, seed=seed, out=out, **keys)


def build_judge_options(judge: str | None, options: list[str], allow_contestant: bool) -> JudgeOptions | None:
    """Return the judge that options of a command name. Raises typer.BadParameter for options without a judge."""
    if judge is None:
        if options or allow_contestant:
            raise typer.BadParameter("there is no judge, give --judge", param_hint="--judge-option, --allow-contestant")
        return None
    from querytruth.audit.definition import JudgeOptions
    from querytruth.cli.options import parse_model_options

    return JudgeOptions(model=judge, options=parse_model_options(options), allow_contestant=allow_contestant)


def show_audit_report(report: dict[str, Any]) -> None:
    """Print the estimates, the slices, the figures of the systems and their order."""
    answers = report["answers"]
    set_name = f"{report['set']['name']}/v{report['set']['version']}"
    rows: list[list[Any]] = [
        [_MEASURE_TEXTS[row["measure"]], *(_number(row[end]) for end in ("value", "low", "high"))]
        for row in report["truth"]
    ]
    terminal.print_table(f"{report['name']}, an audit of {set_name}", ["", "estimate", "from", "to (95%)"], rows)
    terminal.out.print(_describe_answers(answers), markup=False, soft_wrap=True)
    outside = report["outside"]
    if outside["at_most"] is not None:
        text = f"outside the pool: at most {outside['at_most']:,.0f} relevant pairs of {outside['pairs']:,} (95%), "
        seen = f"{outside['relevant']} of {outside['answered']} judged"
        terminal.out.print(text + seen, markup=False, soft_wrap=True)
    if report["judge"] is not None:
        terminal.out.print(describe_agreement_line(report["judge"]), markup=False, soft_wrap=True)
    if report["slices"]:
        shown: list[list[Any]] = [
            [row["aspect"], row["value"], row["measure"], row["answered"], *_ends(row, "estimate")]
            for row in report["slices"]
        ]
        terminal.print_table("By kind of query", ["", "", "share", "answered", "estimate", "from", "to"], shown)
    figures: list[list[Any]] = [
        [row["system"], row["metric"], _number(row["before"]), *_ends(row, "value")] for row in report["figures"]
    ]
    terminal.print_table("Systems", ["system", "metric", "as judged", "corrected", "from", "to"], figures)
    for order in report["order"]:
        if len(order["before"]) > 1:
            tau = "" if order["kendall_tau_b"] is None else f", Kendall's tau-b {order['kendall_tau_b']:.2f}"
            text = f"{order['metric']}: {' > '.join(order['before'])}; corrected: {' > '.join(order['after'])}{tau}"
            terminal.out.print(text, markup=False, soft_wrap=True)


def show_corrections(rows: list[dict[str, Any]], truth: list[dict[str, Any]]) -> None:
    """Print the audited figures of systems beside those by the set's own judgments, and how true these are."""
    shown: list[list[Any]] = [
        [row["audit"], row["system"], row["metric"], _number(row["before"]), *_ends(row, "value")] for row in rows
    ]
    columns = ["audit", "system", "metric", "as judged", "corrected", "from", "to (95%)"]
    terminal.print_table("Corrected by audits", columns, shown)
    texts = {
        "missing_share": "of the relevant pairs are missing",
        "wrong_share": "of the set's relevant pairs are wrong",
    }
    for row in truth:
        if row["measure"] in texts:
            share, low, high = ("–" if row[end] is None else f"{row[end]:.1%}" for end in ("value", "low", "high"))
            text = f"{row['audit']}, {row['answered']:,} pairs answered: {share} ({low} to {high})"
            terminal.out.print(f"{text} {texts[row['measure']]}", markup=False, soft_wrap=True)


def _ends(row: dict[str, Any], value: str) -> list[str]:
    return [_number(row[end]) for end in (value, "low", "high")]


def _number(value: float | None) -> str:
    """Return a figure with four significant digits, a count as a whole number."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _describe_answers(answers: dict[str, Any]) -> str:
    text = f"{answers['answered']:,} of {answers['sampled']:,} pairs answered; cannot tell: {answers['cannot_tell']}"
    if answers["judged_twice"]:
        kappa = "" if answers["kappa"] is None else f", kappa {answers['kappa']:.3f}"
        text += f"; {answers['judged_twice']} by two people, {answers['same']} alike{kappa}"
    if answers["people"] > 1 and answers["waiting"]:
        text += f"; {answers['waiting']} wait for {answers['people']} people"
    if answers["disputed"]:
        text += f"; {len(answers['disputed'])} disputed, which wait for a third person"
    return text


def describe_agreement_line(judge: dict[str, Any]) -> str:
    """Return how a judge agrees with people, in one line."""
    agreement = judge["agreement"]
    if agreement is None:
        return f"judge {judge['name']}: graded no pair that a person graded"
    kappas = ", ".join(
        f"{text} {agreement[name]:.3f}"
        for name, text in (("kappa", "kappa of grades"), ("kappa_relevant", "of relevant or not"))
        if agreement[name] is not None
    )
    rates = ", ".join(
        f"{name} {agreement[name]['value']:.2f} ({agreement[name]['low']:.2f} to {agreement[name]['high']:.2f})"
        for name in ("sensitivity", "specificity")
    )
    shares = f"{agreement['relevant_by_judge']:.1%} relevant, people say {agreement['relevant_by_people']:.1%}"
    return f"judge {judge['name']}: {kappas or 'kappa is not defined'}; it calls {shares}; {rates}"
