"""The first stage's state and prompts: pools of objects, one per topic, and which samples of them a round shows.

The state is a fold over the replies in order, so that a journal gives the same state as the live run. Samples are drawn
by hash and put into the prompt verbatim, in the way of the strategy (those that the seed article tried).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from builders.generated.definition import ObjectOptions
from builders.generated.generation_journal import ReplyRecord, ReplyRow
from builders.generated.reply_grammar import ParsedAnswer, parse_described_objects, parse_objects, parse_phrase_reply
from builders.generated.row_rules import RowRules, normalize_text
from prompts import PromptTemplate
from querytruth.records import stable_hash

MAX_TOPICS, MAX_OBJECTS_PER_TOPIC = 50, 10  # samples of the first stage's prompt: topics, and objects of each
_THOUGHT = {"zh": "思考：{}\n答案：{}", "en": "Thought: {}\nAnswer: {}"}
_COMMA = {"zh": "，", "en": ", "}


@dataclass(frozen=True, slots=True)
class GenerationStrategy:
    """`proposes_topics`: the model proposes topics first, else people's samples name them; `asks_for_thoughts`: it is
    given no topic, and thinks of what is to be seen before each phrase; `prompt_name`: the second stage's, without its
    language; `min_characters`: that its prompt asks of an object, by language."""

    proposes_topics: bool
    asks_for_thoughts: bool
    prompt_name: str
    parse_reply: Callable[[str, bool], ParsedAnswer]
    min_characters: Mapping[str, int] = field(default_factory=dict)


STRATEGIES = {
    "self_instruct": GenerationStrategy(True, False, "objects", parse_objects),
    "by_topic": GenerationStrategy(False, False, "by_topic", parse_described_objects, {"zh": 2, "en": 3}),
    "visual_elements": GenerationStrategy(False, True, "visual_elements", parse_phrase_reply),
}
SINGLE_POOL_TOPIC = {"zh": "视觉元素", "en": "visual elements"}  # the topic of all queries where none is given


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
    """Return the prompt of a round: up to 50 topics with up to 10 objects each, in an order that the round's hash
    gives. `sample_template`: how one sample reads, with fields topic and objects; `pools`: objects by topic."""
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
    wanted: ObjectOptions,
    seed: int,
    number: int,
    notes: Mapping[str, str] | None = None,
) -> SampledPrompt:
    """Return the prompt of a round for one topic: objects that people chose and some that the model found, as one
    numbered list in an order that the round's hash gives. `wanted`: how many of both it shows and how many new ones it
    asks for; `notes`: what follows an object there."""
    hash_key = (str(seed), "objects", str(number), normalize_text(topic))
    chosen = sample_by_hash(human_objects, wanted.from_people, *hash_key) + sample_by_hash(
        model_objects, wanted.from_model, *hash_key
    )
    mixed = sample_by_hash(chosen, len(chosen), *hash_key, "order")
    listed = "\n".join(f"{place}. {text}{(notes or {}).get(text, '')}" for place, text in enumerate(mixed, start=1))
    text = prompt.fill(topic=topic, object_samples=listed, count=str(wanted.per_prompt))
    return SampledPrompt(text, frozenset(normalize_text(text) for text in chosen))


def build_phrase_prompt(
    prompt: PromptTemplate,
    human_samples: Mapping[str, str],
    model_thoughts: Mapping[str, str],
    wanted: ObjectOptions,
    seed: int,
    number: int,
) -> SampledPrompt:
    """Return the prompt of a round that asks for thoughts and phrases. `human_samples`: the text of each object that
    people chose; `model_thoughts`: the model's own thoughts by phrase, returned to it verbatim."""
    hash_key = (str(seed), "phrases", str(number))
    chosen = sample_by_hash(human_samples, wanted.from_people, *hash_key) + sample_by_hash(
        model_thoughts, wanted.from_model, *hash_key
    )
    samples = [
        human_samples[text] if text in human_samples else _THOUGHT[prompt.language].format(model_thoughts[text], text)
        for text in sample_by_hash(chosen, len(chosen), *hash_key, "order")
    ]
    text = prompt.fill(object_samples="\n\n".join(samples), count=str(wanted.per_prompt))
    return SampledPrompt(text, frozenset(normalize_text(text) for text in chosen))


def sample_by_hash(texts: Iterable[str], count: int, *hash_key: str) -> list[str]:
    """Return this many of the texts, sampled and ordered by hash, independent of their input order."""
    return sorted(texts, key=lambda text: (stable_hash(*hash_key, normalize_text(text)), text))[:count]


@dataclass(slots=True)
class TopicPool:
    """A topic and its objects as they were first written, by what makes them the same; and other names for it."""

    name: str
    objects: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


class TopicPools:
    """Return all pools in the order in which they were created, the person's samples first."""

    def __init__(self, samples: Mapping[str, Sequence[str]]) -> None:
        self.pools: dict[str, TopicPool] = {}
        self._where: dict[str, list[str]] = {}
        for topic, objects in samples.items():
            for text in objects:
                self._add(topic, text)

    def add(self, reply: ReplyRecord) -> None:
        """Take in the accepted rows of a reply."""
        for row in reply.accepted:
            self._add(row.topic, row.text, row.topic_in_reply)

    def classify_rows(
        self, answers: Iterable[ParsedAnswer], rules: RowRules, shown: frozenset[str]
    ) -> tuple[ReplyRow, ...]:
        """Return the outcome of each row of one reply, its answers one after the other, without changing the pools.
        `shown`: the objects in the prompt, in the form of `same`."""
        rows: list[ReplyRow] = []
        trial = _ReplyTrial(self)
        for answer in answers:
            rows += trial.judge(answer, rules, shown)
            if answer.truncated_item:
                rows.append(ReplyRow("", answer.truncated_item, "cut_off"))
        return tuple(rows)

    def find_pool(self, objects: Iterable[str], topic: str = "") -> str:
        """Return the pool that holds most of the objects, as `same` has them; of several the one whose name, or another
        name of it, has most of the topic's letters, and only where these are as many the oldest; of none ''."""
        hits: dict[str, int] = {}
        for text in objects:
            for pool in self._where.get(text, ()):
                hits[pool] = hits.get(pool, 0) + 1
        letters = set(normalize_text(topic))

        def rank(pool: str) -> tuple[int, int]:
            names = (pool, *self.pools[pool].aliases)
            return hits[pool], max(len(letters & set(name)) for name in names)

        return max((pool for pool in self.pools if pool in hits), key=rank, default="")

    def _add(self, topic: str, text: str, alias: str = "") -> None:
        pool = self.pools.setdefault(normalize_text(topic), TopicPool(topic))
        if alias:
            pool.aliases.setdefault(normalize_text(alias), alias)
        if normalize_text(text) not in pool.objects:
            pool.objects[normalize_text(text)] = text
            self._where.setdefault(normalize_text(text), []).append(normalize_text(topic))


class _ReplyTrial:
    """One reply under judgment: it sees the pools, and what its own earlier answers would add to them."""

    def __init__(self, pools: TopicPools) -> None:
        self._pools = pools
        self._new: dict[str, tuple[str, set[str]]] = {}  # topic or pool -> its name, the objects this reply adds
        self._seen: set[str] = set()

    def judge(self, answer: ParsedAnswer, rules: RowRules, shown: frozenset[str]) -> list[ReplyRow]:
        reasons = [rules.find_rejection_reason(text) for text in answer.objects]
        if not answer.topic or rules.find_topic_rejection_reason(answer.topic):
            objects = zip(answer.objects, reasons, strict=True)
            return [ReplyRow("", text, fault or "no_topic", answer.topic) for text, fault in objects]
        accepted = [normalize_text(text) for text, fault in zip(answer.objects, reasons, strict=True) if not fault]
        name = self._name(answer.topic, accepted)
        alias = answer.topic if normalize_text(answer.topic) != normalize_text(name) else ""
        rows = []
        for text, fault in zip(answer.objects, reasons, strict=True):
            reason = fault or self._reason(normalize_text(text), normalize_text(name), shown)
            rows.append(ReplyRow(name, text, reason, alias))
            self._seen.add(normalize_text(text))
            if not reason:
                self._new.setdefault(normalize_text(name), (name, set()))[1].add(normalize_text(text))
        return rows

    def _name(self, topic: str, objects: list[str]) -> str:
        """Return the pool that the answer belongs to: the topic's if it is known, else the one that holds an object."""
        pools = self._pools.pools
        if normalize_text(topic) in pools:
            return pools[normalize_text(topic)].name
        if normalize_text(topic) in self._new:
            return self._new[normalize_text(topic)][0]
        if pool_key := self._pools.find_pool(objects, topic):
            return pools[pool_key].name
        return next((name for name, added in self._new.values() if added & set(objects)), topic)

    def _reason(self, text: str, topic: str, shown: frozenset[str]) -> str:
        if text == topic:
            return "word_of_prompt"
        if text in self._seen:
            return "repeated"
        pool = self._pools.pools.get(topic)
        if pool is not None and text not in pool.objects:
            return ""  # an example of another topic is new here, as the article adds what a known topic lacks
        if text in shown:
            return "in_prompt"
        return "known" if pool is not None else ""
