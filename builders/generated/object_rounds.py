"""The rounds of the second stage: more objects for every topic that people accepted, each different from all others."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import prompts
from builders.generated import generation_journal, object_pools, reply_grammar, row_rules, topic_pools
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
from builders.generated.topic_rounds import is_made_of, list_notes, load_samples
from prompts import PromptTemplate
from querytruth.backends.models.chat import ChatModel
from querytruth.backends.models.embedders import TextEmbedder, load_text_embedder
from querytruth.backends.models.reply_store import ReplyStore
from querytruth.backends.steps import step
from querytruth.questions import load_prompt
from querytruth.sets.image_vectors import CosineBackground, check_cosine_cut, measure_cosine_background

_MARKS = {"zh": "；", "en": "; "}  # between what a thing is called, what it is and how it looks
_NOTHING = reply_grammar.ParsedAnswer("", ())


@dataclass(frozen=True, slots=True)
class ObjectStage:
    """The parameters of the object stage. `sample_templates` format people's objects as samples, of one and of two
    visual elements (none: as lines of a list); `human_objects` are people's objects by topic, `notes` what samples say
    of them; an object above `similarity_threshold` to another is not new."""

    definition: GeneratedDefinition
    model: ChatModel
    prompt: PromptTemplate
    sample_templates: tuple[PromptTemplate, ...]
    rules: row_rules.RowRules
    human_objects: Mapping[str, Sequence[str]]
    embedder: TextEmbedder
    similarity_threshold: float
    background: CosineBackground | None
    notes: Mapping[str, tuple[str, ...]]

    @property
    def strategy(self) -> topic_pools.GenerationStrategy:
        """Return the strategy by which the model generates objects."""
        return topic_pools.STRATEGIES[self.definition.strategy]

    @property
    def prompts(self) -> list[PromptTemplate]:
        """Return all templates that the questions are made of."""
        return [self.prompt, *self.sample_templates]

    @property
    def initial_pools(self) -> Mapping[str, Sequence[str]]:
        """Return people's objects by the topics that are asked about; one pool for all where the model is given no
        topic."""
        if not self.strategy.asks_for_thoughts:
            return self.human_objects
        together = [text for topic in sorted(self.human_objects) for text in self.human_objects[topic]]
        return {topic_pools.SINGLE_POOL_TOPIC[self.definition.language]: together}

    def settings(self) -> dict[str, Any]:
        """Return the settings of the stage that its journal depends on."""
        chosen = json.dumps({topic: sorted(texts) for topic, texts in self.human_objects.items()}, sort_keys=True)
        return {
            **({"notes": self.notes} if self.notes else {}),
            "keys": self.definition.objects.model_dump(mode="json", exclude={"embedder", "prompt"}),
            "prompts": [prompt.sha256 for prompt in self.prompts],
            "chosen": hashlib.sha256(chosen.encode()).hexdigest(),
            "novelty": [self.embedder.fingerprint, self.similarity_threshold],
        }


@step("load embedder")
def prepare_object_stage(definition: GeneratedDefinition, human_objects: Mapping[str, Sequence[str]]) -> ObjectStage:
    """Prepare prompt, rules, model and embedder. Raises UserError for an embedder that does not cover the language."""
    wanted, strategy = definition.objects, topic_pools.STRATEGIES[definition.strategy]
    strategy_prompt = f"{definition.language}/{strategy.prompt_name}"
    prompt = load_prompt(wanted.prompt or strategy_prompt, definition.prompt_files, like=strategy_prompt)
    forms: tuple[PromptTemplate, ...] = ()
    if strategy.asks_for_thoughts:
        names = (f"{definition.language}/{strategy.prompt_name}_{number}" for number in ("sample", "pair"))
        forms = tuple(map(prompts.load_template, names))
    notes = {} if strategy.proposes_topics else list_notes(load_samples(definition)[0])
    embedder = load_text_embedder(wanted.embedder)
    embedder.check_language([text for texts in human_objects.values() for text in texts])
    threshold, background = choose_novelty_threshold(definition, embedder, human_objects)
    shortest = strategy.min_characters.get(definition.language, 1)
    rules = build_row_rules(prompt, "\n".join(form.text for form in forms), wanted.max_length, shortest)
    model = load_chat_model(definition)
    return ObjectStage(definition, model, prompt, forms, rules, human_objects, embedder, threshold, background, notes)


def choose_novelty_threshold(
    definition: GeneratedDefinition, embedder: TextEmbedder, human_objects: Mapping[str, Sequence[str]]
) -> tuple[float, CosineBackground | None]:
    """Return the similarity from which an object is not new, and the background of people's objects. The article's is
    for its own model; that of another model is derived from the background. Raises UserError for one among random
    pairs, before the chat model is asked."""
    texts = sorted({text for objects in human_objects.values() for text in objects})
    background = measure_cosine_background(embedder.encode_texts(texts))
    threshold = definition.objects.novelty
    if threshold is None and embedder.compares_spelling:
        return object_pools.SPELLING_THRESHOLDS[definition.language], background
    if threshold is None:
        threshold = object_pools.SEMANTIC_THRESHOLD
        if background is not None and embedder.name != object_pools.SEMANTIC_THRESHOLD_MODEL:
            threshold = background.derive_cut()
    check_cosine_cut("load embedder", "objects.novelty", threshold, background, embedder.name)
    return threshold, background


@step("find objects")
def find_objects(setup: ObjectStage, store: ReplyStore) -> tuple[object_pools.ObjectPools, GenerationRounds]:
    """Ask about every topic until it reaches its limit of rounds, yields nothing new, or a budget is spent."""
    definition, wanted = setup.definition, setup.definition.objects
    pools = object_pools.ObjectPools(
        setup.initial_pools, object_pools.NoveltyFilter(setup.embedder.encode_texts, setup.similarity_threshold)
    )
    max_rounds = len(pools.pools) * wanted.rounds
    with open_rounds(definition, "objects", setup.model, setup.initial_pools, max_rounds, setup.settings()) as rounds:
        pools.replay(rounds.waves)
        while (active_pools := pools.active_pools(wanted.rounds, wanted.barren)) and not rounds.exhausted_budget:
            left = len(active_pools) if wanted.calls is None else wanted.calls - rounds.question_count
            wave = _wave(setup, pools, active_pools[:left], rounds, store)
            pools.add(wave)
            rounds.store_wave(wave)
    return pools, rounds


def count_stop_reasons(
    pools: object_pools.ObjectPools, rounds: GenerationRounds, definition: GeneratedDefinition
) -> dict[str, int]:
    """Count topics by why they stopped."""
    wanted = definition.objects
    stop_reasons = (pool.stop_reason(wanted.rounds, wanted.barren) for pool in pools.pools.values())
    reasons = [reason or rounds.exhausted_budget for reason in stop_reasons]
    return {reason: reasons.count(reason) for reason in sorted(set(reasons))}


def _wave(
    setup: ObjectStage,
    pools: object_pools.ObjectPools,
    active_pools: Sequence[object_pools.ObjectPool],
    rounds: GenerationRounds,
    store: ReplyStore,
) -> list[generation_journal.ReplyRecord]:
    """Ask one question about each topic that continues, and judge all their rows."""
    questions = [_question(setup, pool) for pool in active_pools]
    answers = rounds.ask(store, questions)
    topic_replies = []
    for question, (_, answer) in zip(questions, answers, strict=True):
        parsed = parse_reply(answer, setup.strategy.parse_reply, _NOTHING)
        topic_replies.append(object_pools.ParsedReply(question.topic, parsed, question.asking.shown_objects))
    judged = zip(questions, answers, pools.classify_rows(topic_replies, setup.rules), strict=True)
    return [build_wave_entry(question, key, answer, rows) for question, (key, answer), rows in judged]


def _question(setup: ObjectStage, pool: object_pools.ObjectPool) -> RoundQuestion:
    wanted, number = setup.definition.objects, pool.rounds + 1
    seed = setup.definition.seed
    if not setup.strategy.asks_for_thoughts:
        mark = _MARKS[setup.definition.language]
        described = {text: f"{mark}{note}" for text, note in pool.thoughts.items()}
        described |= {text: "".join(mark + note for note in _describing(setup, text)) for text in pool.human_objects}
        asking = topic_pools.build_object_prompt(
            setup.prompt, pool.topic, pool.human_objects, pool.model_objects, wanted, seed, number, described
        )
    else:
        topics = {
            text: topic for topic in sorted(setup.human_objects, reverse=True) for text in setup.human_objects[topic]
        }
        of_people = {text: _thought_sample(setup, topics[text], text) for text in pool.human_objects}
        asking = topic_pools.build_phrase_prompt(setup.prompt, of_people, pool.thoughts, wanted, seed, number)
    return RoundQuestion(pool.topic, number, asking)


def _describing(setup: ObjectStage, text: str) -> tuple[str, ...]:
    """Return the description that people's sample gives of an object; empty for a phrase with its two elements."""
    notes = setup.notes.get(row_rules.normalize_text(text), ())
    return () if is_made_of(text, notes) else notes


def _thought_sample(setup: ObjectStage, topic: str, text: str) -> str:
    """Return how an object of people's reads with the thought before it, of one visual element or of two."""
    single, pair = setup.sample_templates
    notes = setup.notes.get(row_rules.normalize_text(text), ())
    if not is_made_of(text, notes):
        return single.fill(topic=topic, object=text)
    return pair.fill(topic=topic, object=text, first=notes[0], second=notes[1])
