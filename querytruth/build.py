"""`querytruth build` and `querytruth init`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builders.errors import UserError
from querytruth import terminal

if TYPE_CHECKING:
    from flows.definitions import SetDefinition
    from flows.publish import BuildResult

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


@dataclass(frozen=True, slots=True)
class How:
    """How a build runs, which changes nothing of what it builds."""

    rescan: bool = False
    prefect: bool | None = None
    runner: str = "threads"
    workers: int = CORES


def _build(kind: str, path: Path | None, overrides: list[str], plan: bool, how: How, json: bool) -> None:
    terminal.err.print(f"querytruth: reading {path or 'the definition'}", markup=False)
    from flows.definitions import load_definition

    definition = load_definition(path, overrides, kind)
    if not plan:
        result = run_build(definition, how)
        terminal.as_json(summary(result)) if json else show_result(result)
        return
    from flows.builds import plan_set
    from flows.steps import Run, running

    with running(Run(terminal.Terminal(), how.workers)):
        planned = plan_set(definition)
    terminal.as_json(planned) if json else _SHOW_PLAN[kind](planned)


# No news, no telemetry, and time enough for the first start on an empty home and a small machine.
_QUIET_PREFECT = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",  # a server of our own is stopped while it still writes events
    "DASK_LOGGING__DISTRIBUTED": "error",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # in spite of its name: a Ray of our own listens on loopback only
}


def run_build(definition: SetDefinition, how: How) -> BuildResult:
    """In process, or under Prefect when asked to, when a server is configured or when the runner needs it."""
    from flows.prefect_server import configured_server
    from flows.steps import Run, running

    if how.prefect is False and how.runner != "threads":
        raise typer.BadParameter(f"--runner {how.runner} runs under Prefect: leave out --in-process")
    server = configured_server() if how.prefect is not False else None
    if how.prefect or server or how.runner != "threads":
        terminal.err.print(f"querytruth: running as a Prefect flow on {server or 'a server of its own, up in seconds'}")
        for name, value in _QUIET_PREFECT.items():
            os.environ.setdefault(name, value)
        from flows import prefect_engine

        reporter = terminal.Terminal()
        result: BuildResult = prefect_engine.run_build(definition, reporter, how.workers, how.runner, how.rescan)
        return result
    from flows.builds import build_set

    with running(Run(terminal.Terminal(), how.workers, how.rescan)):
        return build_set(definition)


def summary(result: BuildResult) -> dict[str, Any]:
    """A build's outcome for machines."""
    keys = ("name", "version", "kind", "content_digest", "build_digest", "counts", "funnel", "decisions")
    return {
        "path": str(result.path),
        "published": result.is_new,
        **{key: result.manifest[key] for key in keys},
    }


def show_result(result: BuildResult) -> None:
    """A build's outcome for people: the funnel, and where to look next."""
    terminal.funnel(result.manifest["funnel"])
    name, counts = f"{result.manifest['name']}/v{result.version}", result.manifest["counts"]
    state = "published" if result.is_new else "unchanged: nothing published, the newest version says the same,"
    terminal.out.print(f"[bold]{name}[/] {state} in {result.path}", soft_wrap=True)
    terminal.out.print(_content(counts))
    for decision, why in result.stale:
        terminal.err.print(f"decision no longer applies: {decision.decision} on {decision.text!r}: {why}", markup=False)


def _content(counts: dict[str, Any]) -> str:
    parts = []
    if counts["queries"]:
        levels = " / ".join(f"{number:,}" for number in counts["by_level"].values())
        parts = [f"{counts['queries']:,} queries (by level {levels})", f"{counts['judgments']:,} judgments"]
    twins = f"{counts['duplicate_groups']:,} of them with near-duplicates" if counts["duplicate_groups"] else ""
    return ", ".join([f"{counts['images']:,} pictures", *filter(None, [twins]), *parts])


def _show_gallery_plan(plan: dict[str, Any]) -> None:
    terminal.funnel(plan["funnel"])
    known, total = plan["known_from_before"], plan["pictures"]
    terminal.out.print(f"[bold]{total:,} pictures[/], {known:,} of them read before")
    disk = f"{plan['bytes_about'] / 1e6:,.0f} MB on disk at most"
    terminal.out.print(
        f"{plan['model_calls']} model calls, about {plan['seconds_about']:,.0f} s on this machine, {disk}"
    )


def _show_precision_plan(plan: dict[str, Any]) -> None:
    terminal.funnel(plan["funnel"])
    labels = next(stage["entered"] for stage in plan["funnel"] if stage["stage"] == "labels")
    levels = " → ".join(f"{number:,} of level {level}" for level, number in plan["levels"].items())
    total = f"{plan['seeds']:,} seeds with {plan['parents']:,} parents of the tree, {plan['queries']:,} queries"
    terminal.out.print(f"[bold]{labels:,} labels → {levels}[/]: {total}")
    cost = f"{plan['model_calls']} model calls, about {plan['bytes_about'] / 1e6:,.0f} MB on disk"
    terminal.out.print(f"at most {plan['judgments_at_most']:,} judgments, {cost}")
    pairs = plan["derived_pairs"]
    if pairs:
        shown = "; ".join(pairs[:8]) + (" …" if len(pairs) > 8 else "")
        terminal.out.print(f"accepted because others are ({len(pairs)} pairs): {shown}", soft_wrap=True, markup=False)


_SHOW_PLAN = {"gallery": _show_gallery_plan, "precision": _show_precision_plan}


def init(
    kind: Annotated[str, typer.Argument(help="gallery or precision")],
    annotations: Annotated[Path | None, typer.Option(help="precision: a COCO-form annotation file.")] = None,
    images: Annotated[
        str | None, typer.Option(help="The pictures' folder; gallery: also a list, table or URL.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write (default: KIND.yaml).")] = None,
    json: Json = False,
) -> None:
    """Write a commented definition to start from.

    Example: querytruth init precision --annotations instances_val2017.json --images val2017
    """
    from builders.errors import nearest
    from flows.definitions import KINDS
    from flows.starter import starter

    if kind not in KINDS:
        raise UserError("init", kind, "is no kind of set", nearest(kind, list(KINDS)))
    path = out or Path(f"{kind}.yaml")
    if path.exists():
        raise UserError("init", path, "exists already", "give --out another name, or remove it")
    try:
        path.write_text(starter(kind, annotations, images, path.parent), encoding="utf-8")
    except OSError as error:
        raise UserError("init", path, f"cannot be written ({error.strerror})", "give --out another name") from None
    if json:
        terminal.as_json({"path": str(path), "kind": kind})
    else:
        terminal.out.print(f"{path} written. Next: querytruth build {kind} {path} --plan", soft_wrap=True)
