"""`querytruth build`: how a build is called, and what it says of its outcome."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import plan_printers, terminal

if TYPE_CHECKING:
    from flows.definitions import SetDefinition
    from flows.set_publication import BuildResult
    from flows.steps import BuildRun

app = typer.Typer(help="Build a set from its definition.", no_args_is_help=True)

CPU_CORES = os.cpu_count() or 1
DefinitionArgument = Annotated[Path, typer.Argument(help="The definition, a YAML file.", metavar="DEFINITION.yaml")]
OptionalDefinitionArgument = Annotated[
    Path | None, typer.Argument(help="The definition, a YAML file.", metavar="[DEFINITION.yaml]")
]
OverridesOption = Annotated[
    list[str], typer.Option("--set", help="Override a key: --set mixes.levels=2", metavar="KEY=VALUE")
]
PlanOption = Annotated[bool, typer.Option("--plan", help="Print what would be built, and build nothing.")]
RescanOption = Annotated[
    bool, typer.Option("--rescan", help="Read every picture again, also those that did not change.")
]
PrefectOption = Annotated[
    bool | None,
    typer.Option("--prefect/--in-process", help="Run as a Prefect flow (the default where a server is configured)."),
]
RunnerOption = Annotated[
    str,
    typer.Option(
        help="threads, dask or ray (dask:ADDRESS and ray:ADDRESS for a cluster that is up); the latter two are Prefect "
        "flows.",
        metavar="threads|dask|ray",
    ),
]
OfflineRepliesOption = Annotated[
    bool, typer.Option("--offline", help="Ask no chat model: recorded replies are all there is.")
]
OfflineWebOption = Annotated[
    bool, typer.Option("--offline", help="Ask the web nothing: what was fetched is all there is.")
]
RetryFailuresOption = Annotated[
    bool, typer.Option("--retry-failures", help="Ask again what a chat model failed at for good.")
]
WorkersOption = Annotated[int, typer.Option(help="Worker processes for pictures.", min=1, max=256)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


@app.command()
def gallery(
    definition: OptionalDefinitionArgument = None,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    plan: PlanOption = False,
    rescan: RescanOption = False,
    prefect: PrefectOption = None,
    runner: RunnerOption = "threads",
    workers: WorkersOption = CPU_CORES,
    json: JsonOption = False,
) -> None:
    """A pile of pictures to a gallery: filtered, deduplicated, selected, rendered.

    Example: querytruth build gallery --set images=~/Pictures --set select.count=1000 --plan
    """
    if definition is None:
        overrides_by_key = dict(override.partition("=")[::2] for override in set_)
        if "images" not in overrides_by_key:
            raise typer.BadParameter("give DEFINITION.yaml, or --set images=FOLDER")
        from flows.definition_starter import derive_set_name

        set_ = [f"name={derive_set_name(overrides_by_key['images'])}", *set_]
    _build("gallery", definition, set_, plan, RunOptions(rescan, prefect, runner, workers), json)


@app.command()
def precision(
    definition: DefinitionArgument,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    plan: PlanOption = False,
    rescan: RescanOption = False,
    prefect: PrefectOption = None,
    runner: RunnerOption = "threads",
    workers: WorkersOption = CPU_CORES,
    json: JsonOption = False,
) -> None:
    """Detection labels to queries with many right pictures each.

    Example: querytruth build precision objects.yaml --set mixes.mode=exhaustive --plan
    """
    _build("precision", definition, set_, plan, RunOptions(rescan, prefect, runner, workers), json)


@app.command()
def recall(
    definition: DefinitionArgument,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    plan: PlanOption = False,
    offline: OfflineRepliesOption = False,
    retry_failures: RetryFailuresOption = False,
    rescan: RescanOption = False,
    prefect: PrefectOption = None,
    runner: RunnerOption = "threads",
    workers: WorkersOption = CPU_CORES,
    json: JsonOption = False,
) -> None:
    """Pictures to captions, each a query that finds its picture; what fits several pictures is dealt with.

    Example: querytruth build recall album.yaml --plan
    """
    run_options = RunOptions(rescan, prefect, runner, workers, offline, retry_failures)
    _build("recall", definition, set_, plan, run_options, json)


@app.command()
def generated(
    definition: DefinitionArgument,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    plan: PlanOption = False,
    offline: OfflineWebOption = False,
    prefect: PrefectOption = None,
    runner: RunnerOption = "threads",
    workers: WorkersOption = CPU_CORES,
    json: JsonOption = False,
) -> None:
    """Queries that people kept, with pictures from the web; only what was not collected yet is asked for.

    Example: querytruth build generated topics.yaml --plan
    """
    _build("generated", definition, set_, plan, RunOptions(False, prefect, runner, workers, offline), json)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a build runs: what it costs, and not what it builds."""

    rescan: bool = False
    prefect: bool | None = None
    runner: str = "threads"
    workers: int = CPU_CORES
    offline: bool = False
    retry_failures: bool = False

    def create_build_run(self) -> BuildRun:
        """The build under way, told to the terminal."""
        from flows.steps import BuildRun

        return BuildRun(terminal.TerminalReporter(), self.workers, self.rescan, self.offline, self.retry_failures)


def _build(kind: str, path: Path | None, overrides: list[str], plan: bool, run_options: RunOptions, json: bool) -> None:
    terminal.err.print(f"querytruth: reading {path or 'the definition'}", markup=False)
    from flows.definitions import load_definition

    definition = load_definition(path, overrides, kind)
    if not plan:
        result = run_build(definition, run_options)
        terminal.print_json(summarize_build(result)) if json else show_build_result(result)
        return
    from flows.set_kinds import plan_set
    from flows.steps import active_run

    with active_run(run_options.create_build_run()):
        planned = plan_set(definition)
    terminal.print_json(planned) if json else plan_printers.PLAN_PRINTERS[kind](planned)


def run_build(definition: SetDefinition, run_options: RunOptions) -> BuildResult:
    """In process, or under Prefect when asked to, when a server is configured or when the runner needs it."""
    from flows.prefect_server import configured_server, silence_prefect
    from flows.steps import active_run

    if run_options.prefect is False and run_options.runner != "threads":
        raise typer.BadParameter(f"--runner {run_options.runner} runs under Prefect: leave out --in-process")
    server = configured_server() if run_options.prefect is not False else None
    if run_options.prefect or server or run_options.runner != "threads":
        terminal.err.print(f"querytruth: running as a Prefect flow on {server or 'a server of its own, up in seconds'}")
        silence_prefect()
        from flows import prefect_engine

        result: BuildResult = prefect_engine.run_build_in_prefect(
            definition, run_options.create_build_run(), run_options.runner
        )
        return result
    from flows.set_kinds import build_set

    with active_run(run_options.create_build_run()):
        return build_set(definition)


def summarize_build(result: BuildResult) -> dict[str, Any]:
    """A build's outcome for machines."""
    keys = ("name", "version", "kind", "content_digest", "build_digest", "counts", "funnel", "decisions")
    return {
        "path": str(result.path),
        "published": result.is_new,
        **{key: result.manifest[key] for key in keys},
        "model_calls": result.manifest["envelope"]["calls"] if result.is_new else {},
        "smaller": [summarize_build(smaller) for smaller in result.nested_results],
    }


def show_build_result(result: BuildResult) -> None:
    """A build's outcome for people: the funnel, and where to look next."""
    terminal.print_funnel(result.manifest["funnel"])
    name, counts = f"{result.manifest['name']}/v{result.version}", result.manifest["counts"]
    state = "published" if result.is_new else "unchanged: nothing published, the newest version says the same,"
    terminal.out.print(f"[bold]{name}[/] {state} in {result.path}", soft_wrap=True)
    terminal.out.print(_format_contents(counts))
    if ambiguity := result.manifest["notes"].get("ambiguity"):
        terminal.out.print(_format_ambiguity(ambiguity))
    if collection := result.manifest["notes"].get("collection"):
        terminal.out.print(format_collection_summary(collection), markup=False, soft_wrap=True)
    for smaller in result.nested_results:
        terminal.out.print(_format_nested_set(smaller), soft_wrap=True)
    for decision, why in result.stale:
        terminal.err.print(f"decision no longer applies: {decision.decision} on {decision.text!r}: {why}", markup=False)
    if result.waiting_count:
        about = "decision waits" if result.waiting_count == 1 else "decisions wait"
        pending_note = (
            f"{result.waiting_count} {about} for the next build of the set, which alone can follow: querytruth build"
        )
        terminal.err.print(pending_note, markup=False)


def _format_contents(counts: dict[str, Any]) -> str:
    parts = []
    if counts["queries"]:
        levels = " / ".join(f"{number:,}" for number in counts["by_level"].values())
        parts = [f"{counts['queries']:,} queries (by level {levels})", f"{counts['judgments']:,} judgments"]
    duplicate_note = (
        f"{counts['duplicate_groups']:,} of them with near-duplicates" if counts["duplicate_groups"] else ""
    )
    return ", ".join([f"{counts['images']:,} pictures", *filter(None, [duplicate_note]), *parts])


def _format_ambiguity(notes: dict[str, Any]) -> str:
    before, after = notes["before"], notes["after"]
    shares = f"{before['ambiguous']:,} of {before['queries']:,} captions ({before['share']:.1%})"
    return f"ambiguous: {shares} before, {after['ambiguous']:,} of {after['queries']:,} after {notes['policy']}"


def format_collection_summary(figures: dict[str, Any]) -> str:
    """A collection's figures in a sentence."""
    summary_text = f"{figures['queries']:,} queries keep {figures['pictures']:,} pictures"
    if figures["same_picture_at_other_addresses"]:
        summary_text += f"; {figures['same_picture_at_other_addresses']:,} more are the same at other addresses"
    if figures["pictures_of_several_queries"]:
        summary_text += f"; {figures['pictures_of_several_queries']:,} are true for several queries"
    licences = ", ".join(f"{name} {count:,}" for name, count in figures["licences"].items())
    return f"{summary_text}; licences: {licences}" if licences else summary_text


def _format_nested_set(result: BuildResult) -> str:
    state = "published" if result.is_new else "unchanged"
    counts, name = result.manifest["counts"], f"{result.manifest['name']}/v{result.version}"
    return f"  within it [bold]{name}[/] {state}: {counts['images']:,} pictures, {counts['queries']:,} queries"
