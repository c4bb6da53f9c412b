"""A query's rivals: other pictures that it fits, too. How sure that is: `rival_scores`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from builders.array_types import RowIndices, Vectors
from builders.recall.answer_index import AnswerIndex, build_answer_index
from builders.recall.caption_index import CaptionIndex
from builders.recall.confusable_scores import (
    CandidateCosines,
    ConfusableRules,
    QueryImageVectors,
    own_image_cosines,
    score_confusable_images,
)
from builders.recall.neighbours import MemberIndex, NeighbourSearch, find_near_pairs


@dataclass(frozen=True, slots=True)
class ConfusableImages:
    """`table`: a row per query and rival, the surest first: image_id (of a duplicate group the first), rival_query_id
    (the caption that speaks most for it; null where only a description or the pictures do), score, said, captions,
    pictures, across (NaN where not measured), evidence. `ambiguous`: ids of queries with a rival of at least the cut;
    `crowded`: those of them with more such rivals than are listed."""

    table: pd.DataFrame
    ambiguous_query_ids: frozenset[str]
    crowded_query_ids: frozenset[str]
    min_score: float

    def above_threshold(self) -> pd.DataFrame:
        """The rows that count."""
        return self.table[self.table["score"] >= self.min_score]


def find_confusable_images(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    images: pd.DataFrame,
    rules: ConfusableRules,
    vectors: QueryImageVectors,
    *,
    descriptions: pd.DataFrame | None = None,
    duplicates: pd.DataFrame | None = None,
    neighbours: NeighbourSearch = find_near_pairs,
) -> ConfusableImages:
    """The rivals of every query, whatever the order of rows; pairs that are judged, right or wrong, are none.

    `descriptions` (image_id, text) are said of a picture, too, without being queries: the more is known of every
    picture, the more rivals are found. A ValueError for vectors that don't fit the frames.
    """
    answers = build_answer_index(queries, qrels, images, duplicates)
    vectors = _in_order(vectors, answers)
    caption_index = CaptionIndex(answers, descriptions)
    query, answer = _candidates(answers, vectors, caption_index, rules, neighbours)
    cosines = CandidateCosines(answers, vectors, query, answer)
    return _cut_to_listed(score_confusable_images(answers, caption_index, cosines, rules), rules)


def _in_order(query_image_vectors: QueryImageVectors, answers: AnswerIndex) -> QueryImageVectors:
    ordered = []
    for name, rows in (
        ("captions", answers.query_rows),
        ("across", answers.query_rows),
        ("images", answers.image_rows),
    ):
        vectors: Vectors | None = getattr(query_image_vectors, name)
        if vectors is not None and (len(vectors) != len(rows) or not np.isfinite(vectors).all()):
            raise ValueError(f"{name}: {len(vectors)} vectors for {len(rows)} rows, or some that are no numbers")
        same = vectors is None or bool((rows == np.arange(len(rows))).all())  # no copy where nothing moves
        ordered.append(vectors if vectors is None or same else vectors[rows])
    if ordered[1] is not None and ordered[2] is None:
        raise ValueError("across: vectors of queries without those of pictures")
    return QueryImageVectors(*ordered)


def _candidates(
    answers: AnswerIndex,
    vectors: QueryImageVectors,
    caption_index: CaptionIndex,
    rules: ConfusableRules,
    neighbours: NeighbourSearch,
) -> tuple[RowIndices, RowIndices]:
    """Queries and answers that some way of looking brings together; each once, in order, none of them judged."""
    wanted = (
        rules.max_listed + 1 + answers.max_judged_per_query()
    )  # answers: then more than `rivals` remain if there are more
    query, answer = caption_index.find_covered_pairs(answers.judged_keys, wanted)
    keys = [query * answers.count + answer]
    caption_query, of_answer = answers.caption_answer_pairs()
    if vectors.captions is not None:
        answers_of_caption = MemberIndex(caption_query, len(answers.query_ids))
        most = wanted * int(np.bincount(of_answer, minlength=1).max())
        left, right = neighbours(
            vectors.captions, vectors.captions, np.full(len(vectors.captions), rules.min_caption_cosine), most
        )
        place, pair = answers_of_caption.members_of(right)
        keys.append(left[place] * answers.count + of_answer[pair])
    if vectors.images is not None:
        most = wanted * int(np.bincount(answers.answer, minlength=1).max())
        left, right = neighbours(
            vectors.images, vectors.images, np.full(len(vectors.images), rules.min_image_cosine), most
        )
        place, pair = MemberIndex(answers.relevant_image, len(answers.image_ids)).members_of(left)
        keys.append(answers.relevant_query[pair] * answers.count + answers.answer[right[place]])
        if vectors.across is not None:
            least = own_image_cosines(answers, vectors.across, vectors.images) - rules.margin
            left, right = neighbours(vectors.across, vectors.images, least, most)
            keys.append(left * answers.count + answers.answer[right])
    candidate_keys = np.setdiff1d(np.concatenate(keys), answers.judged_keys)
    return candidate_keys // max(answers.count, 1), candidate_keys % max(answers.count, 1)


def _cut_to_listed(table: pd.DataFrame, rules: ConfusableRules) -> ConfusableImages:
    """The surest rivals of each query."""
    table = table.sort_values(
        ["query_id", "score", "captions", "image_id"], ascending=[True, False, False, True], ignore_index=True
    )
    sure = table["score"] >= rules.min_score
    counts = table.loc[sure, "query_id"].value_counts()
    listed = table[table.groupby("query_id").cumcount() < rules.max_listed].reset_index(drop=True)
    crowded = frozenset(counts.index[counts > rules.max_listed])
    return ConfusableImages(listed, frozenset(counts.index), crowded, rules.min_score)
