"""The rounds of the first stage: from a person's samples to pools of topics with their objects.

Topic samples that a person wrote: YAML with a list of objects per topic.
"""

import hashlib
from collections.abc import Hashable, Mapping, Sequence
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
from builders.generated.topic_pools import STRATEGIES, TopicPools, build_topic_prompt
from prompts import PromptTemplate
from querytruth.backends.files.safe_paths import open_regular
from querytruth.backends.files.text_formats import load_yaml
from querytruth.backends.models.chat import ChatModel
from querytruth.backends.models.reply_store import ReplyStore
from querytruth.backends.steps import step
from querytruth.errors import UserError, translate_read_errors
from querytruth.questions import load_prompt

_STAGE = "read topic samples"
_LIMIT = 1 << 20  # bytes


def read_topic_samples(path: Path) -> tuple[dict[str, list[str]], str]:
    """Reads the samples of a file, and the sha256 of its bytes. Raises UserError."""
    with translate_read_errors(_STAGE, path, "fix topics.samples"):
        with open_regular(path) as file:
            data = file.read(_LIMIT + 1)
        if len(data) > _LIMIT:
            raise UserError(_STAGE, path, "has more than a megabyte", "give a few topics with a few objects each")
        return parse_topic_samples(data.decode("utf-8-sig"), path), hashlib.sha256(data).hexdigest()


def parse_topic_samples(text: str, source: object) -> dict[str, list[str]]:
    """Returns objects by topic. Raises UserError for repeated topics and for what is no list of texts."""
    try:
        data = load_yaml(text, _UniqueKeyLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source} line {mark.line + 1}" if mark else source
        raise UserError(_STAGE, where, f"is no YAML ({getattr(error, 'problem', error)})", "fix the line") from None
    if not isinstance(data, dict) or not data:
        raise UserError(_STAGE, source, "holds no topics", "write lines such as “食物: [饺子, 汉堡]”")
    for topic, objects in data.items():
        if not isinstance(topic, str) or not isinstance(objects, list) or not objects:
            raise UserError(_STAGE, f"{source}: {topic}", "is no topic with a list of objects", "fix that line")
        for text in objects:
            if not isinstance(text, str) or not text.strip():
                raise UserError(_STAGE, f"{source}: {topic}", f"{text!r} is no text", "put it in quotes")
    return {topic.strip(): [_find_name(text) for text in objects] for topic, objects in data.items()}


def _find_name(text: str) -> str:
    """Returns the name in a sample of the article's form: 鲨鱼 of 鲨鱼；是鲨总目动物的通称；通常是灰色."""
    name = text.partition("；")[0].strip()
    return name or text.strip()


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses repeated keys, of which YAML would silently drop one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise yaml.constructor.ConstructorError(None, None, f"{twice} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


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
    if wanted.samples is not None:
        samples, sha256 = read_topic_samples(Path(wanted.samples))
    else:
        shipped = prompts.load_template(f"{definition.language}/topic_samples.yaml")
        samples, sha256 = parse_topic_samples(shipped.text, shipped.name), shipped.sha256
    prompt = load_prompt(wanted.prompt, definition.prompt_files, like=f"{definition.language}/topics")
    form = prompts.load_template(f"{definition.language}/topic_sample")
    rules = build_row_rules(prompt, form.text, wanted.max_length)
    return TopicStage(definition, load_chat_model(definition), prompt, form, rules, samples, sha256)


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
