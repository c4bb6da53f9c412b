"""Prompts of the generator: which samples a round shows, drawn by hash, and the text with them put in verbatim."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from builders.records import stable_hash
from builders.self_instruct.row_rules import normalize_text
from prompts import PromptTemplate

MAX_TOPICS, MAX_OBJECTS_PER_TOPIC = 50, 10  # samples of the first stage's prompt: topics, and objects of each
_THOUGHT = {"zh": "思考：{}\n答案：{}", "en": "Thought: {}\nAnswer: {}"}
_COMMA = {"zh": "，", "en": ", "}


@dataclass(frozen=True, slots=True)
class SampleSize:
    """How many objects a prompt shows, of people's and of the model's own, and how many new ones it asks for."""

    from_human: int = 7
    from_model: int = 3
    requested: int = 5


@dataclass(frozen=True, slots=True)
class SampledPrompt:
    """A question as it goes to the model, and the objects that it shows, as `same` has them."""

    text: str
    shown_objects: frozenset[str]


def build_topic_prompt(
    prompt: PromptTemplate,
    sample_template: PromptTemplate,
    pools: Mapping[str, Sequence[str]],
    language: str,
    seed: int,
    number: int,
) -> SampledPrompt:
    """The prompt of a round: up to 50 topics with up to 10 objects each, in an order that the round's hash gives.
    `sample_template`: how one sample reads, with fields topic and objects; `pools`: objects by topic."""
    hash_key = (str(seed), "topics", str(number))
    samples = []
    shown: set[str] = set()
    for topic in sample_by_hash(pools, MAX_TOPICS, *hash_key):
        objects = sample_by_hash(pools[topic], MAX_OBJECTS_PER_TOPIC, *hash_key, normalize_text(topic))
        shown |= {normalize_text(text) for text in objects}
        samples.append(
            sample_template.fill(topic=topic, objects=_COMMA[language].join(f"#{text}#" for text in objects))
        )
    return SampledPrompt(prompt.fill(topic_samples="\n\n".join(samples)), frozenset(shown))


def build_object_prompt(
    prompt: PromptTemplate,
    topic: str,
    human_objects: Sequence[str],
    model_objects: Sequence[str],
    size: SampleSize,
    seed: int,
    number: int,
) -> SampledPrompt:
    """The prompt of a round for one topic: objects that people chose and some that the model found, as one numbered
    list in an order that the round's hash gives."""
    hash_key = (str(seed), "objects", str(number), normalize_text(topic))
    chosen = sample_by_hash(human_objects, size.from_human, *hash_key) + sample_by_hash(
        model_objects, size.from_model, *hash_key
    )
    mixed = sample_by_hash(chosen, len(chosen), *hash_key, "order")
    listed = "\n".join(f"{place}. {text}" for place, text in enumerate(mixed, start=1))
    text = prompt.fill(topic=topic, object_samples=listed, count=str(size.requested))
    return SampledPrompt(text, frozenset(normalize_text(text) for text in chosen))


def build_phrase_prompt(
    prompt: PromptTemplate,
    sample_template: PromptTemplate,
    human_topics: Mapping[str, str],
    model_thoughts: Mapping[str, str],
    size: SampleSize,
    seed: int,
    number: int,
) -> SampledPrompt:
    """The prompt of a round that asks for thoughts and phrases. `sample_template`: how an object that people chose
    reads, with fields topic and object; `human_topics`: their topics by object; `model_thoughts`: its own thoughts by
    phrase, which go back to it as it wrote them."""
    hash_key = (str(seed), "phrases", str(number))
    chosen = sample_by_hash(human_topics, size.from_human, *hash_key) + sample_by_hash(
        model_thoughts, size.from_model, *hash_key
    )
    samples = [
        sample_template.fill(topic=human_topics[text], object=text)
        if text in human_topics
        else _THOUGHT[prompt.language].format(model_thoughts[text], text)
        for text in sample_by_hash(chosen, len(chosen), *hash_key, "order")
    ]
    text = prompt.fill(object_samples="\n\n".join(samples), count=str(size.requested))
    return SampledPrompt(text, frozenset(normalize_text(text) for text in chosen))


def sample_by_hash(texts: Iterable[str], count: int, *hash_key: str) -> list[str]:
    """So many of the texts, drawn and ordered by hash: whatever order they come in."""
    return sorted(texts, key=lambda text: (stable_hash(*hash_key, normalize_text(text)), text))[:count]
