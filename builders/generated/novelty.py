"""Which objects are new: compared by their vectors with every object of every pool, one after the other.

Single precision proposes, and a pair that may matter is computed again in double, the same way whatever it was
computed beside; scores are compared as whole numbers. So neither the size of a batch nor that of a block decides.
The pool's rows lie in one array that grows; a product with blocks of it is all that an index would do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builders.generated.pool_entries import SCORE_UNIT

Vectors = np.ndarray[Any, np.dtype[np.float32]]
Rows = np.ndarray[Any, np.dtype[np.int64]]
Encode = Callable[[Sequence[str]], Vectors]

MEANT_ALIKE = 0.85  # the seed article's cut, for bge-small-zh-v1.5
# For char_ngrams, which knows spelling only: of LVIS's 1,200 names of different things 1.0% (zh) and 1.2% (en) have
# another one over this cut, such as 高尔夫球杆 and 高尔夫球车; of the English names with another number 63% do.
SPELLED_ALIKE = {"zh": 0.6, "en": 0.8}
NEAR = 0.03  # so close to the cut, an object is new but flagged for people
_MARGIN = 1.2 / SCORE_UNIT  # more than scores differ that are one whole number, and than single precision loses
_BLOCK = 4096  # rows of the pool at a time: with a hundred candidates the products stay in the cache


@dataclass(frozen=True, slots=True)
class Verdict:
    """`score` in ten thousandths and the object that it is the similarity to, where that is near the cut or over it;
    else None and ''."""

    is_new: bool
    score: int | None = None
    nearest: str = ""


class Novelty:
    """The objects of all pools. `cut`: an object more similar than this to any of them is none."""

    def __init__(self, encode: Encode, cut: float, near: float = NEAR, block: int = _BLOCK) -> None:
        self._encode, self._block = encode, block
        self._cut = round(cut * SCORE_UNIT)
        self._floor = round((cut - near) * SCORE_UNIT)
        self._texts: list[str] = []
        self._waiting: list[str] = []  # encoded with the first question: a run that only reads its journal asks none
        self._table: Vectors = np.empty((0, 0), np.float32)

    def add(self, texts: Sequence[str]) -> None:
        """Take objects in without a question: people chose them, or a journal says that they were new."""
        self._waiting += texts

    def judge(self, texts: Sequence[str]) -> list[Verdict]:
        """A verdict for each in order, compared with the pool and with those before it that are new; new ones join
        the pool."""
        if not texts:
            return []
        if self._waiting:
            self._append(self._waiting, self._encoded(self._waiting))
            self._waiting = []
        vectors = self._encoded(texts)
        best = self._best_in_pool(vectors)
        beside = self._pairs_among(vectors)
        verdicts: list[Verdict] = []
        for place, (score, nearest) in enumerate(best):
            for other, between in beside.get(place, ()):
                if verdicts[other].is_new and between > score:
                    score, nearest = between, texts[other]
            told = score > self._floor
            verdicts.append(Verdict(score <= self._cut, score if told else None, nearest if told else ""))
        new = [place for place, verdict in enumerate(verdicts) if verdict.is_new]
        self._append([texts[place] for place in new], vectors[new])
        return verdicts

    def _encoded(self, texts: Sequence[str]) -> Vectors:
        return np.ascontiguousarray(self._encode(texts), dtype=np.float32)

    def _append(self, texts: Sequence[str], vectors: Vectors) -> None:
        used, wanted = len(self._texts), len(self._texts) + len(texts)
        if wanted > len(self._table):
            grown = np.zeros((max(wanted, 2 * len(self._table), 1024), vectors.shape[1]), np.float32)
            if used:
                grown[:used] = self._table[:used]
            self._table = grown
        self._table[used:wanted] = vectors
        self._texts += texts

    def _best_in_pool(self, vectors: Vectors) -> list[tuple[int, str]]:
        """The best score of each and the oldest object that has it; (-SCORE_UNIT, '') where none is near the cut."""
        best = np.full(len(vectors), self._floor / SCORE_UNIT, np.float32)
        rows, places = [], []
        for start in range(0, len(self._texts), self._block):
            products = vectors @ self._table[start : min(start + self._block, len(self._texts))].T
            highest = products.max(axis=1)
            near = np.flatnonzero(highest >= best - _MARGIN)
            best[near] = np.maximum(best[near], highest[near])
            row, place = np.nonzero(products[near] >= best[near, None] - _MARGIN)
            rows.append(near[row])
            places.append(place + start)
        return self._told(vectors, *(np.concatenate(part) if part else _NONE for part in (rows, places)))

    def _told(self, vectors: Vectors, rows: Rows, places: Rows) -> list[tuple[int, str]]:
        scores = _exact(vectors[rows], self._table[places] if len(places) else vectors[rows])
        found = [(-SCORE_UNIT, "")] * len(vectors)
        for at in np.lexsort((places, -scores, rows))[::-1].tolist():
            found[int(rows[at])] = (int(scores[at]), self._texts[int(places[at])])
        return found

    def _pairs_among(self, vectors: Vectors) -> dict[int, list[tuple[int, int]]]:
        """For each row the earlier rows that are near it, in order, with their scores."""
        products = np.tril(vectors @ vectors.T, -1)
        later, earlier = np.nonzero(products >= self._floor / SCORE_UNIT - _MARGIN)
        scores = _exact(vectors[later], vectors[earlier])
        found: dict[int, list[tuple[int, int]]] = {}
        for one, other, score in zip(later.tolist(), earlier.tolist(), scores.tolist(), strict=True):
            found.setdefault(one, []).append((other, score))
        return found


_NONE = np.empty(0, dtype=np.int64)


def _exact(ones: Vectors, others: Vectors) -> Rows:
    """Products row by row in double precision, as whole numbers of ten thousandths."""
    products = np.einsum("ij,ij->i", ones.astype(np.float64), others.astype(np.float64))
    scores: Rows = np.rint(products * SCORE_UNIT).astype(np.int64)
    return scores
