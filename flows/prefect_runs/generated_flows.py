"""The flows of the stages of a generated set, and the reviews that a whole build waits for after the first two."""

from collections.abc import Callable
from itertools import count
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from backends.sets.review_csv import REVIEW_CSV_STAGE
from builders.errors import UserError
from flows.definitions import GeneratedDefinition
from flows.generation.collect_stage import run_collect_stage
from flows.generation.pool_review import ReviewTableOptions
from flows.prefect_runs.build_artifacts import create_funnel_artifact, create_page_link
from flows.prefect_runs.build_parameters import GeneratedStage
from flows.prefect_runs.flow_runner import build_run_name, execute_build
from flows.prefect_runs.review_gates import FilledTableForm, ask_person, is_deployed_run
from flows.topics_and_objects import CHOICE_STAGE, StageResult, load_chosen_objects, run_objects_stage, run_topics_stage

_TABLE_STAGES = (REVIEW_CSV_STAGE, CHOICE_STAGE)  # of errors that are in the table


@flow(name="topics", flow_run_name=build_run_name, persist_result=False)
def topics(build: GeneratedStage) -> State[Any]:
    """Find topics with a chat model, and write the table in which people choose."""
    return _run_stage(build, run_topics_stage)


@flow(name="objects", flow_run_name=build_run_name, persist_result=False)
def objects(build: GeneratedStage) -> State[Any]:
    """Find objects of the topics that people kept, and write the next table."""
    return _run_stage(build, run_objects_stage)


@flow(name="collect", flow_run_name=build_run_name, persist_result=False)
def collect(build: GeneratedStage) -> State[Any]:
    """Collect images for the queries that people kept."""

    def work(definition: GeneratedDefinition) -> State[Any]:
        result = run_collect_stage(definition, build.source)
        create_funnel_artifact(f"{definition.name}-collect", result.ledger.funnel())
        counts = f"{result.fetches:,} fetches, {result.pending:,} queries pending"
        return Completed(name="Collected", message=f"{counts}; {result.file}, then: {result.command}")

    return execute_build(build, work)


def _run_stage(build: GeneratedStage, run_stage: Callable[[GeneratedDefinition, str], StageResult]) -> State[Any]:
    def work(definition: GeneratedDefinition) -> State[Any]:
        result = run_stage(definition, build.source)
        _show_stage(definition, result)
        return Completed(name="AwaitingReview", message=result.next_step_text)

    return execute_build(build, work)


def ask_for_choices(definition: GeneratedDefinition, source: str) -> None:
    """Find topics and objects; suspend the run after each until people have filled in its table. Raises UserError in a
    run without a deployment, which cannot wait."""
    if not is_deployed_run():
        reason = "nobody can be asked: only a deployed run waits for people"
        raise UserError("ask people", definition.name, reason, f"querytruth topics {source}, then querytruth objects")
    found = run_topics_stage(definition, source)
    found = _continue_after_review(definition, found, lambda filling: run_objects_stage(definition, source, filling))
    _continue_after_review(definition, found, lambda filling: load_chosen_objects(definition, source, filling))


def _continue_after_review(
    definition: GeneratedDefinition, stage_result: StageResult, go_on: Callable[[ReviewTableOptions], Any]
) -> Any:
    """What `go_on` returns for the filled-in table. Where the table cannot be used, people are asked again, with the
    reason; another UserError ends the run: people cannot fix it in the table."""
    _show_stage(definition, stage_result)
    last_error = ""
    for attempt in count():
        question = _describe_question(stage_result, last_error)
        filled = ask_person(FilledTableForm, f"{stage_result.stage}-{definition.name}-{attempt}", question)
        try:
            return go_on(filled.to_filling())
        except UserError as error:
            if error.stage not in _TABLE_STAGES:
                raise
            last_error = str(error)
    raise AssertionError("people are asked until it can be read")


def _describe_question(stage_result: StageResult, last_error: str) -> str:
    rows = ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in sorted(stage_result.rows.items()))
    lines = [
        f"**{stage_result.stage}** wait for people: {rows}.",
        f"Fill in `decision` in `{stage_result.file.absolute()}`, save.",
    ]
    return "\n\n".join([*lines, *([f"Not yet: {last_error}"] if last_error else [])])


def _show_stage(definition: GeneratedDefinition, result: StageResult) -> None:
    name = f"{definition.name}-{result.stage}"
    create_funnel_artifact(name, result.ledger.funnel())
    create_page_link(result.page, name, f"{result.stage} of {definition.name}")
