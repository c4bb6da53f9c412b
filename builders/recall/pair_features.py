"""Measures pairs of a query and another image: by these `fitted_lines` says how probable it is that the query fits.

Cosines are those of vectors less the mean of all, in units of their spread over random pairs: so what is unrelated is
near 0, and 1 is as far from it as random pairs are on average, for every embedder.
"""

from collections.abc import Iterator

import numpy as np

from builders.recall.caption_index import AnswerIndex, CaptionIndex
from querytruth.array_types import FloatArray, RowIndices, Vectors

# `nearest`: cosine of the query with the nearest of the image's captions; `images`: of the sums of both images'
# captions, or with vectors of images the mean of that and of the images' own cosine (nobody rated pairs by image
# vectors); `covered`: share of the query's words that the image's captions have, `shared`: of both images' words, rare
# ones weigh more; `missing`: number of the query's words that the captions lack; `captions`: logarithm of their number.
MEASURES = ("nearest", "images", "covered", "missing", "shared", "captions")
_BACKGROUND_PAIRS = 20_000
_AT_ONCE = 4096


class CentredVectors:
    """Vectors (n, d) less their mean, of length one; a zero vector stays zero. Computed when they are asked for: a copy
    of all would double the memory. `spread`: the standard deviation of the cosines of random pairs."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._middle = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        first, second = np.random.default_rng(0).integers(0, len(vectors), (2, _BACKGROUND_PAIRS))
        first, second = first[first != second], second[first != second]
        cosines = np.einsum("ij,ij->i", self[first], self[second], dtype=np.float64)
        self.spread = max(round(float(cosines.std()), 4), 1e-4) if len(cosines) else 1.0

    def __getitem__(self, rows: RowIndices) -> Vectors:
        vectors = self._vectors[rows]
        centred = np.where(vectors.any(axis=1, keepdims=True), vectors - self._middle, 0)
        result: Vectors = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
        return result


class PairFeatures:
    """The features of pairs of a query with an own answer, and an answer with captions. `texts` (queries, d) and
    `images` (images, d): vectors of length one in the order of `answers`."""

    def __init__(
        self, answers: AnswerIndex, captions: CaptionIndex, texts: Vectors, images: Vectors | None = None
    ) -> None:
        self._answers, self._captions, self._texts = answers, captions, CentredVectors(texts)
        self._images = None if images is None else CentredVectors(images[answers.representative_images()])
        self.names = (*MEASURES, *(f"other_{group}" for group in captions.values.groups))
        self._caption, answer = answers.caption_answer_pairs()
        self._sums = np.zeros((answers.count, texts.shape[1]), dtype=np.float16)  # half the memory
        members = answers.captions_by_answer
        for first in range(0, answers.count, _AT_ONCE):
            last = min(first + _AT_ONCE, answers.count)
            rows = members.members[members.starts[first] : members.starts[last]]
            sums = np.zeros((last - first, texts.shape[1]), dtype=np.float32)
            np.add.at(sums, answer[rows] - first, self._texts[self._caption[rows]])
            self._sums[first:last] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
        self._rarity = captions.answer_words @ captions.rarity

    def measure(self, query: RowIndices, answer: RowIndices) -> FloatArray:
        """Returns the features (n, names), rounded to four decimals."""
        blocks = [slice(start, start + _AT_ONCE) for start in range(0, len(query), _AT_ONCE)]
        rows = [np.column_stack(list(self._measure(query[one], answer[one]))) for one in blocks]
        table: FloatArray = np.concatenate([np.empty((0, len(self.names))), *rows]).round(4)
        return table

    def measure_background(self) -> float:
        """Returns the mean of `shared` over random pairs: how alike the words of unrelated images are."""
        query, other = np.random.default_rng(0).integers(0, len(self._caption), (2, _BACKGROUND_PAIRS // 10))
        answer = self._answers.own_answer[self._caption[other]]
        query = self._caption[query]
        apart = self._answers.own_answer[query] != answer
        features = self.measure(query[apart], answer[apart])
        return round(float(features[:, MEASURES.index("shared")].mean()), 4) if apart.any() else 1.0

    def _measure(self, query: RowIndices, answer: RowIndices) -> Iterator[FloatArray]:
        own = self._answers.own_answer[query]
        place, pair = self._answers.captions_by_answer.members_of(answer)
        cosines = np.einsum("ij,ij->i", self._texts[query][place], self._texts[self._caption[pair]])
        yield np.maximum.reduceat(cosines, np.flatnonzero(np.diff(place, prepend=-1))) / self._texts.spread
        of_captions = np.einsum("ij,ij->i", *self._sums[[own, answer]].astype(np.float32)) / self._texts.spread
        if self._images is None:
            yield of_captions
        else:
            of_images = np.einsum("ij,ij->i", self._images[own], self._images[answer]) / self._images.spread
            yield (of_captions + of_images) / 2
        wanted, words, rarity = self._captions.query_words[query], self._captions.answer_words, self._captions.rarity
        common = wanted.multiply(words[answer])
        yield (common @ rarity) / np.maximum(wanted @ rarity, 1e-9)
        yield np.asarray(wanted.sum(axis=1) - common.sum(axis=1)).ravel()
        both = words[own].multiply(words[answer]) @ rarity
        yield both / np.maximum(self._rarity[own] + self._rarity[answer] - both, 1e-9)
        yield np.log(np.bincount(place, minlength=len(query)))
        yield from self._captions.contradict(query, answer).T
