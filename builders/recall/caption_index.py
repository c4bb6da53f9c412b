"""Which query is a caption of which answer, and what the captions of each say, as arrays in the order of ids.

An answer is an image or a duplicate group: near-duplicates are one answer and never confusable with each other.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from builders.recall.caption_words import (
    Phrase,
    ValueReader,
    list_units,
    list_words,
    parse_phrases,
    restore_words,
    say_all,
)
from querytruth.array_types import BoolArray, FloatArray, RowIndices

Texts = NDArray[np.object_]
DISTINCTIVE = ("number", "colour", "time", "negation")  # what is not said of an image does not hold


class MemberIndex:
    """The members of each of `count` owners. `owner`: the owner of each member, -1 for none."""

    def __init__(self, owner: RowIndices, count: int) -> None:
        owned = np.flatnonzero(owner >= 0)
        self.members = owned[np.argsort(owner[owned], kind="stable")]
        self.sizes = np.bincount(owner[owned], minlength=count)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def members_of(self, owners: RowIndices) -> tuple[RowIndices, RowIndices]:
        """Returns for every member of the owners the position of its owner in `owners`, and the member."""
        sizes = self.sizes[owners]
        # Ranges one after the other: starts [7, 2] and sizes [3, 1] give [7, 8, 9, 2].
        numbers = np.arange(int(sizes.sum())) + np.repeat(self.starts[owners] - (np.cumsum(sizes) - sizes), sizes)
        return np.repeat(np.arange(len(owners)), sizes), self.members[numbers]


@dataclass(frozen=True)
class AnswerIndex:
    """Queries and images sorted by id; `query_rows` and `image_rows` are their rows in the given frames.

    `answer` is the answer of each image, numbered in the order of the images, `count` the number of answers;
    `relevant_query` and `relevant_image` pair each query with its relevant images; `judged_keys` are the sorted keys
    of all judged pairs (`pair_keys`).
    """

    query_ids: Texts
    texts: Texts
    image_ids: Texts
    query_rows: RowIndices
    image_rows: RowIndices
    answer: RowIndices
    count: int
    relevant_query: RowIndices
    relevant_image: RowIndices
    judged_keys: RowIndices

    def pair_keys(self, query: RowIndices, answer: RowIndices) -> RowIndices:
        """Returns pairs of query and answer as single numbers."""
        return query * self.count + answer

    def pairs_of_keys(self, keys: RowIndices) -> tuple[RowIndices, RowIndices]:
        """Returns the query and the answer of each key."""
        return keys // max(self.count, 1), keys % max(self.count, 1)

    def caption_answer_pairs(self) -> tuple[RowIndices, RowIndices]:
        """Returns the distinct pairs of a query and an answer that it is a caption of."""
        return self.pairs_of_keys(np.unique(self.pair_keys(self.relevant_query, self.answer[self.relevant_image])))

    @cached_property
    def captions_by_answer(self) -> MemberIndex:
        """The places, among `caption_answer_pairs`, of the captions of each answer."""
        return MemberIndex(self.caption_answer_pairs()[1], self.count)

    @cached_property
    def images_by_answer(self) -> MemberIndex:
        """The images of each answer."""
        return MemberIndex(self.answer, self.count)

    @cached_property
    def own_answer(self) -> RowIndices:
        """The first answer of each query, -1 where it has none."""
        own = np.full(len(self.query_ids), -1)
        query, answer = self.caption_answer_pairs()
        own[query[::-1]] = answer[::-1]
        return own

    def representative_images(self) -> RowIndices:
        """Returns the first image of each answer."""
        return np.unique(self.answer, return_index=True)[1]


def build_answer_index(
    queries: pd.DataFrame, qrels: pd.DataFrame, images: pd.DataFrame, duplicates: pd.DataFrame | None
) -> AnswerIndex:
    """Returns the index, independent of the order of rows. Raises ValueError for a judgment of an unknown query or
    image."""
    query_ids, query_rows = _sorted(queries["query_id"])
    image_ids, image_rows = _sorted(images["image_id"])
    answer = pd.factorize(_groups(images, duplicates)[image_rows])[0].astype(np.int64)
    count = int(answer.max(initial=-1)) + 1
    query, image = _places(qrels["query_id"], query_ids), _places(qrels["image_id"], image_ids)
    relevant = qrels["relevance"].to_numpy() > 0
    return AnswerIndex(
        query_ids,
        queries["text"].to_numpy(dtype=object)[query_rows],
        image_ids,
        query_rows,
        image_rows,
        answer,
        count,
        query[relevant],
        image[relevant],
        np.unique(query * count + answer[image]),
    )


def _sorted(ids: pd.Series) -> tuple[Texts, RowIndices]:
    plain = ids.to_numpy(dtype=object)
    rows = np.argsort(plain, kind="stable")
    return plain[rows], rows


def _places(names: pd.Series, ids: Texts) -> RowIndices:
    wanted = pd.Index(names.astype("str").to_numpy(dtype=object))
    places: RowIndices = pd.Index(ids).get_indexer(wanted).astype(np.int64)
    if (places < 0).any():
        raise ValueError(f"a judgment names {names.iloc[int(np.argmin(places))]!r}, which is in no table")
    return places


def _groups(images: pd.DataFrame, duplicates: pd.DataFrame | None) -> Any:
    """Returns the duplicate group of each image, or the image id where it has none."""
    group = images["duplicate_group"].astype("object")
    if duplicates is not None and len(duplicates):
        known = duplicates.drop_duplicates("image_id").set_index("image_id")["duplicate_group"]
        group = group.where(group.notna(), images["image_id"].map(known))
    return group.where(group.notna(), images["image_id"]).to_numpy(dtype=object)


class CaptionIndex:
    """What every query and the captions of every answer say: words (rows, vocabulary) as ones in sparse matrices,
    values as bits; `rarity`: the inverse document frequency of each word. Descriptions count where all of a query must
    be said or nothing may refute it, and in no feature: lines are fitted to captions alone."""

    def __init__(self, answers: AnswerIndex, descriptions: pd.DataFrame | None = None) -> None:
        text, answer = captions = answers.caption_answer_pairs()
        texts, count = answers.texts.tolist(), len(answers.texts)
        if descriptions is not None:
            image = pd.Index(answers.image_ids).get_indexer(descriptions["image_id"])
            texts += descriptions["text"][image >= 0].tolist()
            text = np.concatenate([text, np.arange(count, len(texts))])
            answer = np.concatenate([answer, answers.answer[image[image >= 0]]])
        self._answers, self._texts = answers, texts
        self._rows, self._texts_of_answer = text, MemberIndex(answer, answers.count)
        words, units, self.values = _NumberedRows(), _NumberedRows(), ValueReader()
        bits = np.zeros(len(texts), dtype=np.int64)
        for row, one in enumerate(texts):
            phrases = parse_phrases(one)
            words.add(list_words(phrases))
            units.add(list_units(phrases))
            bits[row] = self.values.read(one)
        captioned, described = (
            csr_matrix((np.ones(len(rows), dtype=np.float32), (owners, rows)), (answers.count, len(texts)))
            for rows, owners in (captions, (text, answer))
        )
        self._words, self._units, self._names = words.build_matrix(), units.build_matrix(), list(words.numbers)
        self.query_words, self.answer_words = self._words[:count], _mark(captioned @ self._words)
        self._answer_units = _mark(described @ self._units)
        self._values, self._caption_values, self._text_values = bits, *np.zeros((2, answers.count), dtype=np.int64)
        np.bitwise_or.at(self._caption_values, captions[1], bits[captions[0]])
        np.bitwise_or.at(self._text_values, answer, bits[text])
        counts = np.asarray(self.answer_words.sum(axis=0)).ravel()
        captioned_count = np.count_nonzero(np.diff(captioned.indptr))
        self.rarity: FloatArray = np.log((captioned_count + 1) / (counts + 0.5)).clip(0)

    def are_covered(self, query: RowIndices, answer: RowIndices) -> BoolArray:
        """Returns whether (n,) the captions of each answer say all of the query. Only where they have all of its units
        are phrases compared."""
        wanted = np.diff(self._units.indptr)[query]
        shared = np.asarray(self._units[query].multiply(self._answer_units[answer]).sum(axis=1)).ravel()
        is_covered: BoolArray = (wanted > 0) & (shared == wanted)
        for row in np.flatnonzero(is_covered).tolist():
            is_covered[row] = self._says_all(int(answer[row]), int(query[row]))
        return is_covered

    def _says_all(self, answer: int, query: int) -> bool:
        return say_all(self._parse_answer(answer), parse_phrases(self._texts[query]))

    def find_covering(self, start: int, end: int, most: int) -> tuple[RowIndices, RowIndices]:
        """Returns the unjudged pairs (query, answer), in order, of the queries from `start` to `end` and the first
        `most` answers of each whose captions say all of it."""
        (owners, starts), judged = self._answers_of_unit, self._answers.judged_keys
        count = self._answers.count
        bounds = pairwise(judged.searchsorted(np.arange(start, end + 1) * count).tolist())
        pairs: list[tuple[int, int]] = []
        for row, (first, last) in zip(range(start, end), bounds, strict=True):
            wanted = self._units.indices[self._units.indptr[row] : self._units.indptr[row + 1]]
            lists = sorted((owners[starts[unit] : starts[unit + 1]] for unit in wanted), key=len)
            left = np.setdiff1d(lists[0], judged[first:last] % count) if lists else _NONE
            for other in lists[1:]:
                if len(left):
                    left = left[other[np.minimum(other.searchsorted(left), len(other) - 1)] == left]
            covering = (answer for answer in left.tolist() if self._says_all(answer, row))
            pairs += [(row, answer) for answer in islice(covering, most)]
        query, answer = zip(*pairs, strict=True) if pairs else ((), ())
        return np.array(query, dtype=np.int64), np.array(answer, dtype=np.int64)

    def _parse_answer(self, answer: int) -> set[Phrase]:
        return {phrase for row in self._list_texts(answer) for phrase in parse_phrases(self._texts[row])}

    def _list_texts(self, answer: int) -> list[int]:
        starts = self._texts_of_answer.starts
        rows: list[int] = self._rows[self._texts_of_answer.members[starts[answer] : starts[answer + 1]]].tolist()
        return rows

    @cached_property
    def _answers_of_unit(self) -> tuple[RowIndices, RowIndices]:
        """The answers of all units, one unit after the other, and where each unit starts."""
        columns = self._answer_units.tocsc()
        columns.sort_indices()
        return columns.indices, columns.indptr

    def find_closest_text(self, query: int, answer: int) -> tuple[str, int, list[str]]:
        """Returns the text of the answer that lacks fewest of the query's words, the row of the query that it is the
        text of (-1: it is a description), and the query's words that no text of the answer has, in their order."""
        wanted, rows = self._list_words(query), self._list_texts(answer)
        lacking = [wanted.difference(self._list_words(row)) for row in rows]
        missing = {self._names[word] for word in wanted.intersection(*lacking)}
        row = min(zip(map(len, lacking), rows, strict=True), default=(0, -1))[1]
        is_caption = row < len(self._answers.texts)
        return self._texts[row] if rows else "", row if is_caption else -1, restore_words(self._texts[query], missing)

    def _list_words(self, row: int) -> set[int]:
        return set(self._words.indices[self._words.indptr[row] : self._words.indptr[row + 1]].tolist())

    def contradict(self, query: RowIndices, answer: RowIndices) -> BoolArray:
        """Returns of which groups of values (n, groups) the query states one and the answer's captions only others."""
        return self._contradict(self._values[query], self._caption_values[answer])

    def refute(self, query: RowIndices, answer: RowIndices) -> BoolArray:
        """Returns whether (n,) all texts of the answer contradict the query, or lack a value of DISTINCTIVE groups that
        it states."""
        asked, known = self._values[query], self._text_values[answer]
        distinctive = sum(self.values.groups[group] for group in DISTINCTIVE)
        is_refuted: BoolArray = self._contradict(asked, known).any(axis=1) | ((asked & ~known & distinctive) != 0)
        return is_refuted

    def _contradict(self, asked: RowIndices, known: RowIndices) -> BoolArray:
        asked, known, groups = asked[:, None], known[:, None], np.array(list(self.values.groups.values()))
        contradicted: BoolArray = ((asked & groups) != 0) & ((known & groups) != 0) & ((asked & known & groups) == 0)
        return contradicted


_NONE = np.empty(0, dtype=np.int64)


class _NumberedRows:
    """Rows of names, each name as a number."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self._numbers, self._ends = array("i"), array("i", [0])

    def add(self, names: Iterable[Any]) -> None:
        known = self.numbers
        self._numbers.extend(known.setdefault(name, len(known)) for name in names)
        self._ends.append(len(self._numbers))

    def build_matrix(self) -> csr_matrix:
        numbers, ends = np.array(self._numbers), np.array(self._ends)
        ones = np.ones(len(numbers), dtype=np.float32)
        return csr_matrix((ones, numbers, ends), (len(ends) - 1, len(self.numbers)))


def _mark(matrix: csr_matrix) -> csr_matrix:
    matrix.data[:] = 1
    return matrix
