"""The phrases of every query and every answer, as numbers in an order of ids, and the answers that cover a query.

An answer is an image or a duplicate group: near-duplicates are one answer and never confusable with each other.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.recall.phrases import Phrase, Phrases, covers_all, find_missing_units, parse_phrases
from querytruth.array_types import RowIndices

Texts = NDArray[np.object_]


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
        members: Any = self.members[list_ranges(self.starts[owners], sizes)]
        return np.repeat(np.arange(len(owners)), sizes), members


def list_ranges(starts: RowIndices, sizes: RowIndices) -> RowIndices:
    """Returns the numbers of ranges, one after the other: starts [7, 2] and sizes [3, 1] give [7, 8, 9, 2]."""
    numbers: RowIndices = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return numbers


def group_pairs(owner: RowIndices) -> Iterator[tuple[int, RowIndices]]:
    """Yields each owner of pairs (n,), ascending, and the places of its pairs."""
    order = np.argsort(owner, kind="stable")
    bounds = np.flatnonzero(np.diff(owner[order], prepend=-1, append=-1)).tolist()
    for start, end in pairwise(bounds):
        yield int(owner[order[start]]), order[start:end]


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

    def max_judged_per_query(self) -> int:
        """Returns the largest number of judged answers of a query."""
        return int(np.bincount(self.pairs_of_keys(self.judged_keys)[0], minlength=1).max())

    @cached_property
    def images_by_answer(self) -> MemberIndex:
        """The images of each answer."""
        return MemberIndex(self.answer, self.count)

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
    """The phrases of every query, and of all captions and descriptions of every answer."""

    def __init__(self, answers: AnswerIndex, descriptions: pd.DataFrame | None) -> None:
        self.query_phrases = [parse_phrases(text) for text in answers.texts]
        of_answers: list[set[Phrase]] = [set() for _ in range(answers.count)]
        for query, answer in zip(*(side.tolist() for side in answers.caption_answer_pairs()), strict=True):
            of_answers[answer] |= self.query_phrases[query]
        self._descriptions: dict[int, list[tuple[Phrases, str]]] = {}
        if descriptions is not None:
            place = dict(zip(answers.image_ids, answers.answer.tolist(), strict=True))
            for name, text in zip(descriptions["image_id"], descriptions["text"], strict=True):
                if name in place:
                    phrases = parse_phrases(text)
                    of_answers[place[name]] |= phrases
                    self._descriptions.setdefault(place[name], []).append((phrases, text))
        self.answer_phrases: list[Phrases] = [frozenset(phrases) for phrases in of_answers]

    def find_covered_pairs(
        self, judged: RowIndices, most: int, queries: range | None = None
    ) -> tuple[RowIndices, RowIndices]:
        """Returns the unjudged pairs (query, answer) in which the phrases of the answer cover those of the query: the
        first `most` of each of the `queries` (None: of all). `judged`: sorted keys of the judged pairs."""
        count = len(self.answer_phrases)
        queries = range(len(self.query_phrases)) if queries is None else queries
        bounds = judged.searchsorted(np.arange(queries.start, queries.stop + 1) * count).tolist()
        pairs = [
            (query, answer)
            for query, (first, last) in zip(queries, pairwise(bounds), strict=True)
            for answer in islice(self._fits(self.query_phrases[query], judged[first:last] % max(count, 1)), most)
        ]
        left, right = zip(*pairs, strict=True) if pairs else ((), ())
        return np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)

    def best_description(self, query_phrases: Phrases, answer: int) -> str:
        """Returns the description of an answer that covers most of the phrases; '' where it has none."""
        known = self._descriptions.get(answer, [])
        return min(((len(find_missing_units(query_phrases, own)), text) for own, text in known), default=(0, ""))[1]

    def are_covered(self, query: RowIndices, answer: RowIndices) -> NDArray[np.bool_]:
        """Returns whether (n,) the phrases of each answer cover those of the query; those of stop words alone are never
        covered. Only answers with all units of a query are compared phrase by phrase."""
        result = np.zeros(len(query), dtype=bool)
        for one, rows in group_pairs(query):
            phrases = self.query_phrases[one]
            found = self._index.find_answers(phrases)
            for row in rows[_contains(found, answer[rows])].tolist() if len(found) else ():
                result[row] = covers_all(self.answer_phrases[answer[row]], phrases)
        return result

    @cached_property
    def _index(self) -> "PhraseIndex":
        return PhraseIndex(self.answer_phrases)

    def _fits(self, phrases: Phrases, judged: RowIndices) -> Iterator[int]:
        """Yields the answers, ascending, that cover the phrases; none where stop words alone are left, which fit every
        image."""
        known = judged.tolist()
        for answer in self._index.find_answers(phrases).tolist():
            if answer not in known and covers_all(self.answer_phrases[answer], phrases):
                yield answer


class PhraseIndex:
    """The answers of each unit of a phrase together with the phrase's head: of "brown dog" those with a brown dog, not
    those with something brown and a dog."""

    def __init__(self, answer_phrases: Sequence[Phrases]) -> None:
        self._codes: dict[tuple[str, str], int] = {}
        codes, answers = array("q"), array("q")
        for answer, phrases in enumerate(answer_phrases):
            of_answer = {(unit, phrase[-1]) for phrase in phrases for unit in phrase}
            codes.extend(self._codes.setdefault(pair, len(self._codes)) for pair in of_answer)
            answers.extend([answer] * len(of_answer))
        members = MemberIndex(np.array(codes, dtype=np.int64), len(self._codes))
        self._answers, self._starts = np.array(answers, dtype=np.int64)[members.members], members.starts.tolist()

    def find_answers(self, phrases: Phrases) -> RowIndices:
        """Returns the answers, ascending, that have all units of the phrases with the same heads; none of no phrase."""
        codes = {self._codes.get((unit, phrase[-1]), -1) for phrase in phrases for unit in phrase}
        if not codes or -1 in codes:
            return _NONE
        starts = self._starts
        slices = sorted((starts[code + 1] - starts[code], starts[code]) for code in codes)
        left = self._answers[slices[0][1] : sum(slices[0])]
        for size, start in slices[1:]:
            if len(left) <= _FEW:
                break  # to compare the phrases costs less
            left = left[_contains(self._answers[start : start + size], left)]
        return left


_NONE = np.empty(0, dtype=np.int64)
_FEW = 3  # answers


def _contains(ascending: RowIndices, values: RowIndices) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    places = np.minimum(ascending.searchsorted(values), len(ascending) - 1)
    is_present: NDArray[np.bool_] = ascending[places] == values
    return is_present
