"""The state of the object stage: the objects of each topic, which of those proposed are new, and when a topic ends.

A wave has one prompt for every active topic. Its replies are classified together in the order of the topics. The state
is a fold over the waves: replaying a journal gives the same state. An object is new if its vector is far enough from
those of every pool; scores are computed in double precision and compared as whole numbers, so that they do not depend
on the batch size.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from builders.generated.generation_journal import SCORE_UNIT, ReplyRow, Wave
from builders.generated.reply_grammar import ParsedAnswer
from builders.generated.row_rules import RowRules, normalize_text
from querytruth.array_types import Vectors
from querytruth.backends.models.nearest_neighbours import find_near_pairs, pair_products

Encode = Callable[[Sequence[str]], Vectors]

SEMANTIC_THRESHOLD = 0.85  # the seed article's, for this model alone
SEMANTIC_THRESHOLD_MODEL = "BAAI/bge-small-zh-v1.5"
# For char_ngrams, which compares spelling only: of LVIS's 1,200 names, 1.0% (zh) and 1.2% (en) have another name above
# this threshold, such as 高尔夫球杆 and 高尔夫球车; of the English names in singular and plural 63%.
SPELLING_THRESHOLDS = {"zh": 0.6, "en": 0.8}
NEAR_THRESHOLD_MARGIN = 0.03  # an object so close below the threshold is new but flagged
_POOL_BLOCK = 4096  # rows per block, so that the products fit in the cache


@dataclass(frozen=True, slots=True)
class NoveltyVerdict:
    """`score`: the similarity to the object `nearest` in ten thousandths, where it is near the threshold or above it;
    else None and ''."""

    is_new: bool
    score: int | None = None
    nearest: str = ""


class NoveltyFilter:
    """The objects of all pools. An object whose similarity to one of them is above `threshold` is not new."""

    def __init__(self, encode: Encode, threshold: float) -> None:
        self._encode = encode
        self._threshold = round(threshold * SCORE_UNIT)
        self._floor = round((threshold - NEAR_THRESHOLD_MARGIN) * SCORE_UNIT)
        self._texts: list[str] = []
        self._not_encoded: list[str] = []  # encoded by the first `classify`: replaying a journal needs no vectors
        self._vectors: Vectors = np.empty((0, 0), np.float32)

    def add(self, texts: Sequence[str]) -> None:
        """Add objects without a comparison."""
        self._not_encoded += texts

    def classify(self, texts: Sequence[str]) -> list[NoveltyVerdict]:
        """Return a verdict for each text, compared with the pool and with the new texts before it, and add the new
        ones to the pool."""
        if not texts:
            return []
        if self._not_encoded:
            self._append(self._not_encoded, self._encode_texts(self._not_encoded))
            self._not_encoded = []
        vectors = self._encode_texts(texts)
        best = self._best_in_pool(vectors)
        pairs_in_batch = self._pairs_among(vectors)
        verdicts: list[NoveltyVerdict] = []
        for place, (score, nearest) in enumerate(best):
            for other, between in pairs_in_batch.get(place, ()):
                if verdicts[other].is_new and between > score:
                    score, nearest = between, texts[other]
            neighbour = (score, nearest) if score > self._floor else (None, "")
            verdicts.append(NoveltyVerdict(score <= self._threshold, *neighbour))
        new = [place for place, verdict in enumerate(verdicts) if verdict.is_new]
        self._append([texts[place] for place in new], vectors[new])
        return verdicts

    def _encode_texts(self, texts: Sequence[str]) -> Vectors:
        return np.ascontiguousarray(self._encode(texts), dtype=np.float32)

    def _append(self, texts: Sequence[str], vectors: Vectors) -> None:
        used, needed = len(self._texts), len(self._texts) + len(texts)
        if needed > len(self._vectors):
            grown = np.zeros((max(needed, 2 * len(self._vectors), 1024), vectors.shape[1]), np.float32)
            if used:
                grown[:used] = self._vectors[:used]
            self._vectors = grown
        self._vectors[used:needed] = vectors
        self._texts += texts

    def _best_in_pool(self, vectors: Vectors) -> list[tuple[int, str]]:
        """Return the best score of each row and the first object with it; (-SCORE_UNIT, '') where none is near."""
        best = [(-SCORE_UNIT, "")] * len(vectors)
        for start in range(0, len(self._texts), _POOL_BLOCK):
            pool = self._vectors[start : min(start + _POOL_BLOCK, len(self._texts))]
            for row, place, score in self._near_pairs(vectors, pool):
                if score > best[row][0]:
                    best[row] = score, self._texts[start + place]
        return best

    def _pairs_among(self, vectors: Vectors) -> dict[int, list[tuple[int, int]]]:
        """Return for each row the near earlier rows with their scores, in order."""
        pairs: dict[int, list[tuple[int, int]]] = {}
        for one, other, score in self._near_pairs(vectors, vectors):
            if other < one:
                pairs.setdefault(one, []).append((other, score))
        return pairs

    def _near_pairs(self, vectors: Vectors, others: Vectors) -> Iterator[tuple[int, int, int]]:
        """Yield near pairs of rows of `vectors` and `others`, and their products in whole ten thousandths."""
        thresholds = np.full(len(vectors), self._floor / SCORE_UNIT)
        left, right = find_near_pairs(vectors, others, thresholds, len(others))
        scores = np.rint(pair_products(vectors, others, left, right) * SCORE_UNIT).astype(np.int64)
        return zip(left.tolist(), right.tolist(), scores.tolist(), strict=True)


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
        """Return why the topic has stopped: round_limit, barren, or '' while it is active."""
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
        """Return the active topics in canonical order."""
        return [pool for pool in self.pools.values() if not pool.stop_reason(max_rounds, max_barren_rounds)]

    def replay(self, waves: Iterable[Wave]) -> None:
        """Add waves that were classified before."""
        new: list[str] = []
        for wave in waves:
            self.add(wave)
            new += [row.text for reply in wave for row in reply.accepted]
        self._novelty.add(new)

    def classify_rows(self, replies: Sequence[ParsedReply], rules: RowRules) -> list[tuple[ReplyRow, ...]]:
        """Return the rows of a wave's replies with their outcomes: first by rules, then by novelty."""
        seen: set[str] = set()
        reasons = [[self._reason(text, one, rules, seen) for text in one.answer.objects] for one in replies]
        pairs = list(zip(replies, reasons, strict=True))
        open_texts = [t for one, why in pairs for t, reason in zip(one.answer.objects, why, strict=True) if not reason]
        # One verdict for each text without a reason, in order: `_rows` takes the next one for each of these.
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
        """Add a classified wave; the novelty filter has its objects already."""
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
