"""The second stage's state: per topic the objects that people chose and those that the model found, and when to stop.

A wave is a question about every topic that still goes on; its replies are judged together, in the order of the topics,
whatever order they came in. The state is a fold over the waves: read back from a journal it is the same as it was live.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from builders.generated.novelty import Novelty, Verdict
from builders.generated.pool_entries import Row, Wave
from builders.generated.reply_grammar import Listed
from builders.generated.row_rules import RowRules, same


@dataclass(slots=True)
class ObjectPool:
    """One topic. `barren`: rounds in a row without a new object; `thoughts`: what led the model to an object of its
    own, where it told."""

    topic: str
    of_people: list[str]
    of_model: list[str] = field(default_factory=list)
    rounds: int = 0
    barren: int = 0
    thoughts: dict[str, str] = field(default_factory=dict)

    def stopped(self, rounds: int, barren: int) -> str:
        """Why the topic asks no more: round_limit, barren, or '' while it does."""
        if self.rounds >= rounds:
            return "round_limit"
        return "barren" if self.barren >= barren else ""


@dataclass(frozen=True, slots=True)
class Told:
    """A reply as it was read: about which topic, what it lists, and the objects that its prompt showed."""

    topic: str
    listed: Listed
    shown: frozenset[str]


class ObjectPools:
    """All topics in canonical order: that of their names. An object that people chose under two topics counts for the
    first one."""

    def __init__(self, chosen: Mapping[str, Sequence[str]], novelty: Novelty) -> None:
        self.pools = {
            same(topic): ObjectPool(topic, []) for topic in sorted(chosen, key=lambda name: (same(name), name))
        }
        self.twice: list[Row] = []
        self._known: set[str] = set()
        self._alike: dict[str, Verdict] = {}  # what was too similar once is so for ever: pools only grow
        self._novelty = novelty
        for topic in sorted(chosen, key=lambda name: (same(name), name)):
            for text in sorted(chosen[topic], key=lambda name: (same(name), name)):
                if same(text) in self._known:
                    self.twice.append(Row(topic, text, "known"))
                    continue
                self._known.add(same(text))
                self.pools[same(topic)].of_people.append(text)
        novelty.add([text for pool in self.pools.values() for text in pool.of_people])

    def going_on(self, rounds: int, barren: int) -> list[ObjectPool]:
        """The topics that ask on, in canonical order."""
        return [pool for pool in self.pools.values() if not pool.stopped(rounds, barren)]

    def replay(self, waves: Iterable[Wave]) -> None:
        """Take in waves that were judged before."""
        new: list[str] = []
        for wave in waves:
            self._count(wave)
            new += [row.text for heard in wave for row in heard.accepted]
        self._novelty.add(new)

    def add(self, wave: Wave) -> None:
        """Take in the wave that was just judged; its objects are compared with already."""
        self._count(wave)

    def judge(self, told: Sequence[Told], rules: RowRules) -> list[tuple[Row, ...]]:
        """What becomes of each row of a wave's replies: rules first, then all that is left compared with all pools."""
        seen: set[str] = set()
        reasons = [[self._reason(text, one, rules, seen) for text in one.listed.objects] for one in told]
        pairs = list(zip(told, reasons, strict=True))
        open_texts = [t for one, why in pairs for t, reason in zip(one.listed.objects, why, strict=True) if not reason]
        verdicts = iter(self._novelty.judge(open_texts))
        return [self._rows(one, why, verdicts) for one, why in pairs]

    def _rows(self, told: Told, reasons: list[str], verdicts: Iterable[Verdict]) -> tuple[Row, ...]:
        coming = iter(verdicts)
        rows = []
        thoughts = told.listed.thoughts or ("",) * len(reasons)
        for text, reason, thought in zip(told.listed.objects, reasons, thoughts, strict=True):
            verdict = next(coming) if not reason else self._alike.get(same(text)) if reason == "too_similar" else None
            if verdict is None:
                rows.append(Row(told.topic, text, reason, thought=thought))
                continue
            reason = "" if verdict.is_new else "too_similar"
            rows.append(Row(told.topic, text, reason, "", verdict.score, verdict.nearest, thought))
        if told.listed.lost:
            rows.append(Row(told.topic, told.listed.lost, "cut_off"))
        return tuple(rows)

    def _reason(self, text: str, told: Told, rules: RowRules, seen: set[str]) -> str:
        if fault := rules.fault(text):
            return fault
        if same(text) == same(told.topic):
            return "word_of_prompt"
        if same(text) in told.shown:
            return "in_prompt"
        if same(text) in self._known:
            return "known"
        if same(text) in self._alike:
            return "too_similar"
        if same(text) in seen:
            return "repeated"
        seen.add(same(text))
        return ""

    def _count(self, wave: Wave) -> None:
        for heard in wave:
            pool = self.pools[same(heard.topic)]
            pool.rounds += 1
            pool.barren = 0 if heard.accepted else pool.barren + 1
            for row in heard.rows:
                if not row.reason:
                    pool.of_model.append(row.text)
                    if row.thought:
                        pool.thoughts[row.text] = row.thought
                    self._known.add(same(row.text))
                elif row.reason == "too_similar":
                    self._alike.setdefault(same(row.text), Verdict(False, row.score, row.nearest))
