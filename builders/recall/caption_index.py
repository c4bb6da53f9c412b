"""The phrases of every query and every answer, and the answers that cover a query."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.array_types import RowIndices
from builders.recall.answer_index import AnswerIndex, MemberIndex
from builders.recall.phrases import Phrase, Phrases, covers_all, find_missing_units, parse_phrases


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
        index = PhraseIndex(self.answer_phrases)
        count, queries = len(self.answer_phrases), len(self.query_phrases)
        bounds = judged.searchsorted(np.arange(queries + 1) * count).tolist()
        judged_answers = judged % max(count, 1)
        pairs = [
            (query, answer)
            for query, phrases in enumerate(self.query_phrases)
            for answer in islice(self._fits(phrases, index, judged_answers[bounds[query] : bounds[query + 1]]), most)
        ]
        left, right = zip(*pairs, strict=True) if pairs else ((), ())
        return np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)

    def best_description(self, query_phrases: Phrases, answer: int) -> str:
        """Returns the description of an answer that covers most of the phrases; '' where it has none."""
        known = self._descriptions.get(answer, [])
        return min(((len(find_missing_units(query_phrases, own)), text) for own, text in known), default=(0, ""))[1]

    def _fits(self, phrases: Phrases, index: "PhraseIndex", judged: RowIndices) -> Iterator[int]:
        """Yields the answers, ascending, that cover the phrases; none where stop words alone are left, which fit every
        image."""
        known = judged.tolist()
        for answer in index.find_answers(phrases).tolist():
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
