"""The second stage's state: per topic the objects that people chose and those that the model found, and when to stop.

A wave is a question about every topic that still goes on; its replies are judged together, in the order of the topics,
whatever order they came in. The state is a fold over the waves: read back from a journal it is the same as it was live.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from builders.self_instruct.generation_journal import ReplyRow, Wave
from builders.self_instruct.novelty import NoveltyFilter, NoveltyVerdict
from builders.self_instruct.reply_grammar import ParsedAnswer
from builders.self_instruct.row_rules import RowRules, normalize_text


@dataclass(slots=True)
class ObjectPool:
    """One topic. `barren_rounds`: rounds in a row without a new object; `thoughts`: what led the model to an object of
    its own, where it told."""

    topic: str
    human_objects: list[str]
    model_objects: list[str] = field(default_factory=list)
    rounds: int = 0
    barren_rounds: int = 0
    thoughts: dict[str, str] = field(default_factory=dict)

    def stop_reason(self, max_rounds: int, max_barren_rounds: int) -> str:
        """Why the topic asks no more: round_limit, barren, or '' while it does."""
        if self.rounds >= max_rounds:
            return "round_limit"
        return "barren" if self.barren_rounds >= max_barren_rounds else ""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply as it was read: about which topic, what it lists, and the objects that its prompt showed."""

    topic: str
    answer: ParsedAnswer
    shown_objects: frozenset[str]


class ObjectPools:
    """All topics in canonical order: that of their names. An object that people chose under two topics counts for the
    first one."""

    def __init__(self, human_objects: Mapping[str, Sequence[str]], novelty: NoveltyFilter) -> None:
        self.pools = {
            normalize_text(topic): ObjectPool(topic, [])
            for topic in sorted(human_objects, key=lambda name: (normalize_text(name), name))
        }
        self.duplicate_rows: list[ReplyRow] = []
        self._known: set[str] = set()
        self._too_similar: dict[str, NoveltyVerdict] = {}  # what was too similar once is so for ever: pools only grow
        self._novelty = novelty
        for topic in sorted(human_objects, key=lambda name: (normalize_text(name), name)):
            for text in sorted(human_objects[topic], key=lambda name: (normalize_text(name), name)):
                if normalize_text(text) in self._known:
                    self.duplicate_rows.append(ReplyRow(topic, text, "known"))
                    continue
                self._known.add(normalize_text(text))
                self.pools[normalize_text(topic)].human_objects.append(text)
        novelty.add([text for pool in self.pools.values() for text in pool.human_objects])

    def active_pools(self, max_rounds: int, max_barren_rounds: int) -> list[ObjectPool]:
        """The topics that ask on, in canonical order."""
        return [pool for pool in self.pools.values() if not pool.stop_reason(max_rounds, max_barren_rounds)]

    def replay(self, waves: Iterable[Wave]) -> None:
        """Take in waves that were judged before."""
        new: list[str] = []
        for wave in waves:
            self.add(wave)
            new += [row.text for reply in wave for row in reply.accepted]
        self._novelty.add(new)

    def classify_rows(self, replies: Sequence[ParsedReply], rules: RowRules) -> list[tuple[ReplyRow, ...]]:
        """What becomes of each row of a wave's replies: rules first, then all that is left compared with all pools."""
        seen: set[str] = set()
        reasons = [[self._reason(text, one, rules, seen) for text in one.answer.objects] for one in replies]
        pairs = list(zip(replies, reasons, strict=True))
        open_texts = [t for one, why in pairs for t, reason in zip(one.answer.objects, why, strict=True) if not reason]
        verdicts = iter(self._novelty.classify(open_texts))
        return [self._rows(one, why, verdicts) for one, why in pairs]

    def _rows(self, reply: ParsedReply, reasons: list[str], verdicts: Iterable[NoveltyVerdict]) -> tuple[ReplyRow, ...]:
        remaining = iter(verdicts)
        rows = []
        thoughts = reply.answer.thoughts or ("",) * len(reasons)
        for text, reason, thought in zip(reply.answer.objects, reasons, thoughts, strict=True):
            verdict = (
                next(remaining)
                if not reason
                else self._too_similar.get(normalize_text(text))
                if reason == "too_similar"
                else None
            )
            if verdict is None:
                rows.append(ReplyRow(reply.topic, text, reason, thought=thought))
                continue
            reason = "" if verdict.is_new else "too_similar"
            rows.append(ReplyRow(reply.topic, text, reason, "", verdict.score, verdict.nearest, thought))
        if reply.answer.truncated_item:
            rows.append(ReplyRow(reply.topic, reply.answer.truncated_item, "cut_off"))
        return tuple(rows)

    def _reason(self, text: str, reply: ParsedReply, rules: RowRules, seen: set[str]) -> str:
        if fault := rules.find_rejection_reason(text):
            return fault
        if normalize_text(text) == normalize_text(reply.topic):
            return "word_of_prompt"
        if normalize_text(text) in reply.shown_objects:
            return "in_prompt"
        if normalize_text(text) in self._known:
            return "known"
        if normalize_text(text) in self._too_similar:
            return "too_similar"
        if normalize_text(text) in seen:
            return "repeated"
        seen.add(normalize_text(text))
        return ""

    def add(self, wave: Wave) -> None:
        """Take in the wave that was just judged; its objects are compared with already."""
        for reply in wave:
            pool = self.pools[normalize_text(reply.topic)]
            pool.rounds += 1
            pool.barren_rounds = 0 if reply.accepted else pool.barren_rounds + 1
            for row in reply.rows:
                if not row.reason:
                    pool.model_objects.append(row.text)
                    if row.thought:
                        pool.thoughts[row.text] = row.thought
                    self._known.add(normalize_text(row.text))
                elif row.reason == "too_similar":
                    self._too_similar.setdefault(
                        normalize_text(row.text), NoveltyVerdict(False, row.score, row.nearest)
                    )
