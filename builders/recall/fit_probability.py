"""The probability that people say a query fits another image, from features of the pair.

It is one logistic regression for each language and way of comparing texts, fitted to what people said of pairs
(benchmarks/ambiguity_fit.py). Cosines are those of vectors less the mean of all, in units of their spread over random
pairs: so what is unrelated is near 0, and 1 is as far from it as random pairs are on average, for every embedder.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from builders.precision.label_files import SHIPPED_FOLDER
from builders.recall.caption_index import AnswerIndex, CaptionIndex
from querytruth.array_types import FloatArray, RowIndices, Vectors
from querytruth.definitions import StrictModel
from querytruth.errors import UserError, first_line

# The words of unrelated images may be so many times as alike as those fitted to. Flickr8k (fitted) 1, COCO 0.7, its
# first captions alone 0.4, Chinese translations 0.7; captions from templates 2.2 (English) and 3.4 (Chinese).
MOST_ALIKE = 1.5
MIN_CAPTIONS = 30  # of which spread and rarity are measured
LINES_FILE = SHIPPED_FOLDER / "ambiguity" / "lines.json"
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


class FittedLine(StrictModel):
    """Weights of features of pairs, and what they were fitted to.

    `embedder`: whose vectors; `compares_spelling`: whether it compares spelling or meaning; `covered`: the probability
    that a query fits an image whose captions say all of it; `background`: how alike the words of unrelated images are;
    `fitted_on`: what people judged; `reliability`: expected and observed shares of pairs that were not fitted to, by
    tenths of the probability.
    """

    language: str
    embedder: str
    compares_spelling: bool
    weights: dict[str, float]
    intercept: float
    covered: float
    background: float
    fitted_on: dict[str, Any]
    reliability: list[dict[str, float]]

    def compute_probabilities(self, pairs: PairFeatures, features: FloatArray) -> FloatArray:
        """Returns the probability (n,) of features (n, names) that the query fits, rounded to four decimals."""
        log_odds = features @ np.array([self.weights[name] for name in pairs.names]) + self.intercept
        probabilities: FloatArray = (1 / (1 + np.exp(-log_odds.clip(-40, 40)))).round(4)
        return probabilities

    def explain_misfit(self, pairs: PairFeatures) -> str:
        """Returns how captions differ from those that were fitted to; '' if they are alike enough."""
        alike = pairs.measure_background()
        if alike <= MOST_ALIKE * self.background:
            return ""
        return f"unrelated images share more words than those fitted to ({alike:g}, fitted {self.background:g})"


def read_lines(path: Path = LINES_FILE) -> tuple[list[FittedLine], str]:
    """Returns the lines of a file, and the file's sha256. Raises UserError where it cannot be read."""
    try:
        raw = path.read_bytes()
        return TypeAdapter(list[FittedLine]).validate_json(raw), hashlib.sha256(raw).hexdigest()
    except (OSError, ValidationError) as error:
        reason = f"cannot be read as fitted lines ({first_line(error)})"
        raise UserError("read fitted lines", path, reason, "restore the file") from None


def choose_line(lines: Sequence[FittedLine], language: str, *, compares_spelling: bool) -> FittedLine | None:
    """Returns the line of a language for embedders of that kind, or else for the other kind; None for a language
    without one."""
    of_language = [one for one in lines if one.language == language]
    return min(of_language, key=lambda one: one.compares_spelling != compares_spelling, default=None)
