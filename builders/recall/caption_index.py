"""Which query is a caption of which answer, and the content of the captions of each, as arrays in the order of ids.

An answer is an image or a duplicate group: near-duplicates are one answer and never confusable with each other.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from scipy.sparse.linalg import norm

from builders.recall.caption_words import ValueReader, list_words, parse_phrases, restore_words, say_all
from querytruth.array_types import BoolArray, FloatArray, RowIndices

Texts = NDArray[np.object_]
DISTINCTIVE = ("number", "colour", "time", "negation")  # what is not said of an image does not hold


@dataclass(frozen=True)
class AnswerIndex:
    """Queries and images sorted by id; `query_rows` and `image_rows` are their rows in the given frames.

    `answer` is the answer of each image, numbered in the order of the images; `captions` (answers, queries) has ones
    where a query is a caption of an answer; `judged_keys` are the sorted keys of all judged pairs (`pair_keys`).
    """

    query_ids: Texts
    texts: Texts
    image_ids: Texts
    query_rows: RowIndices
    image_rows: RowIndices
    answer: RowIndices
    captions: csr_matrix
    judged_keys: RowIndices

    @property
    def count(self) -> int:
        """Return the number of answers."""
        return int(self.captions.shape[0])

    @cached_property
    def caption_counts(self) -> RowIndices:
        """Return the number of captions of each answer."""
        counts: RowIndices = np.diff(self.captions.indptr)
        return counts

    def pair_keys(self, query: RowIndices, answer: RowIndices) -> RowIndices:
        """Return pairs of query and answer as single numbers."""
        return query * self.count + answer

    def pairs_of_keys(self, keys: RowIndices) -> tuple[RowIndices, RowIndices]:
        """Return the query and the answer of each key."""
        return np.divmod(keys, max(self.count, 1))

    @cached_property
    def own_answer(self) -> RowIndices:
        """Return the first answer of each query, -1 where it has none."""
        own = np.full(len(self.query_ids), -1)
        answer, query = self.captions.nonzero()
        own[query[::-1]] = answer[::-1]
        return own

    def representative_images(self) -> RowIndices:
        """Return the first image of each answer."""
        return np.unique(self.answer, return_index=True)[1]


def build_answer_index(
    queries: pd.DataFrame, qrels: pd.DataFrame, images: pd.DataFrame, duplicates: pd.DataFrame | None
) -> AnswerIndex:
    """Return the index, independent of the order of rows. Raises ValueError for a judgment of an unknown query or
    image."""
    query_ids, query_rows = _sorted(queries["query_id"])
    image_ids, image_rows = _sorted(images["image_id"])
    answer = pd.factorize(group_images(images, duplicates).to_numpy()[image_rows])[0].astype(np.int64)
    count = int(answer.max(initial=-1)) + 1
    query, judged = _places(qrels["query_id"], query_ids), answer[_places(qrels["image_id"], image_ids)]
    relevant = qrels["relevance"].to_numpy() > 0
    return AnswerIndex(
        query_ids,
        queries["text"].to_numpy(dtype=object)[query_rows],
        image_ids,
        query_rows,
        image_rows,
        answer,
        _mark(judged[relevant], query[relevant], (count, len(query_ids))),
        np.unique(query * count + judged),
    )


def group_images(images: pd.DataFrame, duplicates: pd.DataFrame | None) -> pd.Series:
    """Return the duplicate group of each image, or the image id where it has none."""
    group = images["duplicate_group"].astype("object")
    if duplicates is not None and len(duplicates):
        known = duplicates.drop_duplicates("image_id").set_index("image_id")["duplicate_group"]
        group = group.where(group.notna(), images["image_id"].map(known))
    return group.where(group.notna(), images["image_id"])


def _sorted(ids: pd.Series) -> tuple[Texts, RowIndices]:
    plain = ids.to_numpy(dtype=object)
    rows = np.argsort(plain, kind="stable")
    return plain[rows], rows


def _places(names: pd.Series, ids: Texts) -> RowIndices:
    wanted = pd.Index(names.astype("str").to_numpy(dtype=object))
    places: RowIndices = pd.Index(ids).get_indexer(wanted).astype(np.int64)
    if (places < 0).any():
        raise ValueError(f"a judgment names the unknown id {names.iloc[int(np.argmin(places))]!r}")
    return places


def _mark(rows: RowIndices, columns: RowIndices, shape: tuple[int, int]) -> csr_matrix:
    """Return a matrix with ones at these rows and columns."""
    return _ones(csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape))


def _ones(matrix: csr_matrix) -> csr_matrix:
    matrix.data[:] = 1
    return matrix


class CaptionIndex:
    """The content of every query and of every answer's captions: words (rows, vocabulary) as ones in sparse matrices,
    values as bits; `rarity`: the inverse document frequency of each word. Descriptions count if all of a query must be
    said or nothing may refute it, and in no feature: lines are fitted to captions alone."""

    def __init__(self, answers: AnswerIndex, descriptions: pd.DataFrame | None = None) -> None:
        texts, self._texts_of_answer = answers.texts.tolist(), answers.captions
        if descriptions is not None:
            image = pd.Index(answers.image_ids).get_indexer(descriptions["image_id"])
            texts += descriptions["text"][image >= 0].tolist()
            owner = answers.answer[image[image >= 0]]
            described = _mark(owner, np.arange(len(owner)), (answers.count, len(owner)))
            self._texts_of_answer = hstack([answers.captions, described], format="csr")
        self._answers, self._texts, self.values = answers, texts, ValueReader()
        words = pd.Series([list_words(parse_phrases(text)) for text in texts], dtype=object).explode().dropna()
        columns, self._names = pd.factorize(words)
        self._words = _mark(words.index.to_numpy(), columns, (len(texts), len(self._names)))
        self.query_words = self._words[: len(answers.texts)]
        self.answer_words = _ones(answers.captions @ self.query_words)
        self._values = np.array([self.values.read(text) for text in texts], dtype=np.int64)
        self._caption_values, self._text_values = map(self._join_values, (answers.captions, self._texts_of_answer))
        counts = np.asarray(self.answer_words.sum(axis=0)).ravel()
        captioned_count = np.count_nonzero(answers.caption_counts)
        self.rarity: FloatArray = np.log((captioned_count + 1) / (counts + 0.5)).clip(0)

    def _join_values(self, texts_of_answer: csr_matrix) -> RowIndices:
        answer, text = texts_of_answer.nonzero()
        values = np.zeros(self._answers.count, dtype=np.int64)
        np.bitwise_or.at(values, answer, self._values[text])
        return values

    def measure_background(self) -> float:
        """Return how similar the words of unrelated images are: the mean cosine of two answers with captions by their
        words, with more weight on rare ones; 1 for fewer than two."""
        weighted = self.answer_words.multiply(self.rarity).tocsr()
        lengths = norm(weighted, axis=1)
        total, count = weighted.T @ (1 / np.maximum(lengths, 1e-9)), np.count_nonzero(lengths)
        # The square of a sum of n vectors of length one is n, and twice the sum of the cosines of their pairs.
        return round(float((total @ total - count) / (count * (count - 1))), 4) if count > 1 else 1.0

    def find_covering(self, queries: RowIndices, most: int) -> RowIndices:
        """Return the keys of the unjudged pairs of each query and the first `most` answers whose texts say all of
        it."""
        judged, count = self._answers.judged_keys, self._answers.count
        keys: list[int] = []
        for row in queries.tolist():
            first, last = judged.searchsorted([row * count, (row + 1) * count])
            found = self._find_all_words(row, judged[first:last] % count)
            covering = (answer for answer in found.tolist() if self._says_all(answer, row))
            keys += [row * count + answer for answer in islice(covering, most)]
        return np.array(keys, dtype=np.int64)

    def _find_all_words(self, query: int, judged: RowIndices) -> RowIndices:
        """Return the unjudged answers whose texts have all words of the query."""
        lists = sorted((_columns(self._answers_of_word, word) for word in _columns(self._words, query)), key=len)
        left = np.setdiff1d(lists[0], judged) if lists else judged[:0]
        for other in lists[1:]:
            if len(left):  # the place of each in the longer list: 3 and 8 among 1, 3, 7 are at 1 and, cut, at 2
                left = left[other[np.minimum(other.searchsorted(left), len(other) - 1)] == left]
        return left

    @cached_property
    def _answers_of_word(self) -> csr_matrix:
        matrix = (self._texts_of_answer @ self._words).T.tocsr()
        matrix.sort_indices()
        return matrix

    def _says_all(self, answer: int, query: int) -> bool:
        rows = _columns(self._texts_of_answer, answer).tolist()
        known = {phrase for row in rows for phrase in parse_phrases(self._texts[row])}
        return say_all(known, parse_phrases(self._texts[query]))

    def find_closest_text(self, query: int, answer: int) -> tuple[str, int, list[str]]:
        """Return the text of the answer that lacks fewest of the query's words, the row of the query that it is the
        text of (-1: it is a description), and the query's words that no text of the answer has, in their order."""
        wanted, rows = set(_columns(self._words, query).tolist()), _columns(self._texts_of_answer, answer).tolist()
        lacking = [wanted.difference(_columns(self._words, row).tolist()) for row in rows]
        missing = {self._names[word] for word in wanted.intersection(*lacking)}
        row = min(zip(map(len, lacking), rows, strict=True), default=(0, -1))[1]
        is_caption = row < len(self._answers.texts)
        return self._texts[row] if rows else "", row if is_caption else -1, restore_words(self._texts[query], missing)

    def contradict(self, query: RowIndices, answer: RowIndices, *, with_descriptions: bool = False) -> BoolArray:
        """Return which groups of values (n, groups) the query states while the answer's captions state only others."""
        values = self._text_values if with_descriptions else self._caption_values
        asked, known = self._values[query][:, None], values[answer][:, None]
        groups = np.array(list(self.values.groups.values()))
        contradicted: BoolArray = ((asked & groups) != 0) & ((known & groups) != 0) & ((asked & known & groups) == 0)
        return contradicted

    def refute(self, query: RowIndices, answer: RowIndices) -> BoolArray:
        """Return whether (n,) all texts of the answer contradict the query, or lack a value of DISTINCTIVE groups that
        it states."""
        distinctive = sum(self.values.groups[group] for group in DISTINCTIVE)
        is_lacking = (self._values[query] & ~self._text_values[answer] & distinctive) != 0
        is_refuted: BoolArray = is_lacking | self.contradict(query, answer, with_descriptions=True).any(axis=1)
        return is_refuted


def _columns(matrix: csr_matrix, row: int) -> RowIndices:
    """Return the columns of a row that are not zero."""
    columns: RowIndices = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
    return columns
