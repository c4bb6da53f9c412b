"""Features of pairs of a query and another image, from which `calibration` computes the probability that it fits.

Vectors are centred before they are compared (the mean of all captions is subtracted), so that the cosine of unrelated
captions is near 0 for every embedder. The features of a pair do not depend on the other pairs.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from builders.recall.caption_index import AnswerIndex, MemberIndex
from builders.recall.caption_statements import CONTRADICTIONS, StatementIndex
from builders.recall.phrases import AGES, KINDS, MANY, SEXES, list_attributes, split_words
from querytruth.array_types import FloatArray, RowIndices, Vectors

EncodeWords = Callable[[Sequence[str]], Vectors]

WORD_FEATURES = (
    "missing_words",
    "word_coverage",
    "shared_words",
    "agreed_coverage",
    "text_length",
    "kind_difference",
    "number_difference",
    "sex_contradiction",
    "age_contradiction",
)
VECTOR_FEATURES = ("caption_cosine", "cosine_spread")
# These need several captions per image.
CAPTION_SET_FEATURES = ("reverse_cosine", "image_cosine", "own_cosine")

CONTRADICTION_FEATURES = tuple(CONTRADICTIONS)

# These compare the captions of two images as a whole; candidates are ordered by them, too. The last needs no vectors.
ORDER_FEATURES = ("centroid_cosine", "set_cosine", "set_words")

# These compare images by an embedder of images (`confusable_scores.CandidateCosines` measures them).
IMAGE_FEATURES = ("image_similarity", "query_image_excess")

# How alike unrelated captions are: by these a calibration recognises captions that it was not fitted for.
BACKGROUND_FEATURES = ("shared_words", "cosine_spread")
MIN_CAPTIONS = 30  # of a background

_ATTRIBUTES = (*KINDS, *SEXES, *AGES, MANY)
_SAMPLE = 1000  # captions that the spread of a query's cosines is measured on
_BLOCK = 4096  # queries
_BACKGROUND_PAIRS = 2000
_PAIRS_PER_BLOCK = 1 << 16


def centre_vectors(vectors: Vectors) -> Vectors:
    """Returns the vectors (n, d) minus their mean, with length one; a zero vector stays zero."""
    if not len(vectors):
        return vectors
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    result: Vectors = (centred / np.maximum(lengths, 1e-12)).astype(np.float32)
    return result


class PairFeatures:
    """Measures pairs of queries and answers. `vectors`: centred vectors of the queries in the order of `answers`;
    `encode_words`: vectors of single words, None where only equal words are the same."""

    def __init__(
        self, answers: AnswerIndex, vectors: Vectors | None = None, encode_words: EncodeWords | None = None
    ) -> None:
        self.answers, self._vectors = answers, vectors
        caption, answer = answers.caption_answer_pairs()
        members = MemberIndex(answer, answers.count)
        self._captions_of = np.split(caption[members.members], members.starts[1:-1])
        self._own_answer = np.full(len(answers.texts), -1)
        self._own_answer[caption[::-1]] = answer[::-1]
        self._known_words: dict[int, tuple[RowIndices, RowIndices, FloatArray]] = {}
        self._encode_words = encode_words
        self._read_words()

    def _read_words(self) -> None:
        lists = [split_words(text) for text in self.answers.texts]
        vocabulary = sorted({word for words in lists for word in words})
        place = {word: number for number, word in enumerate(vocabulary)}
        self._words = [np.array([place[word] for word in words], dtype=np.int64) for words in lists]
        self._vocabulary = vocabulary
        self._attributes = np.array(
            [[name in stated for name in _ATTRIBUTES] for stated in map(list_attributes, self.answers.texts)],
            dtype=np.float64,
        ).reshape(-1, len(_ATTRIBUTES))
        images_of_word = np.zeros(len(vocabulary))
        described = [captions for captions in self._captions_of if len(captions)]
        for captions in described:
            images_of_word[np.unique(np.concatenate([self._words[one] for one in captions]))] += 1
        self._rarity = np.log((len(described) + 1) / (images_of_word + 0.5))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        if self._vectors is None:
            return WORD_FEATURES + CONTRADICTION_FEATURES + ORDER_FEATURES[2:]
        return WORD_FEATURES + VECTOR_FEATURES + CAPTION_SET_FEATURES + CONTRADICTION_FEATURES + ORDER_FEATURES

    def measure(self, query: RowIndices, answer: RowIndices) -> dict[str, FloatArray]:
        """Returns each feature (n,) of the pairs of a query and an answer with captions, rounded to six decimals."""
        rows = np.array(
            [self._measure_words(*pair) for pair in zip(query.tolist(), answer.tolist(), strict=True)]
        ).reshape(-1, len(WORD_FEATURES))
        features = dict(zip(WORD_FEATURES, rows.T, strict=True)) | self._statements.measure(query, answer)
        features[ORDER_FEATURES[2]] = self._compare_caption_words(query, answer)
        if self._vectors is not None:
            cosines = np.array(
                [self._measure_cosines(*pair) for pair in zip(query.tolist(), answer.tolist(), strict=True)]
            ).reshape(-1, 6)
            names = (VECTOR_FEATURES[0], *CAPTION_SET_FEATURES, *ORDER_FEATURES[:2])
            features |= dict(zip(names, cosines.T, strict=True)) | {VECTOR_FEATURES[1]: self._spread[query]}
        return {name: features[name].round(6) for name in self.names}

    def measure_contradictions(self, query: RowIndices, answer: RowIndices) -> dict[str, FloatArray]:
        """Returns how far (n,) the captions of each answer contradict the query in counts, colours, places, sexes and
        ages, 0 to 1."""
        pairs = zip(query.tolist(), answer.tolist(), strict=True)
        stated = np.array([self._contradictions(one, self._captions_of[other])[2:] for one, other in pairs])
        sex, age = stated.reshape(-1, 2).T
        return self._statements.measure(query, answer) | {"sex_contradiction": sex, "age_contradiction": age}

    def measure_background(self) -> dict[str, float] | None:
        """Returns the mean of BACKGROUND_FEATURES over random pairs of a query and another image: how alike unrelated
        captions are. None for too few captions."""
        captions, own = self.answers.caption_answer_pairs()
        if len(captions) < MIN_CAPTIONS or len(np.unique(own)) < MIN_CAPTIONS / 5:
            return None
        rng = np.random.default_rng(0)
        first, second = rng.integers(0, len(captions), (2, _BACKGROUND_PAIRS))
        is_other = own[first] != own[second]
        query, answer = captions[first[is_other]], own[second[is_other]]
        features = self.measure(query, answer)
        names = [name for name in BACKGROUND_FEATURES if name in features]
        return {name: round(float(features[name].mean()), 4) for name in names}

    def _measure_cosines(self, query: int, answer: int) -> tuple[float, float, float, float, float, float]:
        assert self._vectors is not None
        others = self._vectors[self._captions_of[answer]]
        own_answer = self._own_answer[query]
        own = self._captions_of[own_answer] if own_answer >= 0 else np.array([query])
        cosines = others @ self._vectors[query]
        near = np.sort(cosines)[-2:]
        between = self._vectors[own] @ others.T
        rest = self._vectors[own[own != query]] @ self._vectors[query]
        return (
            float(near.mean()),
            float(between.max(axis=0).mean()),
            float(between.max(axis=1).mean()),
            float(rest.mean()) if len(rest) else 1.0,
            float(cosines.sum() / self._lengths[answer]),
            float(between.sum() / self._lengths[answer] / (self._lengths[own_answer] if own_answer >= 0 else 1)),
        )

    @cached_property
    def _lengths(self) -> FloatArray:
        """The length of the sum of each answer's caption vectors."""
        assert self._vectors is not None
        sums = (self._vectors[captions].sum(axis=0, dtype=np.float64) for captions in self._captions_of)
        return np.array([max(float(np.linalg.norm(one)), 1e-9) for one in sums])

    def _compare_caption_words(self, query: RowIndices, answer: RowIndices) -> FloatArray:
        """Returns the cosine (n,) between the words of all captions of the query's image and those of the answer; rare
        words count more."""
        result = np.zeros(len(query))
        for start in range(0, len(query), _PAIRS_PER_BLOCK):
            block = slice(start, start + _PAIRS_PER_BLOCK)
            own = self._own_answer[query[block]]
            of_own = self._weighted_words[np.where(own >= 0, own, self.answers.count + query[block])]
            of_answer = self._weighted_words[answer[block]]
            result[block] = np.asarray(of_own.multiply(of_answer).sum(axis=1)).ravel()
        return result

    @cached_property
    def _weighted_words(self) -> csr_matrix:
        """The weighted words (answers, then queries; vocabulary) of all captions of each, with length one."""
        groups = [*self._captions_of, *np.arange(len(self._words))[:, None]]
        lists = [np.concatenate([np.empty(0, np.int64), *(self._words[one] for one in group)]) for group in groups]
        rows = np.repeat(np.arange(len(lists)), [len(words) for words in lists])
        words = np.concatenate([np.empty(0, np.int64), *lists])
        counts = csr_matrix((np.ones(len(rows)), (rows, words)), shape=(len(lists), len(self._vocabulary)))
        counts.sum_duplicates()
        weights = np.log1p(counts.data) * self._rarity[counts.indices].clip(0)
        per_row = np.repeat(np.arange(len(lists)), np.diff(counts.indptr))
        lengths = np.sqrt(np.bincount(per_row, weights**2, minlength=len(lists)))
        counts.data = weights / np.maximum(lengths, 1e-9)[per_row]
        return counts

    @cached_property
    def _statements(self) -> StatementIndex:
        return StatementIndex(self.answers)

    @cached_property
    def _word_vectors(self) -> Vectors | None:
        """The centred vectors of the words, encoded when a pair is measured first."""
        if self._encode_words is None or not self._vocabulary:
            return None
        return centre_vectors(self._encode_words(self._vocabulary))

    @cached_property
    def _spread(self) -> FloatArray:
        """The standard deviation of each query's cosines with a sample of the captions of other images."""
        assert self._vectors is not None
        keys = [hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in self.answers.query_ids]
        sample = np.sort(np.array(sorted(range(len(keys)), key=keys.__getitem__)[:_SAMPLE], dtype=np.int64))
        spread = np.zeros(len(keys))
        for start in range(0, len(keys), _BLOCK):
            block = slice(start, start + _BLOCK)
            cosines = (self._vectors[block] @ self._vectors[sample].T).astype(np.float64)
            is_own = self._own_answer[block, None] == self._own_answer[None, sample]
            count = np.maximum((~is_own).sum(axis=1), 1)
            mean = np.where(is_own, 0, cosines).sum(axis=1) / count
            squares = np.where(is_own, 0, (cosines - mean[:, None]) ** 2).sum(axis=1)
            spread[block] = np.sqrt(squares / count)
        return spread

    def _measure_words(self, query: int, answer: int) -> list[float]:
        wanted, captions = self._words[query], self._captions_of[answer]
        known, starts, agreed = self._words_of_answer(answer)
        nearness = self._word_nearness(wanted, known)
        best = nearness.max(axis=1, initial=0)
        weights = self._rarity[wanted] / max(self._rarity[wanted].sum(), 1e-9)
        backward = nearness.max(axis=0, initial=0) if len(wanted) else np.zeros(len(known))
        shared = np.maximum.reduceat(nearness, starts, axis=1).sum() if len(starts) else 0.0
        return [
            float((1 - best).sum()),
            float((weights * best).sum()),
            float(shared / max(len(wanted) * len(captions), 1)),
            float((agreed * backward).sum() / max(agreed.sum(), 1)),
            len(self.answers.texts[query]) ** 0.5,
            *self._contradictions(query, captions),
        ]

    def _words_of_answer(self, answer: int) -> tuple[RowIndices, RowIndices, FloatArray]:
        """Returns the words of all captions of an answer, one caption after the other; where each caption starts; and
        the count of each word that more than half of the captions contain (or that most contain), at its first
        place."""
        known = self._known_words.get(answer)
        if known is None:
            lists = [self._words[one] for one in self._captions_of[answer].tolist()]
            words = np.concatenate([np.empty(0, np.int64), *lists])
            sizes = np.array([len(one) for one in lists])
            _, first, counts = np.unique(words, return_index=True, return_counts=True)
            agreed = np.zeros(len(words))
            agreed[first] = np.where(counts > min(len(lists) / 2, counts.max(initial=0) - 0.5), counts, 0)
            known = self._known_words[answer] = (words, (np.cumsum(sizes) - sizes)[sizes > 0], agreed)
        return known

    def _word_nearness(self, wanted: RowIndices, known: RowIndices) -> FloatArray:
        """Returns the similarity (wanted, known) of words, 0 to 1; 1 for equal words."""
        if self._word_vectors is None:
            same: FloatArray = (wanted[:, None] == known[None]).astype(np.float64)
            return same
        near: FloatArray = np.clip(self._word_vectors[wanted] @ self._word_vectors[known].T, 0, 1).astype(np.float64)
        return near

    def _contradictions(self, query: int, captions: RowIndices) -> tuple[float, float, float, float]:
        """Returns the differences of kinds and of numbers, and the contradictions of sex and age, 0 to 1."""
        own = dict(zip(_ATTRIBUTES, self._attributes[query].tolist(), strict=True))
        stated = self._attributes[captions].mean(axis=0) if len(captions) else np.zeros(len(_ATTRIBUTES))
        other = dict(zip(_ATTRIBUTES, stated.tolist(), strict=True))
        sex, age = (
            sum(own[one] * (1 - own[two]) * max(0.0, other[two] - other[one]) for one, two in (pair, pair[::-1]))
            for pair in (SEXES, AGES)
        )
        return max(abs(own[name] - other[name]) for name in KINDS), abs(own[MANY] - other[MANY]), sex, age
