"""Finds confusable images: images that a query fits besides its own. `confusable_scores` scores them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from builders.array_types import RowIndices, Vectors
from builders.nearest_neighbours import find_near_pairs
from builders.recall.answer_index import AnswerIndex, MemberIndex, build_answer_index
from builders.recall.caption_index import CaptionIndex
from builders.recall.confusable_scores import (
    CandidateCosines,
    ConfusableRules,
    QueryImageVectors,
    own_image_cosines,
    score_confusable_images,
)


@dataclass(frozen=True, slots=True)
class ConfusableImages:
    """The confusable images of all queries.

    `table` has a row per query and confusable image, the highest score first (columns: CONFUSABLE_COLUMNS). Its
    image_id is the first of a duplicate group; confusable_query_id is the caption that supports it most (null where
    only a description or the images do). `ambiguous_query_ids` are queries with an image of at least `min_score`;
    `crowded_query_ids` are those with more such images than are listed.
    """

    table: pd.DataFrame
    ambiguous_query_ids: frozenset[str]
    crowded_query_ids: frozenset[str]
    min_score: float

    def above_threshold(self) -> pd.DataFrame:
        """Returns the rows of at least `min_score`."""
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
) -> ConfusableImages:
    """Returns the unjudged confusable images of every query, independent of the order of rows.

    `descriptions` (image_id, text) describe images without being queries and lead to more confusable images.
    Raises ValueError for vectors that do not fit the frames.
    """
    answers = build_answer_index(queries, qrels, images, duplicates)
    vectors = _in_order(vectors, answers)
    caption_index = CaptionIndex(answers, descriptions)
    query, answer = _candidates(answers, vectors, caption_index, rules)
    cosines = CandidateCosines(answers, vectors, query, answer)
    return _cut_to_listed(score_confusable_images(answers, caption_index, cosines, rules), rules)


def _in_order(query_image_vectors: QueryImageVectors, answers: AnswerIndex) -> QueryImageVectors:
    ordered = []
    rows_by_name = {"captions": answers.query_rows, "queries": answers.query_rows, "images": answers.image_rows}
    for name, rows in rows_by_name.items():
        vectors: Vectors | None = getattr(query_image_vectors, name)
        if vectors is not None and (len(vectors) != len(rows) or not np.isfinite(vectors).all()):
            raise ValueError(f"{name}: {len(vectors)} vectors for {len(rows)} rows, or some that are no numbers")
        same = vectors is None or bool((rows == np.arange(len(rows))).all())  # avoids a copy
        ordered.append(vectors if vectors is None or same else vectors[rows])
    if ordered[1] is not None and ordered[2] is None:
        raise ValueError("queries: vectors of queries without those of images")
    return QueryImageVectors(*ordered)


def _candidates(
    answers: AnswerIndex, vectors: QueryImageVectors, caption_index: CaptionIndex, rules: ConfusableRules
) -> tuple[RowIndices, RowIndices]:
    """Returns the distinct unjudged pairs (query, answer) that any measure proposes, in order."""
    # Leaves more than `max_listed` per query after the judged ones are removed, where there are more.
    wanted = rules.max_listed + 1 + answers.max_judged_per_query()
    keys = [answers.pair_keys(*caption_index.find_covered_pairs(answers.judged_keys, wanted))]
    caption_query, of_answer = answers.caption_answer_pairs()
    if vectors.captions is not None:
        answers_of_caption = MemberIndex(caption_query, len(answers.query_ids))
        most = wanted * int(np.bincount(of_answer, minlength=1).max())
        thresholds = np.full(len(vectors.captions), rules.min_caption_cosine)
        left, right = find_near_pairs(vectors.captions, vectors.captions, thresholds, most)
        place, pair = answers_of_caption.members_of(right)
        keys.append(answers.pair_keys(left[place], of_answer[pair]))
    if vectors.images is not None:
        most = wanted * int(np.bincount(answers.answer, minlength=1).max())
        thresholds = np.full(len(vectors.images), rules.min_image_cosine)
        left, right = find_near_pairs(vectors.images, vectors.images, thresholds, most)
        place, pair = MemberIndex(answers.relevant_image, len(answers.image_ids)).members_of(left)
        keys.append(answers.pair_keys(answers.relevant_query[pair], answers.answer[right[place]]))
        if vectors.queries is not None:
            least = own_image_cosines(answers, vectors.queries, vectors.images) - rules.margin
            left, right = find_near_pairs(vectors.queries, vectors.images, least, most)
            keys.append(answers.pair_keys(left, answers.answer[right]))
    return answers.pairs_of_keys(np.setdiff1d(np.concatenate(keys), answers.judged_keys))


def _cut_to_listed(table: pd.DataFrame, rules: ConfusableRules) -> ConfusableImages:
    """Returns the `max_listed` images with the highest scores of each query."""
    order = {"query_id": True, "score": False, "caption_cosine": False, "image_id": True}
    table = table.sort_values(list(order), ascending=list(order.values()), ignore_index=True)
    sure = table["score"] >= rules.min_score
    counts = table.loc[sure, "query_id"].value_counts()
    listed = table[table.groupby("query_id").cumcount() < rules.max_listed].reset_index(drop=True)
    crowded = frozenset(counts.index[counts > rules.max_listed])
    return ConfusableImages(listed, frozenset(counts.index), crowded, rules.min_score)
