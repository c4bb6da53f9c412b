"""`querytruth build`: how a build is called, and what it says of its outcome."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querytruth import plans, terminal

if TYPE_CHECKING:
    from flows.definitions import SetDefinition
    from flows.publish import BuildResult
    from flows.steps import Run

app = typer.Typer(help="Build a set from its definition.", no_args_is_help=True)

CORES = os.cpu_count() or 1
Definition = Annotated[Path, typer.Argument(help="The definition, a YAML file.", metavar="DEFINITION.yaml")]
Maybe = Annotated[Path | None, typer.Argument(help="The definition, a YAML file.", metavar="[DEFINITION.yaml]")]
Set = Annotated[list[str], typer.Option("--set", help="Override a key: --set mixes.levels=2", metavar="KEY=VALUE")]
Plan = Annotated[bool, typer.Option("--plan", help="Print what would be built, and build nothing.")]
Rescan = Annotated[bool, typer.Option("--rescan", help="Read every picture again, also those that did not change.")]
Prefect = Annotated[
    bool | None,
    typer.Option("--prefect/--in-process", help="Run as a Prefect flow (the default where a server is configured)."),
]
Runner = Annotated[
    str,
    typer.Option(
        help="threads, dask or ray (dask:ADDRESS and ray:ADDRESS for a cluster that is up); the latter two are Prefect "
        "flows.",
        metavar="threads|dask|ray",
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Ask no chat model: recorded replies are all there is.")]
FromStore = Annotated[bool, typer.Option("--offline", help="Ask the web nothing: what was fetched is all there is.")]
RetryFailures = Annotated[
    bool, typer.Option("--retry-failures", help="Ask again what a chat model failed at for good.")
]
Workers = Annotated[int, typer.Option(help="Worker processes for pictures.", min=1, max=256)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


@app.command()
def gallery(
    definition: Maybe = None,
    set_: Set = [],  # noqa: B006 - Typer's way to say "none given"
    plan: Plan = False,
    rescan: Rescan = False,
    prefect: Prefect = None,
    runner: Runner = "threads",
    workers: Workers = CORES,
    json: Json = False,
) -> None:
    """A pile of pictures to a gallery: filtered, deduplicated, selected, rendered.

    Example: querytruth build gallery --set images=~/Pictures --set select.count=1000 --plan
    """
    if definition is None:
        given = dict(override.partition("=")[::2] for override in set_)
        if "images" not in given:
            raise typer.BadParameter("give DEFINITION.yaml, or --set images=FOLDER")
        from flows.starter import name_of

        set_ = [f"name={name_of(given['images'])}", *set_]
    _build("gallery", definition, set_, plan, How(rescan, prefect, runner, workers), json)


@app.command()
def precision(
    definition: Definition,
    set_: Set = [],  # noqa: B006 - Typer's way to say "none given"
    plan: Plan = False,
    rescan: Rescan = False,
    prefect: Prefect = None,
    runner: Runner = "threads",
    workers: Workers = CORES,
    json: Json = False,
) -> None:
    """Detection labels to queries with many right pictures each.

    Example: querytruth build precision objects.yaml --set mixes.mode=exhaustive --plan
    """
    _build("precision", definition, set_, plan, How(rescan, prefect, runner, workers), json)


@app.command()
def recall(
    definition: Definition,
    set_: Set = [],  # noqa: B006 - Typer's way to say "none given"
    plan: Plan = False,
    offline: Offline = False,
    retry_failures: RetryFailures = False,
    rescan: Rescan = False,
    prefect: Prefect = None,
    runner: Runner = "threads",
    workers: Workers = CORES,
    json: Json = False,
) -> None:
    """Pictures to captions, each a query that finds its picture; what fits several pictures is dealt with.

    Example: querytruth build recall album.yaml --plan
    """
    how = How(rescan, prefect, runner, workers, offline, retry_failures)
    _build("recall", definition, set_, plan, how, json)


@app.command()
def generated(
    definition: Definition,
    set_: Set = [],  # noqa: B006 - Typer's way to say "none given"
    plan: Plan = False,
    offline: FromStore = False,
    prefect: Prefect = None,
    runner: Runner = "threads",
    workers: Workers = CORES,
    json: Json = False,
) -> None:
    """Queries that people kept, with pictures from the web; only what was not collected yet is asked for.

    Example: querytruth build generated topics.yaml --plan
    """
    _build("generated", definition, set_, plan, How(False, prefect, runner, workers, offline), json)


@dataclass(frozen=True, slots=True)
class How:
    """How a build runs: what it costs, and not what it builds."""

    rescan: bool = False
    prefect: bool | None = None
    runner: str = "threads"
    workers: int = CORES
    offline: bool = False
    retry_failures: bool = False

    def run(self) -> Run:
        """The build under way, told to the terminal."""
        from flows.steps import Run

        return Run(terminal.Terminal(), self.workers, self.rescan, self.offline, self.retry_failures)


def _build(kind: str, path: Path | None, overrides: list[str], plan: bool, how: How, json: bool) -> None:
    terminal.err.print(f"querytruth: reading {path or 'the definition'}", markup=False)
    from flows.definitions import load_definition

    definition = load_definition(path, overrides, kind)
    if not plan:
        result = run_build(definition, how)
        terminal.as_json(summary(result)) if json else show_result(result)
        return
    from flows.builds import plan_set
    from flows.steps import running

    with running(how.run()):
        planned = plan_set(definition)
    terminal.as_json(planned) if json else plans.SHOW[kind](planned)


def run_build(definition: SetDefinition, how: How) -> BuildResult:
    """In process, or under Prefect when asked to, when a server is configured or when the runner needs it."""
    from flows.prefect_server import configured_server, quiet
    from flows.steps import running

    if how.prefect is False and how.runner != "threads":
        raise typer.BadParameter(f"--runner {how.runner} runs under Prefect: leave out --in-process")
    server = configured_server() if how.prefect is not False else None
    if how.prefect or server or how.runner != "threads":
        terminal.err.print(f"querytruth: running as a Prefect flow on {server or 'a server of its own, up in seconds'}")
        quiet()
        from flows import prefect_engine

        result: BuildResult = prefect_engine.run_build(definition, how.run(), how.runner)
        return result
    from flows.builds import build_set

    with running(how.run()):
        return build_set(definition)


def summary(result: BuildResult) -> dict[str, Any]:
    """A build's outcome for machines."""
    keys = ("name", "version", "kind", "content_digest", "build_digest", "counts", "funnel", "decisions")
    return {
        "path": str(result.path),
        "published": result.is_new,
        **{key: result.manifest[key] for key in keys},
        "model_calls": result.manifest["envelope"]["calls"] if result.is_new else {},
        "smaller": [summary(smaller) for smaller in result.smaller],
    }


def show_result(result: BuildResult) -> None:
    """A build's outcome for people: the funnel, and where to look next."""
    terminal.funnel(result.manifest["funnel"])
    name, counts = f"{result.manifest['name']}/v{result.version}", result.manifest["counts"]
    state = "published" if result.is_new else "unchanged: nothing published, the newest version says the same,"
    terminal.out.print(f"[bold]{name}[/] {state} in {result.path}", soft_wrap=True)
    terminal.out.print(_content(counts))
    if ambiguity := result.manifest["notes"].get("ambiguity"):
        terminal.out.print(_ambiguity(ambiguity))
    if collection := result.manifest["notes"].get("collection"):
        terminal.out.print(collected_line(collection), markup=False, soft_wrap=True)
    for smaller in result.smaller:
        terminal.out.print(_smaller(smaller), soft_wrap=True)
    for decision, why in result.stale:
        terminal.err.print(f"decision no longer applies: {decision.decision} on {decision.text!r}: {why}", markup=False)
    if result.waiting:
        about = "decision waits" if result.waiting == 1 else "decisions wait"
        told = f"{result.waiting} {about} for the next build of the set, which alone can follow: querytruth build"
        terminal.err.print(told, markup=False)


def _content(counts: dict[str, Any]) -> str:
    parts = []
    if counts["queries"]:
        levels = " / ".join(f"{number:,}" for number in counts["by_level"].values())
        parts = [f"{counts['queries']:,} queries (by level {levels})", f"{counts['judgments']:,} judgments"]
    twins = f"{counts['duplicate_groups']:,} of them with near-duplicates" if counts["duplicate_groups"] else ""
    return ", ".join([f"{counts['images']:,} pictures", *filter(None, [twins]), *parts])


def _ambiguity(notes: dict[str, Any]) -> str:
    before, after = notes["before"], notes["after"]
    shares = f"{before['ambiguous']:,} of {before['queries']:,} captions ({before['share']:.1%})"
    return f"ambiguous: {shares} before, {after['ambiguous']:,} of {after['queries']:,} after {notes['policy']}"


def collected_line(figures: dict[str, Any]) -> str:
    """A collection's figures in a sentence."""
    told = f"{figures['queries']:,} queries keep {figures['pictures']:,} pictures"
    if figures["same_picture_at_other_addresses"]:
        told += f"; {figures['same_picture_at_other_addresses']:,} more are the same at other addresses"
    if figures["pictures_of_several_queries"]:
        told += f"; {figures['pictures_of_several_queries']:,} are true for several queries"
    licences = ", ".join(f"{name} {count:,}" for name, count in figures["licences"].items())
    return f"{told}; licences: {licences}" if licences else told


def _smaller(result: BuildResult) -> str:
    state = "published" if result.is_new else "unchanged"
    counts, name = result.manifest["counts"], f"{result.manifest['name']}/v{result.version}"
    return f"  within it [bold]{name}[/] {state}: {counts['images']:,} pictures, {counts['queries']:,} queries"
