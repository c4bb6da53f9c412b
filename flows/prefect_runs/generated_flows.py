"""The flows of a generated set: each stage by itself, and all of them with people in between."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from builders.errors import UserError
from flows.definitions import GeneratedDefinition
from flows.generation.collect_stage import CollectResult, collect_stage
from flows.generation.pool_review import Filling
from flows.prefect_runs.artifacts import show_funnel
from flows.prefect_runs.carrying_out import carried_out, published, run_name
from flows.prefect_runs.parameters import GeneratedBuild, GeneratedStage
from flows.prefect_runs.review_gates import FilledIn, ask, is_deployed
from flows.topics_and_objects import StageResult, chosen_objects, objects_stage, topics_stage


@flow(name="topics", flow_run_name=run_name, persist_result=False)
def topics(build: GeneratedStage) -> State[Any]:
    """Have a chat model think of topics, and hand out the table in which people choose."""
    return carried_out(build, lambda definition: _awaiting(definition, topics_stage(definition, _source(build))))


@flow(name="objects", flow_run_name=run_name, persist_result=False)
def objects(build: GeneratedStage) -> State[Any]:
    """Have the chat model think of things for the topics that people kept, and hand out the next table."""
    return carried_out(build, lambda definition: _awaiting(definition, objects_stage(definition, _source(build))))


@flow(name="collect", flow_run_name=run_name, persist_result=False)
def collect(build: GeneratedStage) -> State[Any]:
    """Collect pictures for the queries that people kept, and say what became of each."""
    return carried_out(build, lambda definition: _collected(definition, collect_stage(definition, _source(build))))


@flow(name="generated-set", flow_run_name=run_name, persist_result=False)
def generated_set(build: GeneratedBuild) -> State[Any]:
    """Collect pictures for the queries that people kept, and publish them; where they are to be asked, from the start:
    topics and objects, and after each of them the run waits."""
    if not build.ask_people:
        return carried_out(build, published)
    return carried_out(build, lambda definition: _with_people(definition, _source(build)))


def _with_people(definition: GeneratedDefinition, source: str) -> State[Any]:
    if not is_deployed():
        reason = "nobody can be asked: only a deployed run waits for people"
        raise UserError("ask people", definition.name, reason, f"querytruth topics {source}, then querytruth objects")
    found = topics_stage(definition, source)
    found = _after_people(definition, found, lambda filling: objects_stage(definition, source, filling))
    _after_people(definition, found, lambda filling: chosen_objects(definition, source, filling))
    return published(definition)


def _after_people(definition: GeneratedDefinition, waits: StageResult, go_on: Callable[[Filling], Any]) -> Any:
    """What `go_on` makes of the filled-in table; where that cannot be read, people are asked again, with the reason."""
    show_funnel(f"{definition.name}-{waits.stage}", waits.ledger.funnel())
    trouble = ""
    for attempt in count():
        filled = ask(FilledIn, f"{waits.stage}-{definition.name}-{attempt}", _about(waits, trouble))
        try:
            return go_on(filled.filling())
        except UserError as error:
            trouble = str(error)
    raise AssertionError("people are asked until it can be read")


def _about(waits: StageResult, trouble: str) -> str:
    rows = ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in sorted(waits.rows.items()))
    lines = [f"**{waits.stage}** wait for people: {rows}.", f"Fill in `decision` in `{waits.file.absolute()}`, save."]
    return "\n\n".join([*lines, *([f"Not yet: {trouble}"] if trouble else [])])


def _collected(definition: GeneratedDefinition, result: CollectResult) -> State[Any]:
    show_funnel(f"{definition.name}-collect", result.ledger.funnel())
    told = f"{result.fetches:,} fetches, {result.pending:,} queries pending; {result.file}, then: {result.command}"
    return Completed(name="Collected", message=told)


def _awaiting(definition: GeneratedDefinition, result: StageResult) -> State[Any]:
    show_funnel(f"{definition.name}-{result.stage}", result.ledger.funnel())
    return Completed(name="AwaitingReview", message=result.awaiting)


def _source(build: GeneratedStage) -> str:
    return build.label if isinstance(build.definition, GeneratedDefinition) else str(build.definition)
