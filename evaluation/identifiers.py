"""Ids as numbers: tables hold millions of rows, but few distinct ids. The ids stay in Arrow, as Python strings would
cost more than all computations with them."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders.array_types import RowIndices
from builders.errors import UserError

Codes = NDArray[np.int32]


def factorize_ids(column: pd.Series) -> tuple[Codes, pa.Array]:
    """Returns per row the place of its id among the distinct ids, -1 for none, and the ids (some may be in no row)."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int32), to_id_array(column.cat.categories)
    coded = to_id_array(column).dictionary_encode()
    codes = coded.indices.fill_null(-1) if coded.null_count else coded.indices
    return codes.to_numpy(), coded.dictionary


def to_id_array(values: Any) -> pa.Array:
    """Returns ids as an Arrow array of strings; numbers become their digits."""
    if isinstance(values, pa.Array):
        return values
    column = pd.Series(values)
    texts = column if pd.api.types.is_string_dtype(column.dtype) else column.map(str, na_action="ignore")
    id_array = pa.array(texts, pa.large_string(), from_pandas=True)
    return id_array.combine_chunks() if isinstance(id_array, pa.ChunkedArray) else id_array


def find_positions(known: pa.Array, ids: pa.Array) -> Codes:
    """Returns the place of each id among the known ones; -1 for unknown ids."""
    if ids.equals(known):  # a run over the same gallery
        return np.arange(len(ids), dtype=np.int32)
    places: Codes = pc.index_in(ids, value_set=known).fill_null(-1).to_numpy()
    return places


def mark_occurring(codes: Codes, count: int) -> NDArray[np.bool_]:
    """Returns which of `count` ids occur in a row, (count,)."""
    occurs = np.zeros(count, dtype=bool)
    occurs[codes] = True
    return occurs


def argsort_ids(ids: pa.Array) -> RowIndices:
    """Returns the places of the ids in the order of their UTF-8 bytes."""
    order: RowIndices = pc.sort_indices(ids.cast(pa.large_binary())).to_numpy().astype(np.int64)
    return order


def argsort_ids_descending(ids: Any, stage: str) -> RowIndices:
    """Returns the places of the ids from the highest to the lowest. Raises UserError where an id occurs twice."""
    known = to_id_array(ids)
    order = argsort_ids(known)
    ordered = known.take(pa.array(order))
    if len(ordered) and (same := pc.equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)).any():
        raise UserError(stage, ordered[int(np.flatnonzero(same)[0])], "is there twice", "give every id once")
    return order[::-1]


def build_run(query_ids: Any, image_ids: Any, places: NDArray[Any], scores: NDArray[Any]) -> pd.DataFrame:
    """Returns a run (query_id, image_id, score) of images given by place (queries, k) among the ids; -1 is none."""
    rows, columns = np.nonzero(places >= 0)
    known = [pd.Index(to_id_array(ids).to_pandas(), dtype="str") for ids in (query_ids, image_ids)]
    return pd.DataFrame(
        {
            "query_id": pd.Categorical.from_codes(rows, categories=known[0]),
            "image_id": pd.Categorical.from_codes(places[rows, columns], categories=known[1]),
            "score": scores[rows, columns].astype(np.float64),
        }
    )
