"""Plans of the stages of a generated set: the questions that a run would still ask at most, and their cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from backends.chat import ChatModel
from builders.self_instruct.strategies import STRATEGIES
from flows.call_forecasts import forecast_calls, summarize_forecasts
from flows.definition_replies import open_definition_replies
from flows.definitions.generated import GeneratedDefinition, ObjectOptions, TopicOptions
from flows.generation.generation_rounds import read_journal
from flows.generation.object_rounds import prepare_object_stage
from flows.generation.topic_rounds import prepare_topic_stage
from flows.set_names import check_set_name


def plan_topics(definition: GeneratedDefinition) -> dict[str, Any]:
    """Returns the questions about topics that are still open by the journal, at most, and their cost. Asks and writes
    nothing."""
    check_set_name(definition)
    setup, wanted = prepare_topic_stage(definition), definition.topics
    questions = wanted.rounds if STRATEGIES[definition.strategy].proposes_topics else 0
    return _plan(definition, "topics", setup.model, setup.settings(), wanted, questions, wanted.parallel_questions)


def plan_objects(definition: GeneratedDefinition, chosen: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Returns the same for objects of the topics that people kept; a topic without new objects ends before its
    `rounds`."""
    check_set_name(definition)
    setup = prepare_object_stage(definition, chosen)
    topics, wanted = len(setup.initial_pools), definition.objects
    return _plan(definition, "objects", setup.model, setup.settings(), wanted, topics * wanted.rounds, topics)


def _plan(
    definition: GeneratedDefinition,
    stage: str,
    model: ChatModel,
    settings: dict[str, Any],
    wanted: TopicOptions | ObjectOptions,
    questions: int,
    wave_size: int,
) -> dict[str, Any]:
    asked, tokens = 0, 0
    for wave in read_journal(definition, stage, model, settings):
        asked, tokens = asked + len(wave), tokens + sum(entry.tokens for entry in wave)
    limit = questions if wanted.calls is None else min(questions, wanted.calls)
    is_spent = wanted.tokens is not None and tokens >= wanted.tokens
    calls = 0 if is_spent or model.is_recorded else max(0, limit - asked)
    price = definition.topics.price
    with open_definition_replies(definition) as store:
        forecast = forecast_calls(store, model, stage, calls, price=price, at_most_at_once=wave_size)
    budget = definition.budget and definition.budget.model_dump(exclude_none=True)
    return {"stage": stage, "asked": asked, "model_calls": calls, **summarize_forecasts([forecast]), "budget": budget}
