"""A run as ranks: order, ties, cuts and missing queries are defined here alone.

Order is by score, highest first, ties by image id, highest first (trec_eval's rule), regardless of the order of rows.
Scores are compared as given, in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from querytruth.array_types import FloatArray, RowIndices
from querytruth.errors import UserError
from querytruth.evaluation import ground_truth

UNJUDGED = -1
_STAGE = "read run"


@dataclass(frozen=True, slots=True)
class Hits:
    """The relevant images among the results, by query and rank; `ordinal` counts a query's hits from 1.

    `counts_by_level` (queries, levels) is from the truth; `relevant_counts` (queries,) is its sum over the levels."""

    query: RowIndices
    rank: RowIndices
    grade: NDArray[np.int16]
    ordinal: RowIndices
    relevant_grades: RowIndices
    counts_by_level: RowIndices

    @property
    def relevant_counts(self) -> RowIndices:
        counts: RowIndices = self.counts_by_level.sum(axis=1)
        return counts

    def within_cut(self, k: int | RowIndices | None) -> Hits:
        """Return the hits up to rank k, one number or (queries,); None cuts nothing."""
        if k is None:
            return self
        inside = self.rank <= (k if isinstance(k, int) else k[self.query])
        cut = {name: getattr(self, name)[inside] for name in ("query", "rank", "grade", "ordinal")}
        return replace(self, **cut)

    def sum_per_query(self, weights: FloatArray | None = None) -> FloatArray:
        """Return per query the number of its hits, or the sum of their weights, from the first to the last."""
        return np.bincount(self.query, weights, minlength=len(self.counts_by_level)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class RankedRun:
    """The results of the truth's queries: a row per image, by query and rank. `grade` is -1 where unjudged."""

    truth: ground_truth.GroundTruth
    query: RowIndices
    rank: RowIndices
    image_code: ground_truth.Codes  # a place in `image_ids`
    image_ids: pa.Array
    score: FloatArray
    grade: NDArray[np.int16]
    hits: Hits

    @property
    def returned_counts(self) -> RowIndices:
        """Return the number of results per query, 0 for one that is not in the run."""
        return np.bincount(self.query, minlength=len(self.truth.query_ids))

    def count_ties_at(self, k: int) -> int:
        """Return the number of queries whose images at ranks k and k + 1 have the same score."""
        at = np.flatnonzero(self.rank[1:] == k + 1)
        return int((self.score[at] == self.score[at + 1]).sum())


def rank_run(run: pd.DataFrame, truth: ground_truth.GroundTruth) -> RankedRun:
    """Rank a run (query_id, image_id, score). An image that is not in the gallery is unjudged. Raises UserError
    for a query that the qrels do not have, an image that occurs twice, and a score that is not finite."""
    query, queries = ground_truth.factorize_ids(run["query_id"])
    image, image_ids = ground_truth.factorize_ids(run["image_id"])
    score = run["score"].to_numpy(dtype=np.float64, na_value=np.nan)
    _refuse_bad_rows(query, queries, image, score)
    _refuse_twice(query, queries, image, image_ids)
    row = _rows(query, queries, truth)
    place = ground_truth.find_positions(truth.image_ids, image_ids).astype(np.int64)
    if not (wanted := row >= 0).all():
        row, image, score = row[wanted], image[wanted], score[wanted]
    if not np.where(row[1:] == row[:-1], score[1:] <= score[:-1], row[1:] > row[:-1]).all():
        order = _by_query_and_score(row, score)
        row, image, score = row[order], image[order], score[order]
    image = _break_ties(row, image, image_ids, score)
    ranks = np.arange(1, len(row) + 1) - np.searchsorted(row, np.arange(len(truth.query_ids)))[row]
    grade = find_grades(row, place[image], truth)
    hits = collect_hits(row, ranks, grade, truth, truth.counts_by_level)
    return RankedRun(truth, row, ranks, image, image_ids, score, grade, hits)


def collect_hits(
    query: RowIndices,
    ranks: RowIndices,
    grade: NDArray[np.int16],
    truth: ground_truth.GroundTruth,
    counts_by_level: RowIndices,
) -> Hits:
    """Return the hits among ranked rows."""
    at = np.flatnonzero(grade > 0)
    hit_queries = query[at]
    ordinal = np.arange(1, len(at) + 1) - np.searchsorted(hit_queries, np.arange(len(counts_by_level)))[hit_queries]
    return Hits(hit_queries, ranks[at], grade[at], ordinal, truth.relevant_grades, counts_by_level)


def _refuse_bad_rows(
    query: ground_truth.Codes, queries: pa.Array, image: ground_truth.Codes, score: FloatArray
) -> None:
    if (query < 0).any() or (image < 0).any():
        raise UserError(_STAGE, "run", "a row has no query_id or no image_id", "fix the run")
    if (bad := ~np.isfinite(score)).any():
        at = int(np.flatnonzero(bad)[0])
        raise UserError(_STAGE, queries[query[at]], f"has the score {score[at]}", "give finite scores")


def _refuse_twice(query: ground_truth.Codes, queries: pa.Array, image: ground_truth.Codes, image_ids: pa.Array) -> None:
    if blocks := _find_blocks(query):
        ordered = np.broadcast_to(-1 - np.arange(blocks[1].shape[1], dtype=np.int32), blocks[1].shape).copy()
        ordered[blocks[1]] = image
        ordered.sort()
        if not (ordered[:, 1:] == ordered[:, :-1]).any():
            return
    few = len(queries) * len(image_ids) < 2**31  # 32-bit numbers sort in half the time
    pairs = np.sort(query * (np.int32 if few else np.int64)(len(image_ids)) + image)
    if (same := pairs[1:] == pairs[:-1]).any():
        name, twice = divmod(int(pairs[np.flatnonzero(same)[0]]), len(image_ids))
        raise UserError(_STAGE, queries[name], f"image {image_ids[twice]} is returned twice", "rank each image once")


def _rows(query: ground_truth.Codes, queries: pa.Array, truth: ground_truth.GroundTruth) -> RowIndices:
    """Return per row of the run the query's row in the truth; -1 where the query has no relevant image."""
    row_of = ground_truth.find_positions(truth.query_ids, queries).astype(np.int64)
    for place in np.flatnonzero(ground_truth.mark_occurring(query, len(queries)) & (row_of < 0)):
        if queries[place].as_py() not in truth.queries_without_relevant:
            raise UserError(_STAGE, queries[place], "is not a query of the qrels", "rank the queries of this set")
    return row_of[query]


def _break_ties(
    row: RowIndices, image: ground_truth.Codes, image_ids: pa.Array, score: FloatArray
) -> ground_truth.Codes:
    """Return the images of ranked rows, those with equal scores of a query by id, the highest first."""
    tied = (row[1:] == row[:-1]) & (score[1:] == score[:-1])
    if not tied.any():
        return image
    follows = np.append(False, tied)
    at = np.flatnonzero(follows | np.append(tied, False))
    used, back = np.unique(image[at], return_inverse=True)
    id_rank = np.empty(len(used), dtype=np.int64)
    id_rank[ground_truth.argsort_ids(image_ids.take(pa.array(used)))] = np.arange(len(used))
    group = np.cumsum(~follows[at])
    ordered_images = image.copy()
    ordered_images[at] = image[at[np.argsort(group * len(used) - id_rank[back])]]
    return ordered_images


def _by_query_and_score(row: RowIndices, score: FloatArray) -> RowIndices:
    """Return an order; equal scores are in any order. Sorts of plain numbers are vectorised, unlike lexsort."""
    if blocks := _find_blocks(row):
        starts, is_row = blocks
        falling = np.full(is_row.shape, np.inf)
        falling[is_row] = -score
        within = np.argsort(falling, axis=1) if (falling[:, 1:] < falling[:, :-1]).any() else np.arange(is_row.shape[1])
        by_query = np.argsort(row[starts])
        return (starts[:, None] + within)[by_query][is_row[by_query]]
    by_score = np.argsort(-score)
    place = np.empty(len(row), dtype=np.int64)
    place[by_score] = np.arange(len(row))
    return np.argsort(row * len(row) + place)


def _find_blocks(row: RowIndices | ground_truth.Codes) -> tuple[RowIndices, NDArray[np.bool_]] | None:
    """Return where the rows of each query start, and which places of a table (queries, most rows) they take; None where
    the rows of a query are not together, or one has many more than others."""
    starts = np.flatnonzero(np.append(len(row) > 0, row[1:] != row[:-1]))
    counts = np.diff(starts, append=len(row))
    if (most := int(counts.max(initial=0))) * len(starts) > 2 * len(row) or len(np.unique(row[starts])) < len(starts):
        return None
    return starts, np.arange(most) < counts[:, None]


def find_grades(row: RowIndices, place: RowIndices, truth: ground_truth.GroundTruth) -> NDArray[np.int16]:
    """Return the grade of each pair of a query's row and an image's place in the truth, UNJUDGED where it has none."""
    grade = np.full(len(row), UNJUDGED, dtype=np.int16)
    keys = row * len(truth.image_ids) + place
    at = np.flatnonzero(truth.hash_filter[ground_truth.hash_keys(keys, truth.hash_filter)])
    at = at[place[at] >= 0]  # most of the remaining pairs are judged
    keys = keys[at]
    positions = np.minimum(np.searchsorted(truth.pair_keys, keys), len(truth.pair_keys) - 1)
    grade[at] = np.where(truth.pair_keys[positions] == keys, truth.grades[positions], np.int16(UNJUDGED))
    return grade
