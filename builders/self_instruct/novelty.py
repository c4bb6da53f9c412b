"""Which objects are new: compared by their vectors with every object of every pool, one after the other.

Single precision proposes, and a pair that may matter is computed again in double, the same way whatever it was
computed beside; scores are compared as whole numbers. So neither the size of a batch nor that of a block decides.
The pool's rows lie in one array that grows; a product with blocks of it is all that an index would do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from builders.array_types import RowIndices, Vectors
from builders.self_instruct.generation_journal import SCORE_UNIT

Encode = Callable[[Sequence[str]], Vectors]

SEMANTIC_THRESHOLD = 0.85  # the seed article's cut, for bge-small-zh-v1.5
# For char_ngrams, which knows spelling only: of LVIS's 1,200 names of different things 1.0% (zh) and 1.2% (en) have
# another one over this cut, such as 高尔夫球杆 and 高尔夫球车; of the English names with another number 63% do.
SPELLING_THRESHOLDS = {"zh": 0.6, "en": 0.8}
NEAR_THRESHOLD_MARGIN = 0.03  # so close to the cut, an object is new but flagged for people
_MARGIN = 1.2 / SCORE_UNIT  # more than scores differ that are one whole number, and than single precision loses
_BLOCK = 4096  # rows of the pool at a time: with a hundred candidates the products stay in the cache


@dataclass(frozen=True, slots=True)
class NoveltyVerdict:
    """`score` in ten thousandths and the object that it is the similarity to, where that is near the cut or over it;
    else None and ''."""

    is_new: bool
    score: int | None = None
    nearest: str = ""


class NoveltyFilter:
    """The objects of all pools. `cut`: an object more similar than this to any of them is none."""

    def __init__(
        self, encode: Encode, threshold: float, near_margin: float = NEAR_THRESHOLD_MARGIN, block: int = _BLOCK
    ) -> None:
        self._encode, self._block = encode, block
        self._threshold = round(threshold * SCORE_UNIT)
        self._floor = round((threshold - near_margin) * SCORE_UNIT)
        self._texts: list[str] = []
        self._not_encoded: list[
            str
        ] = []  # encoded with the first question: a run that only reads its journal asks none
        self._vectors: Vectors = np.empty((0, 0), np.float32)

    def add(self, texts: Sequence[str]) -> None:
        """Take objects in without a question: people chose them, or a journal says that they were new."""
        self._not_encoded += texts

    def classify(self, texts: Sequence[str]) -> list[NoveltyVerdict]:
        """A verdict for each in order, compared with the pool and with those before it that are new; new ones join
        the pool."""
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
            is_near_threshold = score > self._floor
            verdicts.append(
                NoveltyVerdict(
                    score <= self._threshold, score if is_near_threshold else None, nearest if is_near_threshold else ""
                )
            )
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
        """The best score of each and the oldest object that has it; (-SCORE_UNIT, '') where none is near the cut."""
        best = np.full(len(vectors), self._floor / SCORE_UNIT, np.float32)
        rows, places = [], []
        for start in range(0, len(self._texts), self._block):
            products = vectors @ self._vectors[start : min(start + self._block, len(self._texts))].T
            highest = products.max(axis=1)
            near = np.flatnonzero(highest >= best - _MARGIN)
            best[near] = np.maximum(best[near], highest[near])
            row, place = np.nonzero(products[near] >= best[near, None] - _MARGIN)
            rows.append(near[row])
            places.append(place + start)
        return self._best_by_row(vectors, *(np.concatenate(part) if part else _NONE for part in (rows, places)))

    def _best_by_row(self, vectors: Vectors, rows: RowIndices, places: RowIndices) -> list[tuple[int, str]]:
        scores = _exact_scores(vectors[rows], self._vectors[places] if len(places) else vectors[rows])
        best = [(-SCORE_UNIT, "")] * len(vectors)
        for at in np.lexsort((places, -scores, rows))[::-1].tolist():
            best[int(rows[at])] = (int(scores[at]), self._texts[int(places[at])])
        return best

    def _pairs_among(self, vectors: Vectors) -> dict[int, list[tuple[int, int]]]:
        """For each row the earlier rows that are near it, in order, with their scores."""
        products = np.tril(vectors @ vectors.T, -1)
        later, earlier = np.nonzero(products >= self._floor / SCORE_UNIT - _MARGIN)
        scores = _exact_scores(vectors[later], vectors[earlier])
        pairs: dict[int, list[tuple[int, int]]] = {}
        for one, other, score in zip(later.tolist(), earlier.tolist(), scores.tolist(), strict=True):
            pairs.setdefault(one, []).append((other, score))
        return pairs


_NONE = np.empty(0, dtype=np.int64)


def _exact_scores(ones: Vectors, others: Vectors) -> RowIndices:
    """Products row by row in double precision, as whole numbers of ten thousandths."""
    products = np.einsum("ij,ij->i", ones.astype(np.float64), others.astype(np.float64))
    scores: RowIndices = np.rint(products * SCORE_UNIT).astype(np.int64)
    return scores
