"""`querytruth build`: a set of each kind from its definition."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from querytruth import build_output, terminal
from querytruth.options import (
    BuildOptions,
    DefinitionArgument,
    OfflineOption,
    OptionalDefinitionArgument,
    RescanOption,
    RetryFailuresOption,
    expand_option_groups,
    list_overrides,
)

if TYPE_CHECKING:
    from flows.definitions import SetDefinition
    from flows.set_publication import BuildResult
    from flows.steps import BuildRun

app = typer.Typer(help="Build a set from its definition.", no_args_is_help=True)


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
        from flows.definition_starter import derive_set_name

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
    from flows.steps import BuildRun, active_run
    from querytruth.api import set_builds

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
    from flows.prefect_server import configured_server
    from querytruth.api import set_builds

    server = configured_server() if prefect is not False else None
    use_prefect = bool(prefect or server)
    if use_prefect:
        terminal.err.print(f"querytruth: running as a Prefect flow on {server or 'a server of its own, up in seconds'}")
    return set_builds.run_build(definition, run, prefect=use_prefect, runner=runner)
