"""The arguments and options that several commands share.

The options of a chat model on the command line.

Groups of commands in which one command needs no name.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from querytruth.backends.files.bucket_urls import is_object_url

if TYPE_CHECKING:
    from querytruth.sets.review_csv import ReviewTableOptions

CPU_CORES = os.cpu_count() or 1
DEFAULT_DATASETS_FOLDER = Path("datasets")


def parse_model_options(options: Sequence[str], name: str = "--judge-option") -> dict[str, Any]:
    """Return the options of KEY=VALUE texts of the option `name`; a value is read as in a definition. Raises
    typer.BadParameter."""
    return dict(_split_option(option, name) for option in options)


def _split_option(option: str, name: str) -> tuple[str, Any]:
    """Return key and value of KEY=VALUE; a value is read as in a definition. Raises typer.BadParameter."""
    import yaml

    key, separator, value = option.partition("=")
    if not separator or not key:
        raise typer.BadParameter(f"{name} is KEY=VALUE, not {option!r}")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        return key, value


def complete_sets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the sets in the folder of --out that begin so, and after a slash their versions."""
    from querytruth.sets.published_files import newest_version

    folder = Path(ctx.params.get("out") or DEFAULT_DATASETS_FOLDER)
    name, slash, _ = incomplete.partition("/")
    try:
        if slash:
            found = [f"{name}/{version.name}" for version in folder.joinpath(name).glob("v[0-9]*")]
        else:
            found = [one.name for one in folder.iterdir() if one.is_dir() and newest_version(one)]
    except OSError:
        return []  # a completion prints no errors
    return sorted(one for one in found if one.startswith(incomplete))


SetArgument = Annotated[
    str, typer.Argument(help="name, name/v3 or a path", metavar="SET", autocompletion=complete_sets)
]
DefinitionArgument = Annotated[Path, typer.Argument(help="The definition, a YAML file.", metavar="DEFINITION.yaml")]
OptionalDefinitionArgument = Annotated[
    Path | None, typer.Argument(help="The definition, a YAML file.", metavar="[DEFINITION.yaml]")
]
OutOption = Annotated[Path, typer.Option(help="Where sets lie.")]
ImageRootsOption = Annotated[
    list[str],
    typer.Option("--images", help="A folder or URL outside the set in which its pictures may be read.", metavar="ROOT"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
DefinitionOutOption = Annotated[
    Path | None, typer.Option("--out", help="Where sets lie (default: the definition's key out).")
]
OverridesOption = Annotated[
    list[str], typer.Option("--set", help="Override a key: --set mixes.levels=2", metavar="KEY=VALUE")
]
WorkersOption = Annotated[int, typer.Option(help="Worker processes for pictures.", min=1, max=256)]
RescanOption = Annotated[
    bool, typer.Option("--rescan", help="Read every picture again, also those that did not change.")
]
OfflineOption = Annotated[
    bool,
    typer.Option("--offline", help="Connect to nothing: use the replies, pages and models that are stored."),
]
RetryFailuresOption = Annotated[
    bool, typer.Option("--retry-failures", help="Ask again what a chat model failed at for good.")
]
AcceptLossOption = Annotated[
    bool,
    typer.Option("--accept-loss", help="Go on where the decision log lost decisions of the newest version."),
]
PlanOption = Annotated[bool, typer.Option("--plan", help="Print what would be done and its cost, and do nothing.")]
MetricsOption = Annotated[str, typer.Option(help="Such as ndcg@10,ap@50(norm=min),p@r (default: the usual ones).")]
QrelsOption = Annotated[Path | None, typer.Option(help="Judgments in TREC's form, in place of a set.", metavar="FILE")]
LanguageOption = Annotated[str | None, typer.Option(help="Only the queries in this language.", metavar="zh|en|…")]
LevelOption = Annotated[int | None, typer.Option(help="Only the queries with so many labels or topics.", min=1)]
TopicOption = Annotated[str | None, typer.Option(help="Only the queries of this topic.")]
FamilyOption = Annotated[str | None, typer.Option(help="Only the queries of this family (count, or count/2).")]
AllowMissingOption = Annotated[bool, typer.Option("--allow-missing", help="Rows may have been deleted.")]
AllowDoubledOption = Annotated[bool, typer.Option("--allow-doubled", help="Rows may be there twice if they agree.")]
AllowUnknownOption = Annotated[
    bool,
    typer.Option("--allow-unknown", help="Rows may be there that name nothing of the set; they are ignored."),
]
AllowChangedOption = Annotated[
    bool, typer.Option("--allow-changed", help="Cells may differ that nobody was to change.")
]
EncodingOption = Annotated[str | None, typer.Option(help="The CSV's, where it does not say; e.g. gb18030.")]
PrefectOption = Annotated[
    bool | None,
    typer.Option("--prefect/--in-process", help="Run as a Prefect flow (the default where a server is configured)."),
]
RunnerOption = Annotated[
    str,
    typer.Option(
        help="Where images are read: threads, dask or ray (dask:ADDRESS and ray:ADDRESS for a running cluster).",
        metavar="threads|dask|ray",
    ),
]


def list_overrides(set_: list[str], out: Path | None) -> list[str]:
    """Return the overrides of a definition, with the folder of sets where an option gives one."""
    if out is None:
        return set_
    return [*set_, f"out={json.dumps(str(out if is_object_url(str(out)) else out.absolute()))}"]


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options of all build commands."""

    set_: OverridesOption = field(default_factory=list)
    out: DefinitionOutOption = None
    plan: PlanOption = False
    prefect: PrefectOption = None
    runner: RunnerOption = "threads"
    workers: WorkersOption = CPU_CORES
    accept_loss: AcceptLossOption = False
    json: JsonOption = False


@dataclass(frozen=True, slots=True)
class StageOptions:
    """The options of the stages that ask chat models."""

    set_: OverridesOption = field(default_factory=list)
    out: DefinitionOutOption = None
    offline: OfflineOption = False
    retry_failures: RetryFailuresOption = False
    plan: PlanOption = False
    json: JsonOption = False


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options for reading a filled-in CSV."""

    encoding: EncodingOption = None
    allow_missing: AllowMissingOption = False
    allow_doubled: AllowDoubledOption = False
    allow_unknown: AllowUnknownOption = False
    allow_changed: AllowChangedOption = False

    def to_review_options(self) -> ReviewTableOptions:
        """Return the options in the form of the flows."""
        from querytruth.sets.review_csv import ReviewTableOptions
        from querytruth.sets.review_tables import ImportTolerances

        tolerances = ImportTolerances(self.allow_missing, self.allow_doubled, self.allow_unknown, self.allow_changed)
        return ReviewTableOptions(tolerances, self.encoding)


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Make each field of a command's dataclass parameters an option.

    Typer has no groups of options; with this decorator commands share one as a keyword argument."""
    signature = inspect.signature(command, eval_str=True)
    parameters, groups = [], {}
    for parameter in signature.parameters.values():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter)
            continue
        group: Any = parameter.annotation
        groups[parameter.name] = group
        types, defaults = get_type_hints(group, include_extras=True), group()
        parameters += [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=getattr(defaults, one.name),
                annotation=types[one.name],
            )
            for one in fields(group)
        ]

    @functools.wraps(command)
    def call(*arguments: Any, **values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{one.name: values.pop(one.name) for one in fields(group) if one.name in values})
        command(*arguments, **values)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def default_to(name: str) -> type[TyperGroup]:
    """Returns a group in which an unknown command is the first argument of the command `name`, such as a set."""

    class DefaultCommandGroup(TyperGroup):
        default_name = name

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Insert the name of the command where it is missing."""
            if args and args[0] not in {*self.commands, "--help", "-h"}:
                args = [name, *args]
            return super().parse_args(ctx, args)

    return DefaultCommandGroup
