"""The judgments of a set as numbers, which every metric uses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from builders.array_types import RowIndices
from builders.errors import UserError
from evaluation.identifiers import Codes, argsort_ids, factorize_ids, find_positions, mark_occurring, to_id_array

_STAGE = "read judgments"
_HIGHEST = 1000  # grade: nDCG's gain is 2 to its power


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """Judgments of the queries that have a relevant image. A query is its row in `query_ids`, which are in order.

    `pair_keys`: row x len(image_ids) + place of the image, of every judged pair, ascending; `grades` theirs.
    `relevant_grades`: the grades above 0 that the whole set knows, highest first; `counts_by_level` (queries, levels):
    how many images have each. `hash_filter`: which hashes some key has: most pairs of a run are unjudged, and need not
    be searched for among the keys. `queries_without_relevant`: queries without a relevant image, which no mean counts.
    `is_gallery`: whether `image_ids` are all that can be found, or those that are judged.
    """

    query_ids: pa.Array
    image_ids: pa.Array
    is_gallery: bool
    pair_keys: RowIndices
    grades: NDArray[np.int16]
    relevant_grades: RowIndices
    counts_by_level: RowIndices
    hash_filter: NDArray[np.bool_]
    queries_without_relevant: frozenset[str]

    @property
    def relevant_counts(self) -> RowIndices:
        """How many relevant images each query has."""
        counts: RowIndices = self.counts_by_level.sum(axis=1)
        return counts


def index_qrels(qrels: pd.DataFrame, gallery: Any = None, queries: Any = None) -> GroundTruth:
    """Indexes judgments (query_id, image_id, relevance) in any order. `gallery`: the ids of all images; `queries`: the
    ids of all queries, else a query without a judgment is unknown. Raises UserError for a grade that is not valid, a
    pair that occurs twice, a judged image that is not in the gallery, and qrels without a relevant image."""
    query, names = factorize_ids(qrels["query_id"])
    image, images = factorize_ids(qrels["image_id"])
    grades = _grades(qrels)
    if (query < 0).any() or (image < 0).any():
        raise UserError(_STAGE, "qrels", "a row has no query_id or no image_id", "fix the qrels")
    relevant = mark_occurring(query[grades > 0], len(names))
    if not relevant.any():
        raise UserError(_STAGE, "qrels", "no query has a relevant image", "give qrels with a grade above 0")
    row_of, query_ids = _ordered(names, relevant)
    if gallery is not None:
        image, images = _in_gallery(image, images, to_id_array(gallery))
    rows = row_of[query]
    if not (judged := rows >= 0).all():
        rows, image, grades = rows[judged], image[judged], grades[judged]
    keys = rows * len(images) + image
    if (keys[1:] < keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        keys, grades = keys[order], grades[order]
    _refuse_twice(keys, query_ids, images)
    levels = np.unique(grades[grades > 0])[::-1].astype(np.int64)
    counts_by_level = np.stack(
        [np.bincount(keys[grades == g] // len(images), minlength=len(query_ids)) for g in levels], axis=1
    )
    without_relevant = set(names.filter(pa.array(mark_occurring(query, len(names)) & ~relevant)).to_pylist())
    if queries is not None:
        without_relevant |= set(to_id_array(queries).to_pylist()) - set(query_ids.to_pylist())
    return GroundTruth(
        query_ids,
        images,
        gallery is not None,
        keys,
        grades,
        levels,
        counts_by_level,
        _build_hash_filter(keys),
        frozenset(without_relevant),
    )


def hash_keys(keys: RowIndices, hash_filter: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Returns a place in the filter per key (Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4)."""
    spread: NDArray[np.uint64] = keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return spread >> np.uint64(65 - len(hash_filter).bit_length())


def _build_hash_filter(keys: RowIndices) -> NDArray[np.bool_]:
    sieve = np.zeros(1 << min((16 * len(keys)).bit_length(), 24), dtype=bool)
    sieve[hash_keys(keys, sieve)] = True
    return sieve


def _grades(qrels: pd.DataFrame) -> NDArray[np.int16]:
    given = qrels["relevance"].to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~((given >= 0) & (given == np.floor(given)) & (given <= _HIGHEST))
    if wrong.any():
        row = qrels.iloc[int(np.flatnonzero(wrong)[0])]
        reason = f"relevance of {row['image_id']} is {row['relevance']}; whole numbers from 0 to {_HIGHEST} are wanted"
        raise UserError(_STAGE, row["query_id"], reason, "fix the qrels")
    grades: NDArray[np.int16] = given.astype(np.int16)
    return grades


def _ordered(ids: pa.Array, wanted: NDArray[np.bool_]) -> tuple[RowIndices, pa.Array]:
    """Returns per id its row among the wanted ids in order, or -1; and the wanted ids."""
    places = np.flatnonzero(wanted)
    places = places[argsort_ids(ids.take(pa.array(places)))]
    rows = np.full(len(ids), -1, dtype=np.int64)
    rows[places] = np.arange(len(places))
    return rows, ids.take(pa.array(places))


def _in_gallery(image: Codes, images: pa.Array, gallery: pa.Array) -> tuple[Codes, pa.Array]:
    place = find_positions(gallery, images)
    if (lost := mark_occurring(image, len(images)) & (place < 0)).any():
        name = images[int(np.flatnonzero(lost)[0])].as_py()
        raise UserError(_STAGE, name, "is judged, but no picture of the gallery", "run lint on the set")
    return place[image], gallery


def _refuse_twice(keys: RowIndices, query_ids: pa.Array, image_ids: pa.Array) -> None:
    if (same := keys[1:] == keys[:-1]).any():
        row, place = divmod(int(keys[np.flatnonzero(same)[0]]), len(image_ids))
        raise UserError(_STAGE, query_ids[row], f"image {image_ids[place]} is judged twice", "keep one of the rows")
