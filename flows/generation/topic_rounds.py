"""The first stage's rounds: from a person's samples to pools of topics with their objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prompts
from backends.chat import ChatModel
from backends.replies.reply_store import ReplyStore
from backends.sources.topic_samples import parse_samples, read_samples
from builders.generated.generator_health import Watch
from builders.generated.pool_entries import Heard
from builders.generated.prompt_assembly import ask_for_topics
from builders.generated.reply_grammar import read_topics
from builders.generated.row_rules import RowRules
from builders.generated.strategies import STRATEGIES
from builders.generated.topic_pools import TopicPools
from flows.captions.captioning import load_prompt
from flows.definitions.generated import GeneratedDefinition
from flows.generation.generation_rounds import (
    Question,
    Rounds,
    heard_of,
    kept_lines,
    kept_waves,
    listed_in,
    load_model,
    rules_for,
)
from flows.steps import current, step
from prompts import Prompt


@dataclass(frozen=True, slots=True)
class TopicSetup:
    """All that the topics depend on. `form`: how a sample reads; `sha256`: of the samples' file."""

    definition: GeneratedDefinition
    model: ChatModel
    prompt: Prompt
    form: Prompt
    rules: RowRules
    samples: Mapping[str, Sequence[str]]
    sha256: str

    def settings(self) -> dict[str, Any]:
        """What a journal is good for: as soon as one of these changes, another is begun."""
        return {
            "stage": "topics",
            "strategy": self.definition.strategy,
            "seed": self.definition.seed,
            "keys": self.definition.topics.model_dump(mode="json", exclude={"options", "samples", "model"}),
            "model": self.model.identity.described(),
            "prompts": [self.prompt.sha256, self.form.sha256],
            "samples": self.sha256,
        }


@step("read topic samples")
def set_up_topics(definition: GeneratedDefinition) -> TopicSetup:
    """The person's samples, or the shipped ones of the language; prompt, rules and model."""
    wanted = definition.topics
    if wanted.samples is not None:
        samples, sha256 = read_samples(Path(wanted.samples))
    else:
        shipped = prompts.load(f"{definition.language}/topic_samples.yaml")
        samples, sha256 = parse_samples(shipped.text, shipped.name), shipped.sha256
    prompt, form = load_prompt(wanted.prompt), prompts.load(f"{definition.language}/topic_sample")
    rules = rules_for(prompt, form.text, wanted.longest)
    return TopicSetup(definition, load_model(definition), prompt, form, rules, samples, sha256)


@step("find topics")
def find_topics(setup: TopicSetup, store: ReplyStore) -> tuple[TopicPools, Rounds, str]:
    """Ask for topics until the limit of rounds or a budget is reached; and which of these it was. A strategy that has
    people name the topics asks nothing."""
    definition, wanted = setup.definition, setup.definition.topics
    pools = TopicPools(setup.samples)
    with (
        kept_lines(definition, "topics", setup.settings()) as journal,
        current().reporter.bar("find topics", wanted.rounds, "rounds") as advance,
    ):
        watch = Watch(setup.samples, definition.language)
        rounds = Rounds(setup.model, journal, watch, wanted.max_tokens, definition.language)
        for wave in kept_waves(journal):
            rounds.take(wave)
            for heard in wave:
                pools.add(heard)
        advance(rounds.asked)
        while not (stop := _stop(rounds, definition)):
            rounds.keep(_wave(setup, pools, rounds, store), advance)
    return pools, rounds, stop


def _stop(rounds: Rounds, definition: GeneratedDefinition) -> str:
    wanted = definition.topics
    if not STRATEGIES[definition.strategy].finds_topics:
        return "topics_of_people"
    over = "round_limit" if rounds.asked >= wanted.rounds else ""
    return over or rounds.over_budget(wanted.calls, wanted.tokens)


def _wave(setup: TopicSetup, pools: TopicPools, rounds: Rounds, store: ReplyStore) -> list[Heard]:
    """The next questions, all of one state of the pools, and their replies taken in one after the other."""
    wanted, definition = setup.definition.topics, setup.definition
    last = min(wanted.rounds, rounds.asked + wanted.at_once, wanted.rounds if wanted.calls is None else wanted.calls)
    shown = {pool.name: list(pool.objects.values()) for pool in pools.pools.values()}
    questions = [
        Question("", n, ask_for_topics(setup.prompt, setup.form, shown, definition.language, definition.seed, n))
        for n in range(rounds.asked + 1, last + 1)
    ]
    wave = []
    for question, (key, answer) in zip(questions, rounds.ask(store, questions), strict=True):
        rows = pools.judge(listed_in(answer, read_topics, []), setup.rules, question.asking.shown)
        heard = heard_of(question, key, answer, rows)
        pools.add(heard)
        wave.append(heard)
    return wave
