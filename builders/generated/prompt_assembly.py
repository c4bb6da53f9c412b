"""Prompts of the generator: which samples a round shows, drawn by hash, and the text with them put in verbatim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from builders.generated.row_rules import same
from builders.records import stable_hash
from prompts import Prompt

MOST_TOPICS, MOST_OBJECTS = 50, 10  # samples of the first stage's prompt: topics, and objects of each
_THOUGHT = {"zh": "思考：{}\n答案：{}", "en": "Thought: {}\nAnswer: {}"}
_COMMA = {"zh": "，", "en": ", "}


@dataclass(frozen=True, slots=True)
class SampleSize:
    """How many objects a prompt shows, of people's and of the model's own, and how many new ones it asks for."""

    from_people: int = 7
    from_model: int = 3
    asked: int = 5


@dataclass(frozen=True, slots=True)
class Asking:
    """A question as it goes to the model, and the objects that it shows, as `same` has them."""

    text: str
    shown: frozenset[str]


def ask_for_topics(
    prompt: Prompt, form: Prompt, pools: Mapping[str, Sequence[str]], language: str, seed: int, number: int
) -> Asking:
    """The prompt of a round: up to 50 topics with up to 10 objects each, in an order that the round's hash gives.
    `form`: how one sample reads, with fields topic and objects; `pools`: objects by topic."""
    draw = (str(seed), "topics", str(number))
    samples = []
    shown: set[str] = set()
    for topic in drawn(pools, MOST_TOPICS, *draw):
        objects = drawn(pools[topic], MOST_OBJECTS, *draw, same(topic))
        shown |= {same(text) for text in objects}
        samples.append(form.fill(topic=topic, objects=_COMMA[language].join(f"#{text}#" for text in objects)))
    return Asking(prompt.fill(topic_samples="\n\n".join(samples)), frozenset(shown))


def ask_for_objects(
    prompt: Prompt,
    topic: str,
    of_people: Sequence[str],
    of_model: Sequence[str],
    size: SampleSize,
    seed: int,
    number: int,
) -> Asking:
    """The prompt of a round for one topic: objects that people chose and some that the model found, as one numbered
    list in an order that the round's hash gives."""
    draw = (str(seed), "objects", str(number), same(topic))
    chosen = drawn(of_people, size.from_people, *draw) + drawn(of_model, size.from_model, *draw)
    mixed = drawn(chosen, len(chosen), *draw, "order")
    listed = "\n".join(f"{place}. {text}" for place, text in enumerate(mixed, start=1))
    text = prompt.fill(topic=topic, object_samples=listed, count=str(size.asked))
    return Asking(text, frozenset(same(text) for text in chosen))


def ask_for_phrases(
    prompt: Prompt,
    form: Prompt,
    of_people: Mapping[str, str],
    of_model: Mapping[str, str],
    size: SampleSize,
    seed: int,
    number: int,
) -> Asking:
    """The prompt of a round that asks for thoughts and phrases. `form`: how an object that people chose reads, with
    fields topic and object; `of_people`: their topics by object; `of_model`: its own thoughts by phrase, which go
    back to it as it wrote them."""
    draw = (str(seed), "phrases", str(number))
    chosen = drawn(of_people, size.from_people, *draw) + drawn(of_model, size.from_model, *draw)
    samples = [
        form.fill(topic=of_people[text], object=text)
        if text in of_people
        else _THOUGHT[prompt.language].format(of_model[text], text)
        for text in drawn(chosen, len(chosen), *draw, "order")
    ]
    text = prompt.fill(object_samples="\n\n".join(samples), count=str(size.asked))
    return Asking(text, frozenset(same(text) for text in chosen))


def drawn(texts: Iterable[str], count: int, *by: str) -> list[str]:
    """So many of the texts, drawn and ordered by hash: whatever order they come in."""
    return sorted(texts, key=lambda text: (stable_hash(*by, same(text)), text))[:count]
