"""The rounds of the first stage: from a person's samples to pools of topics with their objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import prompts
from builders.generated import generation_journal, reply_grammar, row_rules
from builders.generated.definition import GeneratedDefinition
from builders.generated.generation_rounds import (
    GenerationRounds,
    RoundQuestion,
    build_row_rules,
    build_wave_entry,
    load_chat_model,
    open_rounds,
    parse_reply,
)
from builders.generated.topic_pools import STRATEGIES, TopicPools, build_topic_prompt
from builders.generated.topic_samples import list_names, load_samples
from prompts import PromptTemplate
from querytruth.backends.models.chat import ChatModel
from querytruth.backends.models.reply_store import ReplyStore
from querytruth.backends.steps import step
from querytruth.questions import load_prompt


@dataclass(frozen=True, slots=True)
class TopicStage:
    """Everything that the topics depend on. `sample_template` formats a sample; `sha256` is that of the samples'
    file."""

    definition: GeneratedDefinition
    model: ChatModel
    prompt: PromptTemplate
    sample_template: PromptTemplate
    rules: row_rules.RowRules
    samples: Mapping[str, Sequence[str]]
    samples_sha256: str

    def settings(self) -> dict[str, Any]:
        """Returns the settings of the stage that its journal depends on."""
        return {
            "keys": self.definition.topics.model_dump(mode="json", exclude={"options", "samples", "model"}),
            "prompts": [self.prompt.sha256, self.sample_template.sha256],
            "samples": self.samples_sha256,
        }


@step("read topic samples")
def prepare_topic_stage(definition: GeneratedDefinition) -> TopicStage:
    """Prepares the samples (given, or shipped in the language), prompt, rules and model."""
    wanted = definition.topics
    samples, sha256 = load_samples(definition)
    prompt = load_prompt(wanted.prompt, definition.prompt_files, like=f"{definition.language}/topics")
    form = prompts.load_template(f"{definition.language}/topic_sample")
    rules = build_row_rules(prompt, form.text, wanted.max_length)
    return TopicStage(definition, load_chat_model(definition), prompt, form, rules, list_names(samples), sha256)


@step("find topics")
def find_topics(setup: TopicStage, store: ReplyStore) -> tuple[TopicPools, GenerationRounds, str]:
    """Asks for topics until the limit of rounds or a budget is reached; the text says which. A strategy whose topics
    come from people asks nothing."""
    definition = setup.definition
    pools = TopicPools(setup.samples)
    with open_rounds(
        definition, "topics", setup.model, setup.samples, definition.topics.rounds, setup.settings()
    ) as rounds:
        for wave in rounds.waves:
            for entry in wave:
                pools.add(entry)
        while not (stop := _stop_reason(rounds, definition)):
            rounds.store_wave(_wave(setup, pools, rounds, store))
    return pools, rounds, stop


def _stop_reason(rounds: GenerationRounds, definition: GeneratedDefinition) -> str:
    if not STRATEGIES[definition.strategy].proposes_topics:
        return "topics_of_people"
    return "round_limit" if rounds.question_count >= definition.topics.rounds else rounds.exhausted_budget


def _wave(
    setup: TopicStage, pools: TopicPools, rounds: GenerationRounds, store: ReplyStore
) -> list[generation_journal.ReplyRecord]:
    """Asks the next questions, all from one state of the pools, and judges their replies one after the other."""
    wanted, definition = setup.definition.topics, setup.definition
    limit = wanted.rounds if wanted.calls is None else min(wanted.rounds, wanted.calls)
    last = min(limit, rounds.question_count + wanted.parallel_questions)
    shown = {pool.name: list(pool.objects.values()) for pool in pools.pools.values()}
    questions = []
    for number in range(rounds.question_count + 1, last + 1):
        language, seed = definition.language, definition.seed
        prompt = build_topic_prompt(setup.prompt, setup.sample_template, shown, language, seed, number)
        questions.append(RoundQuestion("", number, prompt))
    wave = []
    for question, (key, answer) in zip(questions, rounds.ask(store, questions), strict=True):
        rows = pools.classify_rows(
            parse_reply(answer, reply_grammar.parse_topics, []), setup.rules, question.asking.shown_objects
        )
        entry = build_wave_entry(question, key, answer, rows)
        pools.add(entry)
        wave.append(entry)
    return wave
