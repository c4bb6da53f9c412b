"""The state of the object stage: per topic the objects of people and of the model, and the stop conditions.

A wave has one prompt for every active topic. Its replies are classified together in the order of the topics. The state
is a fold over the waves: replaying a journal gives the same state.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from builders.self_instruct.generation_journal import ReplyRow, Wave
from builders.self_instruct.novelty import NoveltyFilter, NoveltyVerdict
from builders.self_instruct.reply_grammar import ParsedAnswer
from builders.self_instruct.row_rules import RowRules, normalize_text


@dataclass(slots=True)
class ObjectPool:
    """The objects of one topic. `barren_rounds`: consecutive rounds without a new object; `thoughts`: the model's
    thought by object."""

    topic: str
    human_objects: list[str]
    model_objects: list[str] = field(default_factory=list)
    rounds: int = 0
    barren_rounds: int = 0
    thoughts: dict[str, str] = field(default_factory=dict)

    def stop_reason(self, max_rounds: int, max_barren_rounds: int) -> str:
        """Returns why the topic has stopped: round_limit, barren, or '' while it is active."""
        if self.rounds >= max_rounds:
            return "round_limit"
        return "barren" if self.barren_rounds >= max_barren_rounds else ""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed reply: its topic, its items, and the objects that the prompt showed (normalized)."""

    topic: str
    answer: ParsedAnswer
    shown_objects: frozenset[str]


class ObjectPools:
    """All topics in the order of their names. An object that people chose under two topics belongs to the first."""

    def __init__(self, human_objects: Mapping[str, Sequence[str]], novelty: NoveltyFilter) -> None:
        self.pools = {
            normalize_text(topic): ObjectPool(topic, [])
            for topic in sorted(human_objects, key=lambda name: (normalize_text(name), name))
        }
        self.duplicate_rows: list[ReplyRow] = []
        self._known: set[str] = set()
        self._too_similar: dict[str, NoveltyVerdict] = {}  # stays valid, because pools only grow
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
        """Returns the active topics in canonical order."""
        return [pool for pool in self.pools.values() if not pool.stop_reason(max_rounds, max_barren_rounds)]

    def replay(self, waves: Iterable[Wave]) -> None:
        """Adds waves that were classified before."""
        new: list[str] = []
        for wave in waves:
            self.add(wave)
            new += [row.text for reply in wave for row in reply.accepted]
        self._novelty.add(new)

    def classify_rows(self, replies: Sequence[ParsedReply], rules: RowRules) -> list[tuple[ReplyRow, ...]]:
        """Returns the rows of a wave's replies with their outcomes: first by rules, then by novelty."""
        seen: set[str] = set()
        reasons = [[self._reason(text, one, rules, seen) for text in one.answer.objects] for one in replies]
        pairs = list(zip(replies, reasons, strict=True))
        open_texts = [t for one, why in pairs for t, reason in zip(one.answer.objects, why, strict=True) if not reason]
        verdicts = iter(self._novelty.classify(open_texts))
        return [self._rows(one, why, verdicts) for one, why in pairs]

    def _rows(self, reply: ParsedReply, reasons: list[str], verdicts: Iterator[NoveltyVerdict]) -> tuple[ReplyRow, ...]:
        rows = []
        thoughts = reply.answer.thoughts or ("",) * len(reasons)
        for text, reason, thought in zip(reply.answer.objects, reasons, thoughts, strict=True):
            known_verdict = self._too_similar.get(normalize_text(text)) if reason == "too_similar" else None
            verdict = known_verdict if reason else next(verdicts)
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
        """Adds a classified wave; the novelty filter has its objects already."""
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
                    verdict = NoveltyVerdict(False, row.score, row.nearest)
                    self._too_similar.setdefault(normalize_text(row.text), verdict)
