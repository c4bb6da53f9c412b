"""What is said of each answer, and which answers a query's words fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.recall.answers import Answers
from builders.recall.neighbours import Pairs, Rows
from builders.recall.phrases import Phrase, Said, lacking, read_phrases


class Spoken:
    """The phrases of every query, and of every answer those of all that was said of it."""

    def __init__(self, answers: Answers, descriptions: pd.DataFrame | None) -> None:
        self.queries = [read_phrases(text) for text in answers.texts]
        of_answers: list[set[Phrase]] = [set() for _ in range(answers.count)]
        for query, answer in zip(*(side.tolist() for side in answers.speakers()), strict=True):
            of_answers[answer] |= self.queries[query]
        self._descriptions: dict[int, list[tuple[Said, str]]] = {}
        if descriptions is not None:
            place = dict(zip(answers.image_ids, answers.answer.tolist(), strict=True))
            for name, text in zip(descriptions["image_id"], descriptions["text"], strict=True):
                if name in place:
                    phrases = read_phrases(text)
                    of_answers[place[name]] |= phrases
                    self._descriptions.setdefault(place[name], []).append((phrases, text))
        self.answers: list[Said] = [frozenset(said) for said in of_answers]

    def fitting(self, judged: Rows, most: int) -> Pairs:
        """Query and answer of every pair in which all that the query says is said of the answer: the first `most` of a
        query, judged ones left out."""
        index = self._index()
        found = [
            (query, answer)
            for query, said in enumerate(self.queries)
            for answer in _first(self._fits(query, said, index, judged), most)
        ]
        left, right = zip(*found, strict=True) if found else ((), ())
        return np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)

    def description(self, said: Said, answer: int) -> str:
        """The description of an answer that says most of that; '' where there is none."""
        known = self._descriptions.get(answer, [])
        return min(known, key=lambda one: (len(lacking(said, one[0])), one[1]), default=(said, ""))[1]

    def _index(self) -> dict[str, Rows]:
        """The answers of which a character or word was said, ascending."""
        listed: dict[str, list[int]] = {}
        for answer, said in enumerate(self.answers):
            for unit in {unit for phrase in said for unit in phrase}:
                listed.setdefault(unit, []).append(answer)
        return {unit: np.array(answers, dtype=np.int64) for unit, answers in listed.items()}

    def _fits(self, query: int, said: Said, index: dict[str, Rows], judged: Rows) -> Iterator[int]:
        lists = sorted((index.get(unit, _NONE) for unit in {u for phrase in said for u in phrase}), key=len)
        if not lists:
            return  # nothing but small words: it fits all, and tells nothing
        left = lists[0]
        for other in lists[1:]:
            left = left[_contains(other, left)]
        keys = query * len(self.answers) + left
        for answer in left[~_contains(judged, keys)].tolist():
            if not lacking(said, self.answers[answer]):
                yield answer


_NONE = np.empty(0, dtype=np.int64)


def _contains(ascending: Rows, values: Rows) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    found: NDArray[np.bool_] = ascending[np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)] == values
    return found


def _first(answers: Iterator[int], most: int) -> list[int]:
    return [answer for answer, _ in zip(answers, range(most), strict=False)]
