"""Proposes the images that queries may fit besides their own: by phrases, words, caption vectors and image vectors.

Each measure proposes the nearest images of each query, so that the number of pairs grows with the number of queries.
What is searched is indexed once, and searched for some queries at a time, so that memory grows with the texts and
vectors, not with the pairs.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from builders.recall.caption_index import AnswerIndex, CaptionIndex, MemberIndex
from builders.recall.confusable_scores import ConfusableRules, QueryImageVectors, own_image_cosines
from builders.recall.phrases import split_words
from querytruth.array_types import FloatArray, RowIndices, Vectors
from querytruth.backends.models.nearest_neighbours import NearestRows, find_near_pairs

NEAREST_IMAGES = 40  # that each measure proposes for a query
_CAPTIONS_PER_IMAGE = 2  # captions that are searched for each image that is wanted: several may be of one image
_QUERIES_AT_ONCE = 2048
_PRODUCTS_AT_ONCE = 512  # queries whose words are compared with those of all images
_MAX_IMAGES_OF_WORD = 5000  # a word of more images proposes none


class VectorProposals:
    """Proposes the answers of a query's nearest captions, and those whose captions are nearest on average. `vectors`:
    centred vectors of the queries."""

    def __init__(self, answers: AnswerIndex, vectors: Vectors, threads: int) -> None:
        self._answers, self._vectors, self._threads = answers, vectors, threads
        caption, self._of_answer = answers.caption_answer_pairs()
        self._members = MemberIndex(caption, len(answers.query_ids))
        self._near_captions = NearestRows(vectors)
        members = MemberIndex(self._of_answer, answers.count)
        self._described = np.flatnonzero(members.sizes)
        self._near_means = None
        if len(self._described) < len(caption):
            order, starts = caption[members.members], members.starts[self._described]
            self._near_means = NearestRows(_mean_vectors(vectors, order, starts))

    def propose(self, start: int, end: int, count: int) -> list[RowIndices]:
        """Returns keys (`pair_keys`) of the pairs of the queries from `start` to `end` and at least `count` answers
        each."""
        vectors, pair_keys = self._vectors[start:end], self._answers.pair_keys
        left, right = self._near_captions.find(vectors, count * _CAPTIONS_PER_IMAGE + 1, self._threads)
        place, pair = self._members.members_of(right)
        keys = [pair_keys(start + left[place], self._of_answer[pair])]
        if self._near_means is not None:
            left, right = self._near_means.find(vectors, count, self._threads)
            keys.append(pair_keys(start + left, self._described[right]))
        return keys


def _mean_vectors(vectors: Vectors, order: RowIndices, starts: RowIndices) -> Vectors:
    """Returns the means of groups of rows, with length one. `order`: the rows, group by group."""
    means = np.empty((len(starts), vectors.shape[1]), dtype=np.float32)
    bounds = np.append(starts, len(order))
    for first in range(0, len(starts), _QUERIES_AT_ONCE):
        last = min(first + _QUERIES_AT_ONCE, len(starts))
        rows = order[bounds[first] : bounds[last]]
        means[first:last] = np.add.reduceat(vectors[rows], bounds[first:last] - bounds[first], axis=0)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    return means


class WordProposals:
    """Proposes the answers whose captions share a query's rarest words."""

    def __init__(self, answers: AnswerIndex) -> None:
        self._answers = answers
        lists = [split_words(text) for text in answers.texts]
        place = {word: number for number, word in enumerate(sorted({word for words in lists for word in words}))}
        rows = np.repeat(np.arange(len(lists)), [len(words) for words in lists])
        columns = np.array([place[word] for words in lists for word in words], dtype=np.int64)
        self._queries = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(lists), len(place)))
        caption, of_answer = answers.caption_answer_pairs()
        membership = csr_matrix((np.ones(len(caption)), (of_answer, caption)), shape=(answers.count, len(lists)))
        images = (membership @ self._queries).astype(bool).astype(np.float64)
        counts = np.asarray(images.sum(axis=0)).ravel()
        rarity = np.log((answers.count + 1) / (counts + 0.5)).clip(0)
        self._lengths = np.sqrt(np.asarray(images.multiply(rarity).sum(axis=1)).ravel())
        self._images = images.multiply(np.where(counts > _MAX_IMAGES_OF_WORD, 0, rarity)).tocsr().T.tocsc()

    def propose(self, start: int, end: int, count: int) -> list[RowIndices]:
        """Returns keys (`pair_keys`) of the pairs of the queries from `start` to `end` and `count` answers each."""
        keys = []
        for first in range(start, end, _PRODUCTS_AT_ONCE):
            scores = (self._queries[first : min(first + _PRODUCTS_AT_ONCE, end)] @ self._images).tocsr()
            scores.data /= np.maximum(self._lengths[scores.indices], 1e-9)
            keys.append(_highest(scores, count, first, self._answers))
        return keys


def _highest(scores: Any, count: int, start: int, answers: AnswerIndex) -> RowIndices:
    values, likely = scores.data.round(6), [np.empty(0, np.int64)]
    for first, end in pairwise(scores.indptr.tolist()):
        row = values[first:end]  # of a common word thousands of images: only the first ones are put in order
        least = np.partition(row, -count)[-count] if len(row) > count else -np.inf
        likely.append(first + np.flatnonzero(row >= least))
    kept, sizes = np.concatenate(likely), [len(one) for one in likely[1:]]
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((scores.indices[kept], -values[kept], query))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = order[rank < count]
    return answers.pair_keys(start + query[chosen], scores.indices[kept[chosen]].astype(np.int64))


class CandidatePairs:
    """Collects what all measures propose. `centred`: centred vectors of the queries; a calibration takes all near
    captions, whatever their cosine, and so does whoever asks for the nearest images."""

    def __init__(
        self,
        answers: AnswerIndex,
        vectors: QueryImageVectors,
        centred: Vectors | None,
        caption_index: CaptionIndex,
        rules: ConfusableRules,
        *,
        is_calibrated: bool,
    ) -> None:
        self._answers, self._vectors, self._captions, self._rules = answers, vectors, caption_index, rules
        most_judged = answers.max_judged_per_query()
        # Leaves more than `max_listed` per query after the judged ones are removed, where there are more.
        self._wanted = rules.max_listed + 1 + most_judged
        self._nearest = max(NEAREST_IMAGES, rules.candidate_count) + most_judged
        takes_all = is_calibrated or rules.candidate_count > 0
        self._nearest_answers: list[VectorProposals | WordProposals] = [WordProposals(answers)] if takes_all else []
        if centred is not None and takes_all:
            self._nearest_answers.append(VectorProposals(answers, centred, rules.threads))
        self._takes_near_captions = vectors.captions is not None and (centred is None or not takes_all)

    def __iter__(self) -> Iterator[tuple[RowIndices, RowIndices]]:
        """Yields the distinct unjudged pairs (query, answer), in order, of some queries at a time."""
        answers = self._answers
        for start in range(0, max(len(answers.query_ids), 1), _QUERIES_AT_ONCE):
            end = min(start + _QUERIES_AT_ONCE, len(answers.query_ids))
            proposed = np.sort(
                np.concatenate(list(self._propose(start, end)))
            )  # np.unique hashes: several times slower
            distinct = proposed[np.diff(proposed, prepend=-1) > 0]
            first, last = answers.judged_keys.searchsorted([start * answers.count, end * answers.count])
            judged = answers.judged_keys[first:last]
            yield answers.pairs_of_keys(distinct[np.isin(distinct, judged, assume_unique=True, invert=True)])

    def _propose(self, start: int, end: int) -> Iterator[RowIndices]:
        """Yields keys of pairs of the queries from `start` to `end`."""
        answers, vectors = self._answers, self._vectors
        covered = self._captions.find_covered_pairs(answers.judged_keys, self._wanted, range(start, end))
        yield answers.pair_keys(*covered)
        for measure in self._nearest_answers:
            yield from measure.propose(start, end, self._nearest)
        if vectors.captions is not None and self._takes_near_captions:
            yield self._near_captions(start, end, vectors.captions)
        if vectors.images is not None:
            yield self._by_own_images(start, end, vectors.images)
            if vectors.queries is not None:
                yield self._by_images(start, end, vectors.queries, vectors.images)

    def _near_captions(self, start: int, end: int, vectors: Vectors) -> RowIndices:
        """Returns keys of pairs of a query and the answers of its nearest captions of at least `min_caption_cosine`."""
        caption, of_answer = self._answers.caption_answer_pairs()
        most = self._wanted * int(np.bincount(of_answer, minlength=1).max())
        least = np.full(end - start, self._rules.min_caption_cosine)
        left, right = find_near_pairs(vectors[start:end], vectors, least, most)
        place, pair = MemberIndex(caption, len(self._answers.query_ids)).members_of(right)
        return self._answers.pair_keys(start + left[place], of_answer[pair])

    def _by_own_images(self, start: int, end: int, images: Vectors) -> RowIndices:
        """Returns keys of pairs of a query and the answers whose images are nearest to its own, from `min_image_cosine`
        on."""
        relevant_query, relevant_image = self._answers.relevant_query, self._answers.relevant_image
        is_wanted = (start <= relevant_query) & (relevant_query < end)
        query, own = relevant_query[is_wanted], relevant_image[is_wanted]
        searched = np.unique(own)
        least = np.full(len(searched), self._rules.min_image_cosine)
        left, right = find_near_pairs(images[searched], images, least, self._wanted * self._images_per_answer)
        place, pair = MemberIndex(searched.searchsorted(own), len(searched)).members_of(left)
        return self._answers.pair_keys(query[pair], self._answers.answer[right[place]])

    def _by_images(self, start: int, end: int, queries: Vectors, images: Vectors) -> RowIndices:
        """Returns keys of pairs of a query and the answers whose images are nearly as near to it as its own, or
        nearer."""
        least, most = self._own_cosines[start:end], self._wanted * self._images_per_answer
        left, right = find_near_pairs(queries[start:end], images, least, most)
        return self._answers.pair_keys(start + left, self._answers.answer[right])

    @cached_property
    def _own_cosines(self) -> FloatArray:
        """Each query's cosine with its own image, less the margin."""
        queries, images = self._vectors.queries, self._vectors.images
        assert queries is not None and images is not None
        return own_image_cosines(self._answers, queries, images) - self._rules.margin

    @cached_property
    def _images_per_answer(self) -> int:
        return int(np.bincount(self._answers.answer, minlength=1).max())
