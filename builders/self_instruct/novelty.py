"""Decides which objects are new by comparing their vectors with every object of every pool.

Scores are computed in double precision and compared as whole numbers, so that they do not depend on the batch size.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from builders.array_types import Vectors
from builders.nearest_neighbours import find_near_pairs, pair_products
from builders.self_instruct.generation_journal import SCORE_UNIT

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

    def __init__(self, encode: Encode, threshold: float, near_margin: float = NEAR_THRESHOLD_MARGIN) -> None:
        self._encode = encode
        self._threshold = round(threshold * SCORE_UNIT)
        self._floor = round((threshold - near_margin) * SCORE_UNIT)
        self._texts: list[str] = []
        self._not_encoded: list[str] = []  # encoded by the first `classify`: replaying a journal needs no vectors
        self._vectors: Vectors = np.empty((0, 0), np.float32)

    def add(self, texts: Sequence[str]) -> None:
        """Adds objects without a comparison."""
        self._not_encoded += texts

    def classify(self, texts: Sequence[str]) -> list[NoveltyVerdict]:
        """Returns a verdict for each text, compared with the pool and with the new texts before it, and adds the new
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
        """Returns the best score of each row and the first object with it; (-SCORE_UNIT, '') where none is near."""
        best = [(-SCORE_UNIT, "")] * len(vectors)
        for start in range(0, len(self._texts), _POOL_BLOCK):
            pool = self._vectors[start : min(start + _POOL_BLOCK, len(self._texts))]
            for row, place, score in self._near_pairs(vectors, pool):
                if score > best[row][0]:
                    best[row] = score, self._texts[start + place]
        return best

    def _pairs_among(self, vectors: Vectors) -> dict[int, list[tuple[int, int]]]:
        """Returns for each row the near earlier rows with their scores, in order."""
        pairs: dict[int, list[tuple[int, int]]] = {}
        for one, other, score in self._near_pairs(vectors, vectors):
            if other < one:
                pairs.setdefault(one, []).append((other, score))
        return pairs

    def _near_pairs(self, vectors: Vectors, others: Vectors) -> Iterator[tuple[int, int, int]]:
        """Yields near pairs of rows of `vectors` and `others`, and their products in whole ten thousandths."""
        thresholds = np.full(len(vectors), self._floor / SCORE_UNIT)
        left, right = find_near_pairs(vectors, others, thresholds, len(others))
        scores = np.rint(pair_products(vectors, others, left, right) * SCORE_UNIT).astype(np.int64)
        return zip(left.tolist(), right.tolist(), scores.tolist(), strict=True)
