"""The second stage's rounds: more objects of every topic that people kept, each unlike all others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import prompts
from backends.chat import ChatModel
from backends.embedders import char_ngrams, sentence_transformer
from backends.replies.reply_store import ReplyStore
from builders.generated.generator_health import Watch
from builders.generated.novelty import MEANT_ALIKE, SPELLED_ALIKE, Novelty
from builders.generated.object_pools import ObjectPool, ObjectPools, Told
from builders.generated.pool_entries import Heard
from builders.generated.prompt_assembly import SampleSize, ask_for_objects, ask_for_phrases
from builders.generated.reply_grammar import Listed
from builders.generated.row_rules import RowRules
from builders.generated.strategies import ONE_POOL, STRATEGIES, Strategy
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

_NOTHING = Listed("", ())


@dataclass(frozen=True, slots=True)
class ObjectSetup:
    """All that the objects depend on. `form`: how people's objects read as samples, None: as lines of a list; `chosen`:
    people's objects by topic; `cut`: the similarity over which an object is none."""

    definition: GeneratedDefinition
    model: ChatModel
    prompt: Prompt
    form: Prompt | None
    rules: RowRules
    chosen: Mapping[str, Sequence[str]]
    embedder: Any
    cut: float

    @property
    def strategy(self) -> Strategy:
        """How the model is led to objects."""
        return STRATEGIES[self.definition.strategy]

    @property
    def prompts(self) -> list[Prompt]:
        """All that the questions are made of."""
        return [self.prompt] if self.form is None else [self.prompt, self.form]

    @property
    def pools(self) -> Mapping[str, Sequence[str]]:
        """People's objects by the topics that are asked about: one for all where the model is given none."""
        if not self.strategy.by_thought:
            return self.chosen
        together = [text for topic in sorted(self.chosen) for text in self.chosen[topic]]
        return {ONE_POOL[self.definition.language]: together}

    def settings(self) -> dict[str, Any]:
        """What a journal is good for: as soon as one of these changes, another is begun."""
        chosen = json.dumps({topic: sorted(texts) for topic, texts in self.chosen.items()}, sort_keys=True)
        return {
            "stage": "objects",
            "strategy": self.definition.strategy,
            "seed": self.definition.seed,
            "keys": self.definition.objects.model_dump(mode="json", exclude={"embedder", "prompt"}),
            "model": self.model.identity.described(),
            "prompts": [prompt.sha256 for prompt in self.prompts],
            "chosen": hashlib.sha256(chosen.encode()).hexdigest(),
            "novelty": [self.embedder.fingerprint, self.cut],
        }


@step("load embedder")
def set_up_objects(definition: GeneratedDefinition, chosen: Mapping[str, Sequence[str]]) -> ObjectSetup:
    """Prompt, rules, model and embedder; an embedder that does not know the language is refused."""
    wanted, strategy = definition.objects, STRATEGIES[definition.strategy]
    prompt = load_prompt(wanted.prompt or f"{definition.language}/{strategy.prompt}")
    form = prompts.load(f"{definition.language}/{strategy.prompt}_sample") if strategy.by_thought else None
    if wanted.embedder == "char_ngrams":
        embedder: Any = char_ngrams.load()
        own = SPELLED_ALIKE[definition.language]
    else:
        embedder, own = sentence_transformer.load(wanted.embedder), MEANT_ALIKE
        embedder.check_language([text for texts in chosen.values() for text in texts])
    cut = own if wanted.novelty is None else wanted.novelty
    rules = rules_for(prompt, form.text if form else "", wanted.longest)
    return ObjectSetup(definition, load_model(definition), prompt, form, rules, chosen, embedder, cut)


@step("find objects")
def find_objects(setup: ObjectSetup, store: ReplyStore) -> tuple[ObjectPools, Rounds]:
    """Ask about every topic until each has reached its limit of rounds or yields nothing more, or a budget is spent."""
    definition, wanted = setup.definition, setup.definition.objects
    pools = ObjectPools(setup.pools, Novelty(setup.embedder.encode_texts, setup.cut))
    most = len(pools.pools) * wanted.rounds
    with (
        kept_lines(definition, "objects", setup.settings()) as journal,
        current().reporter.bar("find objects", most, "rounds") as advance,
    ):
        watch = Watch(setup.pools, definition.language)
        rounds = Rounds(setup.model, journal, watch, wanted.max_tokens, definition.language)
        kept = kept_waves(journal)
        pools.replay(kept)
        for wave in kept:
            rounds.take(wave)
        advance(rounds.asked)
        while (going := pools.going_on(wanted.rounds, wanted.barren)) and not rounds.over_budget(
            wanted.calls, wanted.tokens
        ):
            left = len(going) if wanted.calls is None else wanted.calls - rounds.asked
            wave = _wave(setup, pools, going[:left], rounds, store)
            pools.add(wave)
            rounds.keep(wave, advance)
    return pools, rounds


def stops(pools: ObjectPools, rounds: Rounds, definition: GeneratedDefinition) -> dict[str, int]:
    """Topics by why they stopped."""
    wanted = definition.objects
    over = rounds.over_budget(wanted.calls, wanted.tokens)
    found = [pool.stopped(wanted.rounds, wanted.barren) or over for pool in pools.pools.values()]
    return {reason: found.count(reason) for reason in sorted(set(found))}


def _wave(
    setup: ObjectSetup, pools: ObjectPools, going: Sequence[ObjectPool], rounds: Rounds, store: ReplyStore
) -> list[Heard]:
    """A question about each topic that goes on, and what becomes of all their rows."""
    questions = [_question(setup, pool) for pool in going]
    answers = rounds.ask(store, questions)
    told = [
        Told(question.topic, listed_in(answer, setup.strategy.read, _NOTHING), question.asking.shown)
        for question, (_, answer) in zip(questions, answers, strict=True)
    ]
    judged = pools.judge(told, setup.rules)
    return [heard_of(q, key, answer, rows) for q, (key, answer), rows in zip(questions, answers, judged, strict=True)]


def _question(setup: ObjectSetup, pool: ObjectPool) -> Question:
    wanted, number = setup.definition.objects, pool.rounds + 1
    size = SampleSize(wanted.from_people, wanted.from_model, wanted.per_prompt)
    seed = setup.definition.seed
    if setup.form is None:
        asking = ask_for_objects(setup.prompt, pool.topic, pool.of_people, pool.of_model, size, seed, number)
    else:
        topics = {text: topic for topic in sorted(setup.chosen, reverse=True) for text in setup.chosen[topic]}
        of_people = {text: topics[text] for text in pool.of_people}
        asking = ask_for_phrases(setup.prompt, setup.form, of_people, pool.thoughts, size, seed, number)
    return Question(pool.topic, number, asking)
