"""The judgments of a set as numbers, used by every metric, with each duplicate group as one image.

Tables hold millions of rows, but few distinct ids. The ids stay in Arrow, as Python strings would cost more than all
computations with them. A search that returns a copy of an image has found that image, but not twice.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querytruth.array_types import RowIndices
from querytruth.errors import UserError
from querytruth.sets.benchmark_set import Tables

Codes = NDArray[np.int32]
_STAGE = "read judgments"
_HIGHEST = 1000  # grade: nDCG's gain is 2 to its power
_SAMPLE = 1000  # rows that show whether equal ids are together


def factorize_ids(column: pd.Series) -> tuple[Codes, pa.Array]:
    """Return per row the place of its id among the distinct ids, -1 for none, and the ids (some may be in no row)."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int32), to_id_array(column.cat.categories)
    return encode_ids(to_id_array(column))


def encode_ids(ids: pa.Array) -> tuple[Codes, pa.Array]:
    """Return the codes and the distinct ids of large strings, by first appearance, -1 for none."""
    if 4 * len(pc.run_end_encode(ids[:_SAMPLE]).values) > len(ids[:_SAMPLE]):
        return _encode(ids)
    runs = pc.run_end_encode(ids)  # the rows of a query are together
    codes, distinct = _encode(runs.values)
    return np.repeat(codes, np.diff(runs.run_ends.to_numpy(), prepend=0)), distinct


def _encode(ids: pa.Array) -> tuple[Codes, pa.Array]:
    """Return the same where rows are in any order. Ids of one length are numbers, which hash in half the time."""
    offsets = np.frombuffer(ids.buffers()[1], np.int64)[ids.offset : ids.offset + len(ids) + 1]
    width = int(offsets[1] - offsets[0]) if len(ids) > _SAMPLE else 0
    if 8 <= width <= 64 and not ids.null_count and (offsets[1:] - offsets[:-1] == width).all():
        text, places = ids.buffers()[2], (*range(0, width - 8, 8), width - 8)
        words = [np.ndarray(len(ids), np.uint64, text, offsets[0] + place, (width,)) for place in places]
        hashes = np.zeros(len(ids), dtype=np.uint64)
        for word in words:
            hashes = (hashes ^ word) * np.uint64(0x9E3779B97F4A7C15)
            hashes ^= hashes >> np.uint64(29)
        codes = pa.array(hashes).dictionary_encode().indices.to_numpy()
        first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
        if all((word[first].take(codes) == word).all() for word in words):  # no two ids have one hash
            return codes, ids.take(pa.array(first))
    coded = ids.dictionary_encode()
    return (coded.indices.fill_null(-1) if coded.null_count else coded.indices).to_numpy(), coded.dictionary


def to_id_array(values: object) -> pa.Array:
    """Return ids as an Arrow array of strings; numbers become their digits."""
    if isinstance(values, pa.Array):
        return values
    column = pd.Series(values)
    texts = column if pd.api.types.is_string_dtype(column.dtype) else column.map(str, na_action="ignore")
    id_array = pa.array(texts, pa.large_string(), from_pandas=True)
    return id_array.combine_chunks() if isinstance(id_array, pa.ChunkedArray) else id_array


def find_positions(known: pa.Array, ids: pa.Array) -> Codes:
    """Return the place of each id among the known ones; -1 for unknown ids."""
    if ids.equals(known):  # a run over the same gallery
        return np.arange(len(ids), dtype=np.int32)
    places: Codes = pc.index_in(ids, value_set=known).fill_null(-1).to_numpy()
    return places


def mark_occurring(codes: Codes, count: int) -> NDArray[np.bool_]:
    """Return which of `count` ids occur in a row, (count,)."""
    occurs = np.zeros(count, dtype=bool)
    occurs[codes] = True
    return occurs


def argsort_ids(ids: pa.Array) -> RowIndices:
    """Return the places of the ids in the order of their UTF-8 bytes."""
    order: RowIndices = pc.sort_indices(ids.cast(pa.large_binary())).to_numpy().astype(np.int64)
    return order


def argsort_ids_descending(ids: object, stage: str) -> RowIndices:
    """Return the places of the ids from the highest to the lowest. Raises UserError where an id occurs twice."""
    known = to_id_array(ids)
    order = argsort_ids(known)
    ordered = known.take(pa.array(order))
    if len(ordered) and (same := pc.equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)).any():
        raise UserError(stage, ordered[int(np.flatnonzero(same)[0])], "occurs twice", "give each id once")
    return order[::-1]


def build_run(query_ids: object, image_ids: object, places: NDArray[Any], scores: NDArray[Any]) -> pd.DataFrame:
    """Return a run (query_id, image_id, score) of images given by position (queries, k) among the ids; -1: none."""
    rows, columns = np.nonzero(places >= 0)
    known = [pd.Index(to_id_array(ids).to_pandas(), dtype="str") for ids in (query_ids, image_ids)]
    return pd.DataFrame(
        {
            "query_id": pd.Categorical.from_codes(rows, categories=known[0]),
            "image_id": pd.Categorical.from_codes(places[rows, columns], categories=known[1]),
            "score": scores[rows, columns].astype(np.float64),
        }
    )


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """Judgments of the queries that have a relevant image. A query is its row in `query_ids`, which are in order.

    `pair_keys`: row x len(image_ids) + position of the image, of every judged pair, ascending; `grades` theirs.
    `relevant_grades`: the grades above 0 in the whole set, highest first; `counts_by_level` (queries, levels):
    number of images with each. `hash_filter`: the hashes of existing keys: most pairs of a run are unjudged, and need
    no search among the keys. `queries_without_relevant`: queries without a relevant image, excluded from all means.
    `is_gallery`: whether `image_ids` are the whole gallery, or only the judged images.
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
        """Return the number of relevant images of each query."""
        counts: RowIndices = self.counts_by_level.sum(axis=1)
        return counts


def index_qrels(qrels: pd.DataFrame, gallery: object = None, queries: object = None) -> GroundTruth:
    """Index judgments (query_id, image_id, relevance) in any order. `gallery`: the ids of all images; `queries`: the
    ids of all queries, else a query without a judgment is unknown. Raises UserError for a grade that is not valid, a
    pair that occurs twice, a judged image that is not in the gallery, and qrels without a relevant image."""
    query, names = factorize_ids(qrels["query_id"])
    image, images = factorize_ids(qrels["image_id"])
    grades = _grades(qrels)
    if (query < 0).any() or (image < 0).any():
        raise UserError(_STAGE, "qrels", "a row has no query_id or no image_id", "fix the qrels")
    relevant = mark_occurring(query[grades > 0], len(names))
    if not relevant.any():
        raise UserError(_STAGE, "qrels", "no judged image is relevant", "add judgments with a grade of 1 or more")
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
    """Return the bit of each key in a filter (Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4)."""
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
        reason = f"relevance of {row['image_id']} is {row['relevance']}, not a whole number from 0 to {_HIGHEST}"
        raise UserError(_STAGE, row["query_id"], reason, "fix the qrels")
    grades: NDArray[np.int16] = given.astype(np.int16)
    return grades


def _ordered(ids: pa.Array, wanted: NDArray[np.bool_]) -> tuple[RowIndices, pa.Array]:
    """Return per id its row among the wanted ids in order, or -1; and the wanted ids."""
    places = np.flatnonzero(wanted)
    places = places[argsort_ids(ids.take(pa.array(places)))]
    rows = np.full(len(ids), -1, dtype=np.int64)
    rows[places] = np.arange(len(places))
    return rows, ids.take(pa.array(places))


def _in_gallery(image: Codes, images: pa.Array, gallery: pa.Array) -> tuple[Codes, pa.Array]:
    place = find_positions(gallery, images)
    if (lost := mark_occurring(image, len(images)) & (place < 0)).any():
        name = images[int(np.flatnonzero(lost)[0])].as_py()
        raise UserError(_STAGE, name, "is judged, but is not in the gallery", "run lint on the set")
    return place[image], gallery


def _refuse_twice(keys: RowIndices, query_ids: pa.Array, image_ids: pa.Array) -> None:
    if (same := keys[1:] == keys[:-1]).any():
        row, place = divmod(int(keys[np.flatnonzero(same)[0]]), len(image_ids))
        raise UserError(_STAGE, query_ids[row], f"image {image_ids[place]} is judged twice", "keep one of the rows")


def find_representatives(duplicates: pd.DataFrame, image_ids: pd.Series) -> pd.Series:
    """Return by id of an image the id of the one that it counts as, without images that count as themselves: the
    representative of its group, or the group's first id in the gallery where the representative is not in it. A group
    without an image in the gallery is left out. `duplicates`: the table of a set; `image_ids`: its gallery."""
    inside = duplicates[find_positions(to_id_array(image_ids), to_id_array(duplicates["image_id"])) >= 0]
    ordered = inside.sort_values(["is_representative", "image_id"], ascending=[False, True])
    lead = ordered.drop_duplicates("duplicate_group").set_index("duplicate_group")["image_id"]
    mapped = duplicates.drop_duplicates("image_id").set_index("image_id")["duplicate_group"].map(lead).dropna()
    return mapped[mapped != mapped.index].astype("str")


def fold_tables(tables: Tables, representatives: pd.Series) -> Tables:
    """Return the tables with one image per duplicate group and its judgments. Of the grades that a query gives to the
    images of a group, the highest one counts."""
    is_copy = tables.images["image_id"].isin(representatives.index)
    if not is_copy.any():
        return tables
    images = tables.images[~is_copy].reset_index(drop=True)
    return replace(tables, images=images, qrels=_fold_qrels(tables.qrels, representatives))


def _fold_qrels(qrels: pd.DataFrame, representatives: pd.Series) -> pd.DataFrame:
    folded = qrels.assign(image_id=_fold_column(qrels["image_id"], representatives))
    order = np.argsort(-folded["relevance"].to_numpy(dtype=np.int64), kind="stable")
    query, image = (factorize_ids(folded[name])[0] for name in ("query_id", "image_id"))
    repeated = pd.DataFrame({"query": query[order], "image": image[order]}).duplicated().to_numpy()
    return folded.iloc[np.sort(order[~repeated])].reset_index(drop=True)


def fold_run(run: pd.DataFrame, representatives: pd.Series, column: str = "image_id") -> tuple[pd.DataFrame, int]:
    """Return a run (query_id, image_id, score) in which each image is replaced by the one that it counts as, at its
    best score, and the number of rows that named another image of its group. `column`: `query_id` where images are the
    queries; of the results of several images of a group, those with the best scores count. A repeated row stays."""
    codes, ids = factorize_ids(run[column])
    is_copy = np.asarray(pd.Index(ids.to_pandas()).isin(representatives.index))
    copied = is_copy[codes] & (codes >= 0)
    if not copied.any():
        return run, 0
    folded = run.assign(**{column: _fold_column(run[column], representatives)})
    groups = folded.loc[copied, column].astype("str").unique()
    affected = np.flatnonzero(folded[column].astype("str").isin(groups).to_numpy())
    part = folded.iloc[affected]
    order = np.argsort(-part["score"].to_numpy(dtype=np.float64), kind="stable")
    pair = ["query_id", "image_id"]
    repeated = part.iloc[order][pair].astype("str").duplicated().to_numpy()
    is_error = run.iloc[affected[order]][pair].astype("str").duplicated().to_numpy()  # the run repeats a row
    is_finite = np.isfinite(part["score"].to_numpy(dtype=np.float64)[order])
    repeated = repeated & ~is_error & is_finite
    counted = np.ones(len(run), dtype=bool)
    counted[affected[order[repeated]]] = False
    return folded[counted].reset_index(drop=True), int(copied.sum())


def _fold_column(ids: pd.Series, representatives: pd.Series) -> pd.Categorical:
    codes, known = factorize_ids(ids)
    names = pd.Series(known.to_pandas(), dtype="str")
    place, distinct = pd.factorize(names.map(representatives).fillna(names))
    return pd.Categorical.from_codes(np.append(place, -1)[codes], categories=pd.Index(distinct, dtype="str"))
