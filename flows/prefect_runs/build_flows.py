"""The flows of builds and of the stages of a generated set, with the reviews that a whole build waits for.

Each loads the definition, builds, publishes, and returns a state with the result.
"""

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

from prefect import Flow, flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from builders.generated import stages
from builders.generated.collect_stage import run_collect_stage
from builders.generated.definition import GeneratedDefinition
from flows.prefect_runs import flow_runner
from flows.prefect_runs.artifacts import create_funnel_artifact, create_page_link
from flows.requests import ChatStage, CollectStage, GeneratedBuild, QueriesBuild
from flows.set_kind import SetKind
from querytruth.definitions import SetDefinition
from querytruth.errors import UserError
from querytruth.sets.review_csv import REVIEW_CSV_STAGE, ReviewTableOptions

_TABLE_STAGES = (REVIEW_CSV_STAGE, stages.CHOICE_STAGE)  # of errors that are in the table


@flow(name="topics", flow_run_name=flow_runner.name_flow_run, persist_result=False)
def topics(build: ChatStage) -> State[Any]:
    """Find topics with a chat model, and write the table in which people choose."""
    return _run_stage(build, stages.run_topics_stage)


@flow(name="objects", flow_run_name=flow_runner.name_flow_run, persist_result=False)
def objects(build: ChatStage) -> State[Any]:
    """Find objects of the topics that people kept, and write the next table."""
    return _run_stage(build, stages.run_objects_stage)


@flow(name="collect", flow_run_name=flow_runner.name_flow_run, persist_result=False)
def collect(build: CollectStage) -> State[Any]:
    """Collect images for the queries that people kept."""

    def work(definition: GeneratedDefinition) -> State[Any]:
        result = run_collect_stage(definition, build.source)
        create_funnel_artifact(f"{definition.name}-collect", result.ledger.funnel())
        counts = f"{result.fetches:,} fetches, {result.pending:,} queries pending"
        return Completed(name="Collected", message=f"{counts}; {result.file}, then: {result.command}")

    return flow_runner.execute_build(build, work)


def _run_stage(build: ChatStage, run_stage: Callable[[GeneratedDefinition, str], stages.StageResult]) -> State[Any]:
    def work(definition: GeneratedDefinition) -> State[Any]:
        result = run_stage(definition, build.source)
        _show_stage(definition, result)
        return Completed(name="AwaitingReview", message=result.next_step_text)

    return flow_runner.execute_build(build, work)


def ask_for_choices(definition: GeneratedDefinition, source: str) -> None:
    """Find topics and objects; suspend the run after each until people have filled in its table. Raises UserError in a
    run without a deployment, which cannot wait."""
    if not flow_runner.is_deployed_run():
        reason = "only a deployed run can wait for people"
        raise UserError("ask people", definition.name, reason, f"querytruth topics {source}, then querytruth objects")
    found = stages.run_topics_stage(definition, source)
    found = _continue_after_review(
        definition, found, lambda filling: stages.run_objects_stage(definition, source, filling)
    )
    _continue_after_review(definition, found, lambda filling: stages.load_chosen_objects(definition, source, filling))


def ask_for_judgments(definition: SetDefinition) -> None:
    """Suspend the run until people have judged: it then starts anew, and its build applies what they decided. Raises
    UserError in a run without a deployment, which cannot wait."""
    next_step = f"querytruth review {definition.name} --run RUN, then querytruth apply {definition.name}"
    if not flow_runner.is_deployed_run():
        reason = "is published, but only a deployed run can wait for people"
        raise UserError("ask people", definition.name, reason, next_step)
    question = f"**{definition.name}** waits for judgments.\n\nRun `{next_step.partition(',')[0]}`, judge, then resume."
    flow_runner.ask_person(flow_runner.JudgmentsGiven, f"judgments-{definition.name}", question)


def _continue_after_review(
    definition: GeneratedDefinition, stage_result: stages.StageResult, go_on: Callable[[ReviewTableOptions], Any]
) -> Any:
    """Return what `go_on` returns for the filled-in table. If the table cannot be used, people are asked again, with
    the reason; another UserError ends the run, because people cannot fix it in the table."""
    _show_stage(definition, stage_result)
    last_error = ""
    for attempt in count():
        question = _describe_question(stage_result, last_error)
        filled = flow_runner.ask_person(
            flow_runner.FilledTableForm, f"{stage_result.stage}-{definition.name}-{attempt}", question
        )
        try:
            return go_on(filled.to_filling())
        except UserError as error:
            if error.stage not in _TABLE_STAGES:
                raise
            last_error = str(error)
    raise AssertionError("people are asked until it can be read")


def _describe_question(stage_result: stages.StageResult, last_error: str) -> str:
    rows = ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in sorted(stage_result.rows.items()))
    lines = [
        f"**{stage_result.stage}** wait for people: {rows}.",
        f"Fill in `decision` in `{stage_result.file.absolute()}` and save the file.",
    ]
    return "\n\n".join([*lines, *([f"Not accepted yet: {last_error}"] if last_error else [])])


def _show_stage(definition: GeneratedDefinition, result: stages.StageResult) -> None:
    name = f"{definition.name}-{result.stage}"
    create_funnel_artifact(name, result.ledger.funnel())
    create_page_link(result.page, name, f"{result.stage} of {definition.name}")


@cache
def create_build_flow(kind: SetKind) -> Flow[Any, Any]:
    """Return the Prefect flow that builds sets of this kind; its one parameter is the kind's `parameters`."""

    def run_build(build: Any) -> State[Any]:
        def work(definition: Any) -> State[Any]:
            if isinstance(build, GeneratedBuild) and build.ask_people:
                ask_for_choices(definition, build.source)
            state = flow_runner.build_and_publish(kind, definition)
            if isinstance(build, QueriesBuild) and build.ask_people:
                ask_for_judgments(definition)
            return state

        return flow_runner.execute_build(build, work)

    run_build.__name__, run_build.__doc__ = kind.flow_name, kind.summary
    run_build.__annotations__ = {"build": kind.parameters, "return": State[Any]}
    name = kind.flow_name.replace("_", "-")
    return Flow(run_build, name=name, flow_run_name=flow_runner.name_flow_run, persist_result=False)
