"""The phrases of every query and every answer, and the answers that cover a query."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.array_types import RowIndices
from builders.recall.answer_index import AnswerIndex
from builders.recall.phrases import Phrase, Phrases, find_missing_units, parse_phrases


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

    def find_covered_pairs(self, judged: RowIndices, most: int) -> tuple[RowIndices, RowIndices]:
        """Returns the unjudged pairs (query, answer) in which the phrases of the answer cover those of the query: the
        first `most` of each query. `judged`: sorted keys of the judged pairs."""
        index = self._index()
        pairs = [
            (query, answer)
            for query, phrases in enumerate(self.query_phrases)
            for answer in islice(self._fits(query, phrases, index, judged), most)
        ]
        left, right = zip(*pairs, strict=True) if pairs else ((), ())
        return np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)

    def best_description(self, query_phrases: Phrases, answer: int) -> str:
        """Returns the description of an answer that covers most of the phrases; '' where it has none."""
        known = self._descriptions.get(answer, [])
        return min(((len(find_missing_units(query_phrases, own)), text) for own, text in known), default=(0, ""))[1]

    def _index(self) -> dict[str, RowIndices]:
        """Returns for each character or word the answers whose phrases contain it, ascending."""
        listed: dict[str, list[int]] = {}
        for answer, phrases in enumerate(self.answer_phrases):
            for unit in {unit for phrase in phrases for unit in phrase}:
                listed.setdefault(unit, []).append(answer)
        return {unit: np.array(answers, dtype=np.int64) for unit, answers in listed.items()}

    def _fits(self, query: int, phrases: Phrases, index: dict[str, RowIndices], judged: RowIndices) -> Iterator[int]:
        lists = sorted((index.get(unit, _NONE) for unit in {u for phrase in phrases for u in phrase}), key=len)
        if not lists:
            return  # stop words alone fit every image
        left = lists[0][~_contains(judged, query * len(self.answer_phrases) + lists[0])]
        for other in lists[1:]:
            if not len(left):
                return
            left = left[_contains(other, left)]
        for answer in left.tolist():
            if not find_missing_units(phrases, self.answer_phrases[answer]):
                yield answer


_NONE = np.empty(0, dtype=np.int64)


def _contains(ascending: RowIndices, values: RowIndices) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    places = np.minimum(ascending.searchsorted(values), len(ascending) - 1)
    is_present: NDArray[np.bool_] = ascending[places] == values
    return is_present
