"""Vectors of another program: a folder of Parquet parts with a million rows and more.

FOLDER/images/*.parquet has the columns image_id and vector, FOLDER/queries/*.parquet query_id and vector; a vector is a
list of numbers of the same length in every row. Rows are read in batches into one array.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backends.bounded_parquet import iterate_parquet, read_parquet_schema
from backends.file_errors import translate_read_errors
from builders.array_types import Vectors
from builders.errors import UserError

_STAGE = "read vectors"
_ROWS = 1 << 15  # at a time


def read_vectors(
    folder: Path, id_name: str, ids: pa.Array, advance: Callable[[int], None] = lambda _rows: None
) -> tuple[Vectors, NDArray[np.bool_], int]:
    """Reads the vectors of these ids, in any order of parts and rows. Returns vectors (n, d), which of them are known
    (n,), with zeros for the others, and the number of rows with other ids. Raises UserError for repeated ids, vectors
    of different length and missing columns."""
    vectors: Vectors | None = None
    known, other_rows = np.zeros(len(ids), dtype=bool), 0
    for path, batch in _batches(folder, id_name):
        read = _rows(path, batch["vector"])
        if vectors is None:
            vectors = np.zeros((len(ids), read.shape[1]), np.float32)
        if read.shape[1] != vectors.shape[1]:
            reason = f"has vectors of {read.shape[1]} numbers, others have {vectors.shape[1]}"
            raise UserError(_STAGE, path, reason, "write all with one model")
        place = pc.index_in(batch[id_name].cast(ids.type), value_set=ids).fill_null(-1).to_numpy()
        wanted = np.flatnonzero(place >= 0)
        at = place[wanted]
        values, counts = np.unique(at, return_counts=True)
        if (twice := np.append(values[counts > 1], values[known[values]])).size:
            raise UserError(_STAGE, path, f"has {ids[int(twice[0])]} again", "write every id once")
        vectors[at], known[at] = read[wanted], True
        other_rows += len(place) - len(wanted)
        advance(len(read))
    if vectors is None:
        raise UserError(_STAGE, folder, "holds no rows", f"write {id_name} and vector to {folder.name}/*.parquet")
    return vectors, known, other_rows


def _batches(folder: Path, id_name: str) -> Iterator[tuple[Path, pa.RecordBatch]]:
    for path in sorted(folder.glob("*.parquet")):
        with translate_read_errors(_STAGE, path, "write it again as Parquet", also=(pa.ArrowException,)):
            names = read_parquet_schema(path).names
            if lacking := [name for name in (id_name, "vector") if name not in names]:
                reason = f"has no column {lacking[0]} (it has {', '.join(names)})"
                raise UserError(_STAGE, path, reason, f"name it {lacking[0]}")
            for batch in iterate_parquet(path, [id_name, "vector"], _ROWS):
                yield path, batch


def _rows(path: Path, column: pa.Array) -> Vectors:
    """Returns a column of lists as an array (n, d)."""
    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not lists and not pa.types.is_fixed_size_list(column.type):
        raise UserError(_STAGE, path, f"has vectors of type {column.type}", "write lists of numbers")
    lengths = pc.list_value_length(column)
    length = lengths[0].as_py() if len(column) else 0
    values = column.flatten()
    if column.null_count or not length or values.null_count or not pc.all(pc.equal(lengths, length)).as_py():
        raise UserError(_STAGE, path, "has vectors that are empty or differ in length", "write all with one model")
    vectors: Vectors = values.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False).reshape(-1, length)
    return vectors
