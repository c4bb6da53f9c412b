"""`querytruth topics`, `objects` and `collect` of generated sets, and `querytruth train`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from flows.requests import ChatStage, CollectStage, DefinitionRequest, TrainingRequest
from querytruth import terminal
from querytruth.cli import build_output
from querytruth.cli.command_line import command, refuse_options
from querytruth.cli.options import JsonOption, PlanOption, TableOptions
from querytruth.errors import UserError
from querytruth.requests import ByName

if TYPE_CHECKING:
    from builders.generated.collect_stage import CollectResult
    from builders.generated.stages import StageResult


class TypedStage(ChatStage):
    """A stage as it is typed."""

    plan: bool = Field(False, description="Print the planned work and its cost, and do nothing.")
    health: bool = Field(False, description="Show the health of all runs side by side; send nothing.")
    beside: Annotated[list[Path], ByName("--beside", "DEFINITION.yaml")] = Field(
        default_factory=list, description="With --health: also show the runs of this definition."
    )


class TypedTopics(TypedStage):
    """The first stage as it is typed."""

    compare: int | None = Field(
        None, ge=1, description="Run all three strategies with this many questions each, and compare their statistics."
    )


@command
def topics(
    json: JsonOption = False, *, request: TypedTopics, table: TableOptions, given: frozenset[str] = frozenset()
) -> None:
    """Propose topics and their objects with a chat model, and write a table to choose from.

    Example: querytruth topics generated.yaml

    Example: querytruth topics generated.yaml --health

    Example: querytruth topics generated.yaml --compare 60
    """
    if request.compare is not None:
        known = ("definition", "compare", "overrides", "out", "json", "offline", "retry_failures")
        refuse_options(given, known, "topics --compare")
        _compare_strategies(request, request.compare, json)
        return
    _run_stage("topics", request, table, json, given)


@command
def objects(
    json: JsonOption = False, *, request: TypedStage, table: TableOptions, given: frozenset[str] = frozenset()
) -> None:
    """Propose more objects for accepted topics with the chat model, and write a table to choose from.

    Example: querytruth objects generated.yaml

    Example: querytruth objects generated.yaml --health --beside another.yaml
    """
    _run_stage("objects", request, table, json, given)


def _run_stage(stage: str, request: TypedStage, table: TableOptions, json: bool, given: frozenset[str]) -> None:
    if request.health:
        refuse_options(given, ("definition", "health", "beside", "overrides", "out", "json"), f"{stage} --health")
        of_others = [request.model_copy(update={"definition": path}) for path in request.beside]
        _show_health(stage, [request, *of_others], json)
        return
    refuse_options(given & {"beside"}, (), f"{stage} without --health")
    terminal.report(f"querytruth: reading {request.definition}")
    from builders.generated.stages import run_objects_stage, run_topics_stage

    definition: Any = request.load_definition()
    source = _repeat_arguments(request)
    flags = {"offline": request.plan or request.offline, "retry_failures": request.retry_failures}
    with terminal.reported_run(**flags):
        if request.plan:
            _show_plan(_plan_stage(stage, definition, source, table), json)
            return
        run_stage = {"topics": run_topics_stage, "objects": run_objects_stage}[stage]
        result = run_stage(definition, source, table.to_review_options())
    terminal.print_json(_summarize_stage(result)) if json else _show_stage(result)


def _repeat_arguments(request: DefinitionRequest) -> str:
    """Return the arguments that the command of the next stage needs, too."""
    path, out = request.definition, request.out
    return str(path) if out is None else f"{path} --out {shlex.quote(str(out))}"


def _plan_stage(stage: str, definition: Any, source: str, table: TableOptions) -> dict[str, Any]:
    from builders.generated.stages import load_chosen_topics, plan_objects, plan_topics

    if stage == "topics":
        return plan_topics(definition)
    return plan_objects(definition, load_chosen_topics(definition, source, table.to_review_options()))


def _show_plan(plan: dict[str, Any], json: bool) -> None:
    if json:
        terminal.print_json(plan)
        return
    asked = f"{plan['asked']:,} questions about {plan['stage']} are already answered"
    terminal.say(f"{asked}; at most {plan['model_calls']:,} model calls")
    terminal.say(build_output.format_forecast(plan))


def _summarize_stage(result: StageResult) -> dict[str, Any]:
    return {
        "stage": result.stage,
        "awaiting_review": str(result.file),
        "then": result.command,
        "stops": result.stop_counts,
        "rows": result.rows,
        "model_calls": result.calls,
        "health": result.health.as_dict(),
        "page": str(result.page),
        "funnel": result.ledger.funnel(),
    }


def _show_stage(result: StageResult) -> None:
    terminal.print_funnel(result.ledger.funnel())
    terminal.say(result.health.summary_line)
    for warning in result.health.warnings:
        terminal.report(f"warning: {warning.text}")
    ended = ", ".join(f"{number} {why.replace('_', ' ')}" for why, number in sorted(result.stop_counts.items()))
    terminal.say(f"{result.calls:,} model calls; stopped: {ended}")
    terminal.say(f"report: {result.page}")
    terminal.say(result.next_step_text)
    on_page = f"querytruth review {shlex.quote(str(result.file))}"
    terminal.say(f"in a spreadsheet, or on a page: {on_page}")


@command
def collect(plan: PlanOption = False, json: JsonOption = False, *, request: CollectStage, table: TableOptions) -> None:
    """Search the web for the accepted queries and download their images; none is downloaded twice.

    Example: querytruth collect generated.yaml
    """
    terminal.report(f"querytruth: reading {request.definition}")
    from builders.generated.collect_stage import run_collect_stage

    loaded: Any = request.load_definition()
    if plan:
        _plan_collection(loaded, json)
        return
    with terminal.reported_run(offline=request.offline):
        result = run_collect_stage(loaded, _repeat_arguments(request), table.to_review_options())
    terminal.print_json(_summarize_collection(result)) if json else _show_collection(result)


def _plan_collection(definition: Any, json: bool) -> None:
    from flows.set_kinds import plan_set

    with terminal.reported_run(offline=True):
        plan = plan_set(definition)
    terminal.print_json(plan) if json else build_output.PLAN_PRINTERS["generated"](plan)


def _summarize_collection(result: CollectResult) -> dict[str, Any]:
    return {
        "stage": "collect",
        "table": str(result.file),
        "then": result.command,
        "fetched": result.fetches,
        "pending_queries": result.pending,
        "figures": result.figures,
        "funnel": result.ledger.funnel(),
    }


def _show_collection(result: CollectResult) -> None:
    terminal.print_funnel(result.ledger.funnel())
    figures = result.figures
    terminal.say(build_output.format_collection_summary(figures))
    failed = sorted(figures["fetched"].get("failed", {}).items(), key=lambda item: (-item[1], item[0]))
    if failed:
        failure_counts = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in failed)
        terminal.say(f"no image: {failure_counts}")
    if result.pending:
        again = "the same command retries those that may still succeed"
        terminal.say(f"{result.pending:,} queries are pending: {again}")
    terminal.say(f"result of each query: {result.file}")
    terminal.say(f"then: {result.command}")


def _compare_strategies(request: TypedTopics, questions: int, json: bool) -> None:
    """Run every strategy on one budget, and print the figures side by side."""
    terminal.report(f"querytruth: reading {request.definition}")
    from builders.generated.strategy_comparison import compare_strategies

    definition: Any = request.load_definition()
    with terminal.reported_run(offline=request.offline, retry_failures=request.retry_failures):
        rows, page = compare_strategies(definition, _repeat_arguments(request), questions)
    if json:
        terminal.print_json({"page": str(page), "strategies": rows})
        return
    figures: dict[str, list[object]] = {
        "questions": [f"{row['questions']:,}" for row in rows],
        "objects": [f"{row['objects']:,}" for row in rows],
        "new of all rows": [f"{row['new']:.0%}" for row in rows],
        "most frequent object": [f"{row['head']} {row['head_share']:.0%}" if row["head"] else "" for row in rows],
        "length relative to people": [f"{row['drift']:.1f} x" for row in rows],
        "tokens per object": [f"{row['tokens_per_object']:,.0f}" if row["objects"] else "" for row in rows],
        "stopped": [row["stops"] for row in rows],
        "warnings": [", ".join(row["warnings"]).replace("_", " ") for row in rows],
    }
    columns = ["", *(row["strategy"].replace("_", " ") for row in rows)]
    terminal.print_table("Strategies", columns, [[name, *values] for name, values in figures.items()])
    terminal.say(f"plots: {page}")


def _show_health(stage: str, requests: list[TypedStage], json: bool) -> None:
    """Print the health of all runs of a stage side by side."""
    terminal.report(f"querytruth: reading {', '.join(str(one.definition) for one in requests)}")
    from builders.generated.generator_health import build_run_row
    from builders.generated.stages import list_finished_runs

    rows = []
    for one in requests:
        definition: Any = one.load_definition()
        finished_runs = list_finished_runs(definition, stage)
        if not finished_runs:
            reason, next_step = f"has no finished run of {stage}", f"run querytruth {stage} {one.definition}"
            raise UserError("compare runs", one.definition, reason, next_step)
        rows += [{"set": definition.name, **build_run_row(run)} for run in finished_runs]
    terminal.print_json(rows) if json else _show_runs(stage, rows)


def _show_runs(stage: str, rows: list[dict[str, Any]]) -> None:
    """Print a table with a column per run, as there are more figures than runs."""
    figures: dict[str, list[object]] = {
        "set": [row["set"] for row in rows],
        "model": [row["model"] for row in rows],
        "run": [f"{row['run']}{' *' if row['is_current'] else ''}" for row in rows],
        "replies": [f"{row['replies']:,}" for row in rows],
        "objects": [f"{row['objects']:,}" for row in rows],
        "new of all rows": [f"{row['new']:.0%}" for row in rows],
        "length of the last": [f"{row['length']:.1f}" for row in rows],
        "length, people's": [f"{row['length_of_people']:.1f}" for row in rows],
        "named most": [f"{row['head']} {row['head_share']:.0%}" if row["head"] else "" for row in rows],
        "tokens per object": [f"{row['tokens_per_object']:,.0f}" if row["objects"] else "" for row in rows],
        "warnings": [", ".join(row["warnings"]).replace("_", " ") for row in rows],
    }
    strategies = [row["strategy"].replace("_", " ") for row in rows]
    terminal.print_table(f"Runs of {stage}", ["", *strategies], [[name, *values] for name, values in figures.items()])
    terminal.say("* run of the table that is under review now")


@command
def train(plan: PlanOption = False, json: JsonOption = False, *, request: TrainingRequest) -> None:
    """Train a dual encoder on the images and queries of a set; the same command resumes a stopped training.

    Example: querytruth train training.yaml --plan

    Example: querytruth train training.yaml --set steps.epochs=10
    """
    terminal.report(f"querytruth: reading {request.definition}")
    from flows.training import plan_training, train_dual_encoder

    checked: Any = request.load_definition()
    if plan:
        planned = plan_training(checked)
        return terminal.print_json(planned) if json else _show_training_plan(planned)
    try:
        with terminal.reported_run(workers=request.worker_count):
            result = train_dual_encoder(checked)
            terminal.print_json(_summary(result)) if json else _show(result)
    except OSError as error:
        place = error.filename or checked.out
        reason = f"cannot be written ({error.strerror})"
        raise UserError("train", place, reason, "fix that, then run the same command to continue") from None


def _show_training_plan(plan: dict[str, Any]) -> None:
    terminal.print_funnel(plan["funnel"])
    rows: list[list[object]] = [[part, plan["pictures"][part], plan["queries"][part]] for part in plan["pictures"]]
    terminal.print_table(f"Splits of {plan['set']}", ["", "images", "queries"], rows)
    steps = plan["steps_an_epoch"] * plan["epochs_at_most"]
    text = f"{plan['pairs']:,} training pairs, {plan['steps_an_epoch']:,} steps per epoch, at most {steps:,} steps"
    text += f", on {plan['device']}; about {plan['bytes_about'] / 1e6:,.0f} MB on disk"
    terminal.say(text)


def _summary(result: Any) -> dict[str, Any]:
    return {
        "path": str(result.folder),
        "test_set": str(result.test_set),
        "is_new": result.is_new,
        "epochs": len(result.history),
        "figures": result.figures,
        "chance": result.chance,
    }


def _show(result: Any) -> None:
    from querytruth.dual_encoder.training_report import CHANCE, COLUMNS, list_score_rows, warn_of_chance

    rows: list[list[object]] = [[*row] for row in list_score_rows(result.figures, result.chance)]
    status = "trained" if result.is_new else "was already trained"
    terminal.say(f" {status}, {len(result.history)} epochs", bold=str(result.folder))
    terminal.print_table("On the held-out images (95% intervals)", ["", *(title for title, _ in COLUMNS), CHANCE], rows)
    if warning := warn_of_chance(result.chance):
        terminal.say(f"warning: {warning}")
    next_ = f"Next: querytruth evaluate {result.test_set} --model {result.folder}"
    terminal.say(next_)
