"""The first stage's state: pools of objects, one per topic, as replies fill them.

The state is a fold over what was heard, in order: read back from a journal it is the same as it was live.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from builders.generated.pool_entries import Heard, Row
from builders.generated.reply_grammar import Listed
from builders.generated.row_rules import RowRules, same


@dataclass(slots=True)
class TopicPool:
    """A topic and its objects as they were first written, by what makes them the same; and other names for it."""

    name: str
    objects: dict[str, str] = field(default_factory=dict)
    also: dict[str, str] = field(default_factory=dict)


class TopicPools:
    """All pools in the order in which they came up: the person's samples first."""

    def __init__(self, samples: Mapping[str, Sequence[str]]) -> None:
        self.pools: dict[str, TopicPool] = {}
        self._where: dict[str, list[str]] = {}
        for topic, objects in samples.items():
            for text in objects:
                self._add(topic, text)

    def add(self, heard: Heard) -> None:
        """Take in the accepted rows of a reply."""
        for row in heard.accepted:
            self._add(row.topic, row.text, row.said)

    def judge(self, answers: Iterable[Listed], rules: RowRules, shown: frozenset[str]) -> tuple[Row, ...]:
        """What becomes of each row of one reply, its answers taken one after the other; the pools stay as they are.
        `shown`: the objects in the prompt, as `same` has them."""
        rows: list[Row] = []
        trial = _Trial(self)
        for answer in answers:
            rows += trial.judge(answer, rules, shown)
            if answer.lost:
                rows.append(Row("", answer.lost, "cut_off"))
        return tuple(rows)

    def pool_with(self, objects: Iterable[str]) -> str:
        """The pool that holds most of the objects, as `same` has them: of several the oldest, of none ''."""
        hits: dict[str, int] = {}
        for text in objects:
            for pool in self._where.get(text, ()):
                hits[pool] = hits.get(pool, 0) + 1
        return max((pool for pool in self.pools if pool in hits), key=lambda pool: hits[pool], default="")

    def _add(self, topic: str, text: str, said: str = "") -> None:
        pool = self.pools.setdefault(same(topic), TopicPool(topic))
        if said:
            pool.also.setdefault(same(said), said)
        if same(text) not in pool.objects:
            pool.objects[same(text)] = text
            self._where.setdefault(same(text), []).append(same(topic))


class _Trial:
    """One reply under judgment: it sees the pools, and what its own earlier answers would add to them."""

    def __init__(self, pools: TopicPools) -> None:
        self._pools = pools
        self._new: dict[str, tuple[str, set[str]]] = {}  # topic or pool -> its name, the objects this reply adds
        self._seen: set[str] = set()

    def judge(self, answer: Listed, rules: RowRules, shown: frozenset[str]) -> list[Row]:
        faults = [rules.fault(text) for text in answer.objects]
        if not answer.topic or rules.topic_fault(answer.topic):
            return [
                Row("", t, fault or "no_topic", answer.topic) for t, fault in zip(answer.objects, faults, strict=True)
            ]
        sound = [same(text) for text, fault in zip(answer.objects, faults, strict=True) if not fault]
        name = self._name(answer.topic, sound)
        said = answer.topic if same(answer.topic) != same(name) else ""
        rows = []
        for text, fault in zip(answer.objects, faults, strict=True):
            reason = fault or self._reason(same(text), same(name), shown)
            rows.append(Row(name, text, reason, said))
            self._seen.add(same(text))
            if not reason:
                self._new.setdefault(same(name), (name, set()))[1].add(same(text))
        return rows

    def _name(self, topic: str, objects: list[str]) -> str:
        """Of the pool that the answer goes to: the topic's where it is known, else the one that holds an object."""
        pools = self._pools.pools
        if same(topic) in pools:
            return pools[same(topic)].name
        if same(topic) in self._new:
            return self._new[same(topic)][0]
        if found := self._pools.pool_with(objects):
            return pools[found].name
        return next((name for name, added in self._new.values() if added & set(objects)), topic)

    def _reason(self, text: str, topic: str, shown: frozenset[str]) -> str:
        if text == topic:
            return "word_of_prompt"
        if text in self._seen:
            return "repeated"
        if text in shown:
            return "in_prompt"
        pool = self._pools.pools.get(topic)
        return "known" if pool and text in pool.objects else ""
