"""Features of pairs of a query and another image, from which `calibration` computes the probability that it fits.

Vectors are centred before they are compared (the mean of all captions is subtracted), so that the cosine of unrelated
captions is near 0 for every embedder. The features of a pair do not depend on the other pairs.
"""

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from builders.recall.caption_index import AnswerIndex, MemberIndex, group_pairs, list_ranges
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
_QUERIES_PER_BLOCK = 256  # whose words are compared with the vocabulary at once
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
        self._own_answer = np.full(len(answers.texts), -1)
        self._own_answer[caption[::-1]] = answer[::-1]
        members = MemberIndex(answer, answers.count)
        self._captions, self._first_captions = caption[members.members], members.starts
        self._encode_words = encode_words
        self._read_words()

    def with_vectors(self, vectors: Vectors, encode_words: EncodeWords | None) -> "PairFeatures":
        """Returns the features of the same texts with vectors; the words are shared."""
        shared = copy(self)
        shared._vectors, shared._encode_words = vectors, encode_words
        return shared

    def _captions_of(self, answer: int) -> RowIndices:
        captions: RowIndices = self._captions[self._first_captions[answer] : self._first_captions[answer + 1]]
        return captions

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
        self._answer_words = _AnswerWords(self._words, self._captions, self._first_captions, len(vocabulary))
        described = np.count_nonzero(np.diff(self._first_captions))
        self._rarity = np.log((described + 1) / (self._answer_words.answers_of_word + 0.5))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        if self._vectors is None:
            return WORD_FEATURES + CONTRADICTION_FEATURES + ORDER_FEATURES[2:]
        return WORD_FEATURES + VECTOR_FEATURES + CAPTION_SET_FEATURES + CONTRADICTION_FEATURES + ORDER_FEATURES

    def measure(self, query: RowIndices, answer: RowIndices) -> dict[str, FloatArray]:
        """Returns each feature (n,) of the pairs of a query and an answer with captions, rounded to six decimals."""
        features = self._statements.measure(query, answer) | self._compare_attributes(query, answer)
        features |= dict(zip(WORD_FEATURES, self._measure_words(query, answer), strict=False))
        features["text_length"] = np.array([len(text) for text in self.answers.texts])[query] ** 0.5
        features[ORDER_FEATURES[2]] = self._compare_caption_words(query, answer)
        if self._vectors is not None:
            names = (VECTOR_FEATURES[0], *CAPTION_SET_FEATURES, *ORDER_FEATURES[:2])
            features |= dict(zip(names, self._measure_cosines(query, answer), strict=True))
            features[VECTOR_FEATURES[1]] = self._spread[query]
        return {name: features[name].round(6) for name in self.names}

    def measure_contradictions(self, query: RowIndices, answer: RowIndices) -> dict[str, FloatArray]:
        """Returns how far (n,) the captions of each answer contradict the query in counts, colours, places, sexes and
        ages, 0 to 1."""
        stated = self._compare_attributes(query, answer)
        names = ("sex_contradiction", "age_contradiction")
        return self._statements.measure(query, answer) | {name: stated[name] for name in names}

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

    def _measure_cosines(self, query: RowIndices, answer: RowIndices) -> FloatArray:
        out = np.zeros((6, len(query)))
        own = self._own_answer[query]
        for one, rows in group_pairs(np.where(own >= 0, own, self.answers.count + query)):
            captions = self._captions_of(one) if one < self.answers.count else query[rows[:1]]
            answers, place = np.unique(answer[rows], return_inverse=True)
            compared = self._compare_vectors(captions, self._lengths[one] if one < self.answers.count else 1, answers)
            out[:, rows] = compared[:, captions.searchsorted(query[rows]), place]
        return out

    def _compare_vectors(self, captions: RowIndices, length: float, answers: RowIndices) -> FloatArray:
        """Returns the six cosines (6, captions, answers) of all captions of an image; `length`: of their sum."""
        assert self._vectors is not None
        sizes = np.diff(self._first_captions)[answers]
        starts = np.cumsum(sizes) - sizes
        own = self._vectors[captions]
        between = own @ self._vectors[self._captions[list_ranges(self._first_captions[answers], sizes)]].T
        highest = np.maximum.reduceat(between, starts, axis=1)
        is_highest = between == np.repeat(highest, sizes, axis=1)
        second = np.maximum.reduceat(np.where(is_highest, -np.inf, between), starts, axis=1)
        is_single = (np.add.reduceat(is_highest, starts, axis=1, dtype=np.int64) == 1) & (sizes > 1)
        sums = np.add.reduceat(between, starts, axis=1, dtype=np.float64)
        near = np.add.reduceat(between.max(axis=0), starts, dtype=np.float64) / sizes
        rest = (own @ own.T).sum(axis=1, dtype=np.float64) - (own * own).sum(axis=1)
        out = np.empty((6, len(captions), len(answers)))
        out[0] = (highest + np.where(is_single, second, highest)) / 2
        out[1], out[2] = near, highest.mean(axis=0, dtype=np.float64)
        out[3] = (rest / (len(captions) - 1) if len(captions) > 1 else np.ones(1))[:, None]
        out[4], out[5] = sums / self._lengths[answers], sums.sum(axis=0) / self._lengths[answers] / length
        return out

    @cached_property
    def _lengths(self) -> FloatArray:
        """The length of the sum of each answer's caption vectors."""
        assert self._vectors is not None
        groups = (self._captions_of(answer) for answer in range(self.answers.count))
        sums = (self._vectors[captions].sum(axis=0, dtype=np.float64) for captions in groups)
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
        groups = [*map(self._captions_of, range(self.answers.count)), *np.arange(len(self._words))[:, None]]
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

    def _measure_words(self, query: RowIndices, answer: RowIndices) -> FloatArray:
        out = np.zeros((4, len(query)))
        groups = list(group_pairs(query))
        for start in range(0, len(groups), _QUERIES_PER_BLOCK):
            block = groups[start : start + _QUERIES_PER_BLOCK]
            wanted = np.unique(np.concatenate([self._words[one] for one, _ in block]))
            nearness = self._measure_nearness(wanted)
            for one, rows in block:
                near = nearness[wanted.searchsorted(self._words[one])]
                out[:, rows] = self._cover_words(self._rarity[self._words[one]], near, answer[rows])
        return out

    def _cover_words(self, rarity: FloatArray, near: Vectors, answers: RowIndices) -> FloatArray:
        """Returns the first four WORD_FEATURES (4, answers) of a query. `near`: its words by the vocabulary."""
        known = self._answer_words
        sizes, captions = known.sizes[answers], known.caption_counts[answers]
        places = list_ranges(known.starts[answers], sizes)
        first_words, first_captions = np.cumsum(sizes) - sizes, np.cumsum(captions) - captions
        caption_starts = known.caption_starts[list_ranges(known.first_captions[answers], captions)]
        near = near.take(known.words[places], axis=1)
        by_caption = np.maximum.reduceat(near, caption_starts + np.repeat(first_words, captions), axis=1)
        best = np.maximum.reduceat(by_caption, first_captions, axis=1).astype(np.float64)
        backward = near.max(axis=0, initial=0).astype(np.float64)
        shared = np.add.reduceat(by_caption.sum(axis=0, dtype=np.float64), first_captions)
        agreed = np.add.reduceat(known.agreed[places] * backward, first_words)
        pairs = len(rarity) * np.diff(self._first_captions)[answers]
        return np.stack(
            [
                (1 - best).sum(axis=0),
                (rarity[:, None] * best).sum(axis=0) / max(rarity.sum(), 1e-9),
                shared / np.maximum(pairs, 1),
                agreed / known.agreed_sums[answers],
            ]
        )

    @cached_property
    def _word_vectors(self) -> Vectors | None:
        """The centred vectors of the words, encoded when a pair is measured first."""
        if self._encode_words is None or not self._vocabulary:
            return None
        return centre_vectors(self._encode_words(self._vocabulary))

    def _measure_nearness(self, wanted: RowIndices) -> Vectors:
        """Returns the similarity (wanted, vocabulary + 1) of words, 0 to 1; 1 for equal words. The last is none."""
        nearness = np.zeros((len(wanted), len(self._vocabulary) + 1), dtype=np.float32)
        if self._word_vectors is None:
            nearness[np.arange(len(wanted)), wanted] = 1
        else:
            np.clip(self._word_vectors[wanted] @ self._word_vectors.T, 0, 1, out=nearness[:, :-1])
        return nearness

    def _compare_attributes(self, query: RowIndices, answer: RowIndices) -> dict[str, FloatArray]:
        """Returns the differences of kinds and of numbers, and the contradictions of sex and age, 0 to 1."""
        own = dict(zip(_ATTRIBUTES, self._attributes[query].T, strict=True))
        other = dict(zip(_ATTRIBUTES, self._stated_attributes[answer].T, strict=True))
        sex, age = (
            sum(own[one] * (1 - own[two]) * (other[two] - other[one]).clip(0) for one, two in (pair, pair[::-1]))
            for pair in (SEXES, AGES)
        )
        return {
            "kind_difference": np.max([abs(own[name] - other[name]) for name in KINDS], axis=0),
            "number_difference": abs(own[MANY] - other[MANY]),
            "sex_contradiction": np.asarray(sex),
            "age_contradiction": np.asarray(age),
        }

    @cached_property
    def _stated_attributes(self) -> FloatArray:
        """The share (answers, attributes) of the captions of each answer that state an attribute."""
        sizes = np.diff(self._first_captions)
        sums = np.zeros((self.answers.count, len(_ATTRIBUTES)))
        np.add.at(sums, np.repeat(np.arange(self.answers.count), sizes), self._attributes[self._captions])
        return sums / np.maximum(sizes, 1)[:, None]


class _AnswerWords:
    """The words of all captions of every answer, one caption after the other, behind one that is no word (the number of
    the vocabulary), which is a caption of its own.

    Two answers with the captions [[4, 2], []] and [[7]] of a vocabulary of 9: `words` [9, 4, 2, 9, 7], `starts` [0, 3],
    `caption_starts` in their answers [0, 1, 0, 1] (an empty caption has none), `first_captions` [0, 2].
    """

    def __init__(self, words: Sequence[RowIndices], captions: RowIndices, firsts: RowIndices, vocabulary: int) -> None:
        count, caption_sizes = len(firsts) - 1, np.array([len(words[one]) for one in captions], dtype=np.int64)
        of_caption = np.repeat(np.arange(count), np.diff(firsts))
        flat = np.concatenate([np.empty(0, np.int64), *(words[one] for one in captions.tolist())])
        of_word = np.repeat(of_caption, caption_sizes)
        inserted = of_word.searchsorted(np.arange(count + 1))
        self.words = np.insert(flat, inserted[:-1], vocabulary)
        self.starts, self.sizes = (inserted + np.arange(count + 1))[:-1], np.diff(inserted) + 1
        has_words = caption_sizes > 0
        placed = (np.cumsum(caption_sizes) - caption_sizes + of_caption + 1)[has_words]
        caption_starts = np.sort(np.append(placed, self.starts))
        self.caption_counts = np.bincount(of_caption[has_words], minlength=count) + 1
        self.first_captions = np.cumsum(self.caption_counts) - self.caption_counts
        self.caption_starts = caption_starts - np.repeat(self.starts, self.caption_counts)
        keys, first, times = np.unique(of_word * vocabulary + flat, return_index=True, return_counts=True)
        self.answers_of_word = np.bincount(keys % max(vocabulary, 1), minlength=vocabulary)
        most = np.zeros(count)
        np.maximum.at(most, of_word[first], times)
        least = np.minimum(np.diff(firsts) / 2, most - 0.5)
        agreed = np.zeros(len(flat))
        agreed[first] = np.where(times > least[of_word[first]], times, 0)
        # How often a word that more than half of the captions contain (or that most contain) does, at its first place.
        self.agreed = np.insert(agreed, inserted[:-1], 0)
        self.agreed_sums = np.maximum(np.bincount(of_word, agreed, minlength=count), 1)
