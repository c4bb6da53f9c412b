"""The first stage's state: pools of objects, one per topic, as replies fill them.

The state is a fold over what was heard, in order: read back from a journal it is the same as it was live.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from builders.self_instruct.generation_journal import ReplyRecord, ReplyRow
from builders.self_instruct.reply_grammar import ParsedAnswer
from builders.self_instruct.row_rules import RowRules, normalize_text


@dataclass(slots=True)
class TopicPool:
    """A topic and its objects as they were first written, by what makes them the same; and other names for it."""

    name: str
    objects: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


class TopicPools:
    """All pools in the order in which they came up: the person's samples first."""

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
        """What becomes of each row of one reply, its answers taken one after the other; the pools stay as they are.
        `shown`: the objects in the prompt, as `same` has them."""
        rows: list[ReplyRow] = []
        trial = _ReplyTrial(self)
        for answer in answers:
            rows += trial.judge(answer, rules, shown)
            if answer.truncated_item:
                rows.append(ReplyRow("", answer.truncated_item, "cut_off"))
        return tuple(rows)

    def find_pool(self, objects: Iterable[str], topic: str = "") -> str:
        """The pool that holds most of the objects, as `same` has them; of several the one whose name, or another name
        of it, has most of the topic's letters, and only where these are as many the oldest; of none ''."""
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
        """Of the pool that the answer goes to: the topic's where it is known, else the one that holds an object."""
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
