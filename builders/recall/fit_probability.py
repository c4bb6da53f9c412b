"""The probability that people say a query fits another image, from features of the pair.

It is one logistic regression for each language and way of comparing texts, fitted to people's judgments of pairs
(benchmarks/ambiguity_fit.py). Cosines are those of vectors minus the mean of all, in units of their spread over random
pairs: for every embedder, unrelated pairs are near 0, and random pairs have an average distance of 1 from it.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from builders.precision.label_files import SHIPPED_FOLDER
from builders.recall.caption_index import AnswerIndex, CaptionIndex
from querytruth.array_types import BoolArray, FloatArray, RowIndices, Vectors
from querytruth.backends.models.nearest_neighbours import NearestRows, pair_cosines
from querytruth.definitions import StrictModel
from querytruth.errors import UserError, first_line

# The words of unrelated images may be so many times as alike as those fitted to. Flickr8k (fitted) 1, COCO 0.8, its
# first captions alone 0.5, Chinese translations 1.2; captions from templates 2.8 (English) and 2.4 (Chinese).
MOST_ALIKE = 1.5
MIN_CAPTIONS = 30  # of which spread and rarity are measured
LINES_FILE = SHIPPED_FOLDER / "ambiguity" / "lines.json"
# `images`: cosine of the means of both images' captions, or with vectors of images the mean of that and of the images'
# own cosine (nobody rated pairs by image vectors); `covered`: share of the query's words that the captions of the image
# have, rare ones weigh more; `missing`: number of those they lack; `captions`: logarithm of their number.
MEASURES = ("images", "covered", "missing", "captions")
_SAMPLE = 1024  # vectors


class CentredVectors:
    """Vectors (n, d) less their mean, of length one; a zero vector is no part of the mean, and stays zero. `spread`:
    the standard deviation of the cosines of pairs in `sample`, or without one in the vectors themselves."""

    def __init__(self, vectors: Vectors, sample: Vectors | None = None) -> None:
        self.vectors = _centre(vectors)
        self._is_some: BoolArray = np.asarray(vectors.any(axis=1))
        self._nearest = NearestRows(self.vectors)
        sample = vectors if sample is None else sample
        drawn = _centre(sample[np.random.default_rng(0).permutation(len(sample))[:_SAMPLE]]).astype(np.float64)
        cosines = (drawn @ drawn.T)[~np.eye(len(drawn), dtype=bool)]
        self.spread = max(round(float(cosines.std()), 4), 1e-4) if cosines.size else 1.0

    def compare(self, left: RowIndices, right: RowIndices) -> FloatArray:
        """Return the cosine (n,) of each pair of rows, in units of the spread."""
        return pair_cosines(self.vectors, self.vectors, left, right) / self.spread

    def find_nearest(self, rows: RowIndices, count: int, threads: int) -> tuple[RowIndices, RowIndices]:
        """Return pairs of a place in `rows` and one of the `count` nearest rows that are not zero."""
        place, near = self._nearest.find(self.vectors[rows], count, threads)
        is_some = self._is_some[near]
        return place[is_some], near[is_some]


def _centre(vectors: Vectors) -> Vectors:
    is_some = vectors.any(axis=1, keepdims=True)
    middle = vectors.sum(axis=0, dtype=np.float64) / max(np.count_nonzero(is_some), 1)
    centred: Vectors = (vectors - middle.astype(np.float32)) * is_some
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
    return centred


class PairFeatures:
    """The features of pairs of a query with an own answer, and an answer with captions. `texts` (queries, d) and
    `images` (answers, d): vectors of length one in the order of `answers`."""

    def __init__(
        self, answers: AnswerIndex, captions: CaptionIndex, texts: Vectors, images: Vectors | None = None
    ) -> None:
        self._answers, self._captions = answers, captions
        means = (answers.captions @ texts) / np.maximum(answers.caption_counts, 1).astype(np.float32)[:, None]
        self.spaces = [CentredVectors(means, texts), *([] if images is None else [CentredVectors(images)])]
        self.names = (*MEASURES, *(f"other_{group}" for group in captions.values.groups))

    def measure(self, query: RowIndices, answer: RowIndices) -> FloatArray:
        """Return the features (n, names), rounded to four decimals."""
        own = self._answers.own_answer[query]
        wanted, rarity = self._captions.query_words[query], self._captions.rarity
        common = wanted.multiply(self._captions.answer_words[answer])
        columns = (
            np.mean([space.compare(own, answer) for space in self.spaces], axis=0),
            (common @ rarity) / np.maximum(wanted @ rarity, 1e-9),
            np.asarray(wanted.sum(axis=1) - common.sum(axis=1)).ravel(),
            np.log(np.maximum(self._answers.caption_counts[answer], 1)),
            self._captions.contradict(query, answer),
        )
        return np.column_stack(columns).round(4)


class FittedLine(StrictModel):
    """Weights of features of pairs, and what they were fitted to.

    `embedder`: whose vectors; `compares_spelling`: whether it compares spelling or meaning; `covered`: the probability
    that a query fits an image whose captions say all of it; `background`: how similar the words of unrelated images
    are; `fitted_on`: what people judged; `reliability`: expected and observed shares of held-out pairs, by tenths of
    the probability.
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

    def compute_probabilities(self, pairs: PairFeatures, query: RowIndices, answer: RowIndices) -> FloatArray:
        """Return the probability (n,) that each query fits the answer, rounded to four decimals."""
        features = pairs.measure(query, answer)
        log_odds = features @ np.array([self.weights[name] for name in pairs.names]) + self.intercept
        probabilities: FloatArray = (1 / (1 + np.exp(-log_odds.clip(-40, 40)))).round(4)
        return probabilities

    def explain_misfit(self, captions: CaptionIndex) -> str:
        """Return how captions differ from those that were fitted to; '' if they are similar enough."""
        alike = captions.measure_background()
        if alike <= MOST_ALIKE * self.background:
            return ""
        return f"unrelated images share more words than in the fitted data ({alike:g}; fitted: {self.background:g})"


def read_lines(path: Path = LINES_FILE) -> tuple[list[FittedLine], str]:
    """Return the lines of a file, and the file's sha256. Raises UserError where it cannot be read."""
    try:
        raw = path.read_bytes()
        return TypeAdapter(list[FittedLine]).validate_json(raw), hashlib.sha256(raw).hexdigest()
    except (OSError, ValidationError) as error:
        reason = f"does not contain valid fitted lines ({first_line(error)})"
        raise UserError("read fitted lines", path, reason, "restore the file") from None


def choose_line(lines: Sequence[FittedLine], language: str, *, compares_spelling: bool) -> FittedLine | None:
    """Return the line of a language for embedders of that kind, or else for the other kind; None for a language
    without one."""
    of_language = [one for one in lines if one.language == language]
    return min(of_language, key=lambda one: one.compares_spelling != compares_spelling, default=None)
