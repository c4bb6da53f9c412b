"""`querytruth build`: a set of each kind from its definition.

`querytruth labels`: names of labels in another language, by a chat model and then by people.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from querytruth import terminal
from querytruth.cli import build_output
from querytruth.cli.options import (
    BuildOptions,
    DefinitionArgument,
    JsonOption,
    OfflineOption,
    OptionalDefinitionArgument,
    RescanOption,
    RetryFailuresOption,
    expand_option_groups,
    list_overrides,
)
from querytruth.errors import UserError

if TYPE_CHECKING:
    from builders.publication import BuildResult
    from querytruth.backends.steps import BuildRun
    from querytruth.definitions import SetDefinition


class _KindsGroup(TyperGroup):
    """The kinds of sets; what is none is answered with them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Raises UserError for a word that is no kind, such as a folder."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            kinds = ", ".join(self.commands)
            next_step = f"choose from {kinds}; a folder: querytruth build gallery --set images={args[0]}"
            raise UserError("build", args[0], "is no kind of set", next_step)
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_KindsGroup, help="Build a set from its definition.", no_args_is_help=True)
labels_app = typer.Typer(
    help="Translate the labels of annotations by a chat model, then by people.", no_args_is_help=True
)
LabelsArgument = Annotated[
    str, typer.Argument(help="A label table (included name, folder, labels.csv), or a COCO file.", metavar="TABLE")
]


@app.command()
@expand_option_groups
def gallery(
    definition: OptionalDefinitionArgument = None, rescan: RescanOption = False, *, options: BuildOptions
) -> None:
    """Build a gallery from pictures: filtered, deduplicated, selected, rendered.

    Example: querytruth build gallery --set images=~/Pictures --set select.count=1000 --plan
    """
    overrides = options.set_
    if definition is None:
        images = dict(override.partition("=")[::2] for override in overrides).get("images")
        if images is None:
            raise typer.BadParameter("give DEFINITION.yaml, or --set images=FOLDER")
        from flows.definition_checks import derive_set_name

        overrides = [f"name={derive_set_name(images)}", *overrides]
    _build("gallery", definition, overrides, options, rescan=rescan)


@app.command()
@expand_option_groups
def precision(
    definition: DefinitionArgument,
    offline: OfflineOption = False,
    retry_failures: RetryFailuresOption = False,
    rescan: RescanOption = False,
    *,
    options: BuildOptions,
) -> None:
    """Build a precision set from detection labels: queries with many relevant pictures each.

    Example: querytruth build precision objects.yaml --set mixes.mode=exhaustive --plan
    """
    run_flags = {"rescan": rescan, "offline": offline, "retry_failures": retry_failures}
    _build("precision", definition, options.set_, options, **run_flags)


@app.command()
@expand_option_groups
def recall(
    definition: DefinitionArgument,
    offline: OfflineOption = False,
    retry_failures: RetryFailuresOption = False,
    rescan: RescanOption = False,
    *,
    options: BuildOptions,
) -> None:
    """Build a recall set from captions, each a query for its picture; ambiguous captions are resolved.

    Example: querytruth build recall album.yaml --plan
    """
    run_flags = {"rescan": rescan, "offline": offline, "retry_failures": retry_failures}
    _build("recall", definition, options.set_, options, **run_flags)


@app.command()
@expand_option_groups
def generated(definition: DefinitionArgument, offline: OfflineOption = False, *, options: BuildOptions) -> None:
    """Build a generated set from the queries that people accepted, with pictures from the web; fetches only missing
    ones.

    Example: querytruth build generated topics.yaml --plan"""
    _build("generated", definition, options.set_, options, offline=offline)


def _build(kind: str, path: Path | None, overrides: list[str], options: BuildOptions, **run_flags: Any) -> None:
    terminal.err.print(f"querytruth: reading {path or 'the definition'}", markup=False)
    from querytruth.api import set_builds
    from querytruth.backends.steps import BuildRun, active_run

    definition = set_builds.read_definition(path, list_overrides(overrides, options.out), kind)
    run = BuildRun(terminal.TerminalReporter(), options.workers, accept_loss=options.accept_loss, **run_flags)
    if not options.plan:
        result = run_build(definition, run, options.prefect, options.runner)
        show_result = build_output.show_build_result
        terminal.print_json(build_output.summarize_build(result)) if options.json else show_result(result)
        return
    with active_run(run):
        plan = set_builds.plan(definition)
    terminal.print_json(plan) if options.json else build_output.PLAN_PRINTERS[kind](plan)


def run_build(
    definition: SetDefinition, run: BuildRun, prefect: bool | None = None, runner: str = "threads"
) -> BuildResult:
    """Build in process, or under Prefect where `prefect` asks for it or a server is configured."""
    from flows.flow_entrypoint import configured_server
    from querytruth.api import set_builds

    server = configured_server() if prefect is not False else None
    use_prefect = bool(prefect or server)
    if use_prefect:
        terminal.err.print(f"querytruth: running as a Prefect flow on {server or 'a server of its own, up in seconds'}")
    return set_builds.run_build(definition, run, prefect=use_prefect, runner=runner)


class LabelLanguage(StrEnum):
    """Languages of labels."""

    ZH = "zh"
    EN = "en"


@labels_app.callback()
def labels() -> None:
    """Translate the labels of annotations by a chat model, then by people."""


@labels_app.command()
def translate(
    table: LabelsArgument,
    language: Annotated[LabelLanguage, typer.Option(help="The language of the new names.")],
    model: Annotated[str, typer.Option(help="A chat model.")] = "openai_compatible",
    model_option: Annotated[
        list[str] | None, typer.Option("--model-option", help="An option of that model.", metavar="KEY=VALUE")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="The CSV to write (default: labels.LANGUAGE.csv).")] = None,
    offline: OfflineOption = False,
    json: JsonOption = False,
) -> None:
    """Have a chat model propose names, and write a CSV in which people accept, change or reject them.

    Example: querytruth labels translate annotations.json --language zh --model-option name=qwen3
    """
    from builders.precision.label_translations import translate_labels
    from querytruth.cli.options import parse_model_options

    options = parse_model_options(model_option or [], "--model-option")
    with terminal.reported_run(offline=offline):
        done = translate_labels(table, language, model, options, to or Path(f"labels.{language}.csv"))
    if json:
        found = {"file": str(done.file), "labels": done.labels, "flagged": done.flagged, "problems": done.problems}
        terminal.print_json(found | {"model_calls": done.calls})
        return
    flags = ", ".join(f"{count} {name}" for name, count in sorted(done.problems.items()))
    terminal.out.print(f"{done.labels} labels, {done.flagged} to look at{f' ({flags})' if flags else ''}", markup=False)
    terminal.out.print(
        f"{done.file}: write accept or reject into verdict, change proposals where they are wrong; "
        f"then querytruth labels accept {done.file} {table} --to my-labels",
        markup=False,
        soft_wrap=True,
    )


@labels_app.command()
def accept(
    reviewed: Annotated[Path, typer.Argument(help="The filled-in CSV.", metavar="FILE")],
    table: LabelsArgument,
    to: Annotated[Path, typer.Option(help="The folder of the new label table.")],
    json: JsonOption = False,
) -> None:
    """Write the label table with the names that people accepted.

    Example: querytruth labels accept labels.zh.csv annotations.json --to my-labels
    """
    from builders.precision.label_translations import accept_label_translations

    with terminal.reported_run():
        file, accepted, undecided = accept_label_translations(reviewed, table, to)
    if json:
        terminal.print_json({"file": str(file), "accepted": accepted, "undecided": undecided})
        return
    left = f", {undecided} rows without a verdict" if undecided else ""
    terminal.out.print(f"{file}: {accepted} names accepted{left}", markup=False, soft_wrap=True)
