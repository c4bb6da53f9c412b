"""How sure a rival is: what was measured of each candidate, and the one score made of it.

The score of a query and a rival, 0 to 1, is the first of these that can be told:

- **said**: all that the query says is said of the rival's picture, too (`phrases`): 1.
- **alike**: how near the two captions are, or, with picture vectors, the two pictures, whichever is nearer: 0.5 at its
  cut, 1 at the cosine 1, in a straight line; the captions' is 0 where a word that tells apart differs (red for blue).
- with vectors of both kinds in one space, the root of alike times **across**: how near the query is to the rival's
  picture beside its own: 1 where nearer, 0.5 at `margin` farther, 0 at twice that. Both must speak for it: an embedder
  that takes one picture for the other is no proof alone, and queries would be left that it finds easy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.array_types import FloatArray, RowIndices, Vectors
from builders.recall.answer_index import AnswerIndex
from builders.recall.caption_index import CaptionIndex
from builders.recall.neighbours import MemberIndex, pair_cosines
from builders.recall.phrases import distinguishing_units, find_missing_units

CONFUSABLE_COLUMNS = [
    "query_id",
    "image_id",
    "rival_query_id",
    "score",
    "said",
    "captions",
    "images",
    "across",
    "evidence",
]


@dataclass(frozen=True, slots=True)
class ConfusableRules:
    """`rivals`: how many a query's table lists; `captions`, `pictures`: cosines from which two are near (what that is
    depends on the embedder); `margin`: of a cosine; `at_least`: the score from which a query is ambiguous."""

    max_listed: int = 5
    min_caption_cosine: float = 0.9
    min_image_cosine: float = 0.9
    margin: float = 0.02
    min_score: float = 0.5


@dataclass(frozen=True, slots=True)
class QueryImageVectors:
    """Vectors, each normalised, their rows those of the frames: `captions` of queries; `across` of queries, in the
    space of `pictures`, which are of images. None: not given."""

    captions: Vectors | None = None
    across: Vectors | None = None
    images: Vectors | None = None


def own_image_cosines(answers: AnswerIndex, query_vectors: Vectors, image_vectors: Vectors) -> FloatArray:
    """Per query the cosine with the nearest of its own pictures; of a query without one, more than any."""
    own = np.full(len(query_vectors), -np.inf)
    np.maximum.at(
        own,
        answers.relevant_query,
        pair_cosines(query_vectors, image_vectors, answers.relevant_query, answers.relevant_image),
    )
    return np.where(np.isinf(own), 2.0, own)


class CandidateCosines:
    """Every candidate's cosines, NaN where vectors are missing, and the captions that were compared."""

    def __init__(self, answers: AnswerIndex, vectors: QueryImageVectors, query: RowIndices, answer: RowIndices) -> None:
        self.query, self.answer = query, answer
        caption_query, of_answer = answers.caption_answer_pairs()
        self.place, pair = MemberIndex(of_answer, answers.count).members_of(answer)
        self.caption = caption_query[pair]  # per compared caption its query; `place`: its candidate
        self.compared_cosine = np.full(len(self.caption), np.nan)
        if vectors.captions is not None:
            self.compared_cosine = pair_cosines(vectors.captions, vectors.captions, query[self.place], self.caption)
        self.caption_cosine = _most(self.compared_cosine, self.place, len(query))
        self.image_cosine = self.query_image_cosine = np.full(len(query), np.nan)
        if vectors.images is not None:
            self._measure_images(answers, vectors, vectors.images)

    def _measure_images(self, answers: AnswerIndex, vectors: QueryImageVectors, image_vectors: Vectors) -> None:
        place, image = MemberIndex(answers.answer, answers.count).members_of(self.answer)
        if vectors.across is not None:
            own = own_image_cosines(answers, vectors.across, image_vectors)[self.query]
            near = pair_cosines(vectors.across, image_vectors, self.query[place], image)
            self.query_image_cosine = (_most(near, place, len(self.query)) - own).round(6)
        pair, relevant = MemberIndex(answers.relevant_query, len(answers.query_ids)).members_of(self.query[place])
        near = pair_cosines(image_vectors, image_vectors, answers.relevant_image[relevant], image[pair])
        self.image_cosine = _most(near, place[pair], len(self.query))


def _most(values: FloatArray, place: RowIndices, count: int) -> FloatArray:
    out = np.full(count, -np.inf)
    np.fmax.at(out, place, values)
    return np.where(np.isinf(out), np.nan, out)


def score_confusable_images(
    answers: AnswerIndex, caption_index: CaptionIndex, candidates: CandidateCosines, rules: ConfusableRules
) -> pd.DataFrame:
    """A row per candidate, with the columns COLUMNS."""
    missing = [
        find_missing_units(caption_index.query_phrases[query], caption_index.answer_phrases[answer])
        if caption_index.query_phrases[query]
        else ["?"]
        for query, answer in zip(candidates.query.tolist(), candidates.answer.tolist(), strict=True)
    ]
    distinguishing = [distinguishing_units(units) for units in missing]
    is_covered = np.array([not units for units in missing], dtype=bool)
    score = _score(is_covered, np.array([bool(units) for units in distinguishing], dtype=bool), candidates, rules)
    best_caption = _best_captions(caption_index, candidates)
    names = answers.image_ids[answers.representative_images()] if answers.count else answers.image_ids
    table = pd.DataFrame(
        {
            "query_id": answers.query_ids[candidates.query],
            "image_id": names[candidates.answer],
            "rival_query_id": pd.array(
                [None if row < 0 else answers.query_ids[row] for row in best_caption], dtype="str"
            ),
            "score": score,
            "said": is_covered,
            "captions": candidates.caption_cosine,
            "images": candidates.image_cosine,
            "across": candidates.query_image_cosine,
        }
    )
    texts = list(_quoted(answers, caption_index, candidates, is_covered.tolist(), best_caption))
    table["evidence"] = pd.array(_evidence(table, distinguishing, texts), dtype="str")
    return table[CONFUSABLE_COLUMNS]


def _quoted(
    answers: AnswerIndex,
    caption_index: CaptionIndex,
    candidates: CandidateCosines,
    is_covered: list[bool],
    best_captions: list[int],
) -> Iterator[str]:
    """Per candidate the text that speaks for it: a caption, or, where all is said only with it, a description."""
    for query, answer, whole, row in zip(
        candidates.query.tolist(), candidates.answer.tolist(), is_covered, best_captions, strict=True
    ):
        query_phrases, caption = caption_index.query_phrases[query], "" if row < 0 else str(answers.texts[row])
        is_caption_enough = not whole or (
            row >= 0 and not find_missing_units(query_phrases, caption_index.query_phrases[row])
        )
        yield caption if is_caption_enough else caption_index.best_description(query_phrases, answer) or caption


def _score(
    is_covered: NDArray[np.bool_],
    has_distinguishing: NDArray[np.bool_],
    candidates: CandidateCosines,
    rules: ConfusableRules,
) -> FloatArray:
    captions = np.where(
        has_distinguishing, 0.0, np.nan_to_num(_ramp(candidates.caption_cosine, rules.min_caption_cosine))
    )
    similarity = np.maximum(captions, np.nan_to_num(_ramp(candidates.image_cosine, rules.min_image_cosine)))
    query_image_score = (
        np.clip(1 + candidates.query_image_cosine / (2 * rules.margin), 0, 1)
        if rules.margin
        else candidates.query_image_cosine >= 0
    )
    both = np.sqrt(similarity * query_image_score)
    score: FloatArray = np.where(
        is_covered, 1.0, np.where(np.isnan(candidates.query_image_cosine), similarity, both)
    ).round(4)
    return score


def _ramp(cosine: FloatArray, cut: float) -> FloatArray:
    """0.5 at the cut and 1 at 1."""
    return np.clip(0.5 + 0.5 * (cosine - cut) / max(1 - cut, 1e-6), 0, 1)


def _best_captions(caption_index: CaptionIndex, candidates: CandidateCosines) -> list[int]:
    """Per candidate the caption of the rival that says most of what the query says; -1 where it has none."""
    best: list[tuple[int, float, int]] = [(1 << 30, 0.0, -1)] * len(candidates.query)
    for place, caption, near in zip(
        candidates.place.tolist(),
        candidates.caption.tolist(),
        np.nan_to_num(candidates.compared_cosine).tolist(),
        strict=True,
    ):
        left = len(
            find_missing_units(
                caption_index.query_phrases[candidates.query[place]], caption_index.query_phrases[caption]
            )
        )
        best[place] = min(best[place], (left, -near, caption))
    return [caption for _, _, caption in best]


def _evidence(table: pd.DataFrame, distinguishing: list[list[str]], texts: list[str]) -> list[str]:
    """In words, for people and for the judgments' column."""
    lines = []
    for row, units, text in zip(table.itertuples(index=False), distinguishing, texts, strict=True):
        parts = ["all of it is said of this picture"] if row.said else []
        parts += [f"captions {row.captions:.3f}"] if row.captions == row.captions and not row.said else []
        parts += ["but not " + " ".join(units)] if units else []
        parts += [f"pictures {row.images:.3f}"] if row.images == row.images else []
        parts += [f"across {row.across:+.3f}"] if row.across == row.across else []
        lines.append(", ".join(parts) + (f": {text}" if text else ""))
    return lines
