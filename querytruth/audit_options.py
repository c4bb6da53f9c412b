"""What an audit is to be: by the options of a command, or by a definition."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querytruth import terminal
from querytruth.options import OfflineOption, OverridesOption

if TYPE_CHECKING:
    from flows.audits.audit_preparation import PreparedAudit
    from flows.definitions import AuditDefinition
    from flows.definitions.audit import JudgeOptions

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
    from backends.sets import set_files
    from flows.audits.audit_preparation import prepare_audit

    if Path(audited).suffix in (".yaml", ".yml"):
        definition = _load_definition(context, Path(audited), draw.set_)
    else:
        definition = _build_definition(audited, draw, out, name, seed)
    path = set_files.find_set(definition.set, definition.out)
    with terminal.reported_run():
        return prepare_audit(definition, path)


def _load_definition(context: typer.Context, path: Path, overrides: list[str]) -> AuditDefinition:
    from flows.definitions import load_audit_definition

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
    from flows.definitions import AuditDefinition

    judge = build_judge_options(draw.judge, draw.judge_option, draw.allow_contestant)
    keys = {key: getattr(draw, key) for key in ("depth", "judgments", "width", "queries", "people")}
    return AuditDefinition(set=set_, runs=draw.run, judge=judge, name=name, seed=seed, out=out, **keys)


def build_judge_options(judge: str | None, options: list[str], allow_contestant: bool) -> JudgeOptions | None:
    """Return the judge that options of a command name. Raises typer.BadParameter for options without a judge."""
    if judge is None:
        if options or allow_contestant:
            raise typer.BadParameter("there is no judge, give --judge", param_hint="--judge-option, --allow-contestant")
        return None
    from flows.definitions.audit import JudgeOptions
    from querytruth.model_options import parse_model_options

    return JudgeOptions(model=judge, options=parse_model_options(options), allow_contestant=allow_contestant)
