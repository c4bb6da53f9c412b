"""`querytruth build` and `querytruth init`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builders.errors import UserError
from querytruth import terminal

if TYPE_CHECKING:
    from flows.definitions import PrecisionDefinition
    from flows.publish import BuildResult

app = typer.Typer(help="Build a set from its definition.", no_args_is_help=True)

CORES = os.cpu_count() or 1
Definition = Annotated[Path, typer.Argument(help="The definition, a YAML file.", metavar="DEFINITION.yaml")]
Set = Annotated[list[str], typer.Option("--set", help="Override a key: --set mixes.levels=2", metavar="KEY=VALUE")]
Plan = Annotated[bool, typer.Option("--plan", help="Print what would be built, and build nothing.")]
Prefect = Annotated[
    bool | None,
    typer.Option("--prefect/--in-process", help="Run as a Prefect flow (the default where a server is configured)."),
]
Workers = Annotated[int, typer.Option(help="Threads for pictures.", min=1, max=256)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


@app.command()
def precision(
    definition: Definition,
    set_: Set = [],  # noqa: B006 - Typer's way to say "none given"
    plan: Plan = False,
    prefect: Prefect = None,
    workers: Workers = CORES,
    json: Json = False,
) -> None:
    """Detection labels to queries with many right pictures each.

    Example: querytruth build precision objects.yaml --set mixes.mode=exhaustive --plan
    """
    terminal.err.print(f"querytruth: reading {definition}")
    from flows.definitions import PrecisionDefinition, load_definition
    from flows.precision_set import plan_precision
    from flows.steps import Run, running

    wanted = load_definition(definition, set_, "precision")
    assert isinstance(wanted, PrecisionDefinition)
    if plan:
        with running(Run(terminal.Terminal(), workers)):
            planned = plan_precision(wanted)
        terminal.as_json(planned) if json else show_plan(planned)
        return
    result = run_precision(wanted, workers, prefect)
    terminal.as_json(summary(result)) if json else show_result(result)


# No news, no telemetry, and time enough for the first start on an empty home and a small machine.
_QUIET_PREFECT = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}


def run_precision(definition: PrecisionDefinition, workers: int, prefect: bool | None) -> BuildResult:
    """In process, or under Prefect when asked to or when a server is configured."""
    from flows.prefect_server import configured_server
    from flows.steps import Run, running

    server = configured_server() if prefect is not False else None
    if prefect or server:
        terminal.err.print(f"querytruth: running as a Prefect flow on {server or 'a server of its own, up in seconds'}")
        for name, value in _QUIET_PREFECT.items():
            os.environ.setdefault(name, value)
        from flows.prefect_engine import run_precision_set

        result: BuildResult = run_precision_set(definition, terminal.Terminal(), workers)
        return result
    from flows.precision_set import precision_set

    with running(Run(terminal.Terminal(), workers)):
        return precision_set(definition)


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
    levels = " / ".join(f"{number:,}" for number in counts["by_level"].values())
    queries = f"{counts['queries']:,} queries (by level {levels})"
    state = "published" if result.is_new else "unchanged: nothing published, the newest version says the same,"
    terminal.out.print(f"[bold]{name}[/] {state} in {result.path}", soft_wrap=True)
    terminal.out.print(f"{queries}, {counts['images']:,} pictures, {counts['judgments']:,} judgments")
    for decision, why in result.stale:
        terminal.err.print(f"decision no longer applies: {decision.decision} on {decision.text!r}: {why}", markup=False)


def show_plan(plan: dict[str, Any]) -> None:
    """What a build would do."""
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


def init(
    kind: Annotated[str, typer.Argument(help="precision")],
    annotations: Annotated[Path | None, typer.Option(help="A COCO-form annotation file.")] = None,
    images: Annotated[Path | None, typer.Option(help="The pictures' folder.")] = None,
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
