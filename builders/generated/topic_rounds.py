"""The rounds of the first stage: from samples that a person wrote to pools of topics with their objects.

Samples are YAML with a list of objects per topic. An object may be described as in the seed article, its parts divided
by a semicolon. `by_topic` shows the model what a thing is and how it looks (鲨鱼；是鲨总目动物的通称；通常是灰色),
`visual_elements` the two elements of a phrase (长毛的猫；猫；长毛).
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

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
from builders.generated.row_rules import normalize_text
from builders.generated.topic_pools import STRATEGIES, TopicPools, build_topic_prompt
from prompts import PromptTemplate
from querytruth.backends.files.safe_paths import open_regular
from querytruth.backends.files.text_formats import describe_yaml_error, load_yaml
from querytruth.backends.models.chat import ChatModel
from querytruth.backends.models.reply_store import ReplyStore
from querytruth.backends.steps import step
from querytruth.errors import UserError, translate_read_errors
from querytruth.questions import load_prompt

_SAMPLES_STAGE = "read topic samples"
_MAX_BYTES = 1 << 20  # of a file of samples


@dataclass(frozen=True, slots=True)
class TopicStage:
    """The parameters of the topic stage. `sample_template` formats a sample; `sha256`: digest of the samples' file."""

    definition: GeneratedDefinition
    model: ChatModel
    prompt: PromptTemplate
    sample_template: PromptTemplate
    rules: row_rules.RowRules
    samples: Mapping[str, Sequence[str]]
    samples_sha256: str

    def settings(self) -> dict[str, Any]:
        """Return the settings of the stage that its journal depends on."""
        return {
            "keys": self.definition.topics.model_dump(mode="json", exclude={"options", "samples", "model"}),
            "prompts": [self.prompt.sha256, self.sample_template.sha256],
            "samples": self.samples_sha256,
        }


@step("read topic samples")
def prepare_topic_stage(definition: GeneratedDefinition) -> TopicStage:
    """Prepare the samples (given, or shipped in the language), prompt, rules and model."""
    wanted = definition.topics
    samples, sha256 = load_samples(definition)
    prompt = load_prompt(wanted.prompt, definition.prompt_files, like=f"{definition.language}/topics")
    form = prompts.load_template(f"{definition.language}/topic_sample")
    rules = build_row_rules(prompt, form.text, wanted.max_length)
    return TopicStage(definition, load_chat_model(definition), prompt, form, rules, list_names(samples), sha256)


@step("find topics")
def find_topics(setup: TopicStage, store: ReplyStore) -> tuple[TopicPools, GenerationRounds, str]:
    """Ask for topics until the limit of rounds or a budget is reached; the returned text names it. A strategy whose
    topics come from people asks nothing."""
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
    """Ask the next questions, all from one state of the pools, and judge their replies one after the other."""
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


def read_topic_samples(path: Path) -> tuple[dict[str, list[str]], str]:
    """Read the samples of a file verbatim, and the sha256 of its bytes. Raises UserError."""
    with translate_read_errors(_SAMPLES_STAGE, path, "fix topics.samples"):
        with open_regular(path) as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise UserError(
                _SAMPLES_STAGE, path, "is larger than one megabyte", "give a few topics with a few objects each"
            )
        return parse_topic_samples(data.decode("utf-8-sig"), path), hashlib.sha256(data).hexdigest()


def parse_topic_samples(text: str, source: object) -> dict[str, list[str]]:
    """Return objects by topic. Raises UserError for repeated topics and for objects that are not a list of texts."""
    try:
        data = load_yaml(text)
    except yaml.YAMLError as error:
        raise describe_yaml_error(_SAMPLES_STAGE, source, error) from None
    if not isinstance(data, dict) or not data:
        raise UserError(_SAMPLES_STAGE, source, "contains no topics", "write lines such as “食物: [饺子, 汉堡]”")
    for topic, objects in data.items():
        if not isinstance(topic, str) or not isinstance(objects, list) or not objects:
            raise UserError(_SAMPLES_STAGE, f"{source}: {topic}", "must be a topic with a list of objects", "fix it")
        for text in objects:
            if not isinstance(text, str) or not text.strip():
                raise UserError(_SAMPLES_STAGE, f"{source}: {topic}", f"{text!r} is not text", "put it in quotes")
    return {topic.strip(): [text.strip() for text in objects] for topic, objects in data.items()}


def load_samples(definition: GeneratedDefinition) -> tuple[dict[str, list[str]], str]:
    """Return people's samples by topic, verbatim, and their digest: the definition's, or the shipped ones of the
    language and the strategy. Raises UserError."""
    if definition.topics.samples is not None:
        return read_topic_samples(Path(definition.topics.samples))
    name = "topic_samples" if STRATEGIES[definition.strategy].proposes_topics else "described_samples"
    shipped = prompts.load_template(f"{definition.language}/{name}.yaml")
    return parse_topic_samples(shipped.text, shipped.name), shipped.sha256


def list_names(samples: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the objects by topic, without what a sample says of them."""
    return {topic: [_split(text)[0] for text in objects] for topic, objects in samples.items()}


def list_notes(samples: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return what samples say of their objects, by `normalize_text` of the object: the last two parts of the article's
    form 鲨鱼；是鲨总目动物的通称；通常是灰色."""
    split = (_split(text) for objects in samples.values() for text in objects)
    return {normalize_text(name): notes for name, notes in split if notes}


def is_made_of(name: str, notes: Sequence[str]) -> bool:
    """Return whether the notes are the two visual elements of a phrase: 猫 and 长毛 of 长毛的猫."""
    return len(notes) == 2 and all(normalize_text(note) in normalize_text(name) for note in notes)


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    name, *notes = (part.strip() for part in re.split("[；;]", text))
    return (name, tuple(note for note in notes if note)) if name else (text.strip(), ())
