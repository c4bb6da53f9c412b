"""Vectors of models: our own, in append-only files, and Parquet parts of other programs.

No image is encoded twice. For other programs, FOLDER/images/*.parquet has the columns image_id and vector, and
FOLDER/queries/*.parquet query_id and vector; a vector is a list of numbers of the same length in every row. A million
rows and more are read in batches into one array. Decoded images of one size are in two memory-mapped .npy files.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querytruth.array_types import Vectors
from querytruth.backends.files.durable_files import replace_atomically
from querytruth.backends.files.parquet_files import (
    iterate_parquet,
    read_checked,
    read_parquet,
    read_parquet_schema,
    write_checked,
)
from querytruth.backends.files.safe_paths import contained_path
from querytruth.errors import UserError, translate_read_errors, translate_write_errors

_STAGE = "read vectors"
_ROWS = 1 << 15  # at a time


class VectorStore:
    """The vectors of the model with this fingerprint by image id, below a folder. Raises UserError where its own folder
    there is a link."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        name = hashlib.sha256(fingerprint.encode()).hexdigest()[:16]
        self.folder = contained_path(folder, name, "keep vectors")

    def read(self, image_ids: Sequence[str], dimensions: int) -> tuple[Vectors, NDArray[np.bool_]]:
        """Return vectors (n, dimensions), and which rows are known (n,); the others are zero. Damaged files are
        skipped."""
        return _read_files(self.folder, image_ids, dimensions)

    def add(self, image_ids: Sequence[str], vectors: Vectors) -> Path:
        """Add vectors (n, dimensions), and return their file; replaces a file with the same ids."""
        name = hashlib.sha256("\n".join(image_ids).encode()).hexdigest()[:16]
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1])
        table = pa.table({"image_id": pa.array(image_ids, pa.string()), "vector": column})
        path = self.folder / f"{name}.parquet"
        write_checked(path, table)
        return path


def is_sound_vector_file(path: Path) -> bool:
    """Return whether an untrusted file is a valid file of a vector store, with finite numbers. It is read within the
    limits of `bounded_parquet`."""
    try:
        names, vector = zip(*((field.name, field.type) for field in read_parquet_schema(path)), strict=True)
        if names != ("image_id", "vector") or not pa.types.is_fixed_size_list(vector[1]):
            return False
        if vector[0] != pa.string() or vector[1].value_type != pa.float32() or not vector[1].list_size:
            return False
        table = read_parquet(path)
    except (OSError, pa.ArrowException, ValueError):
        return False
    column = table["vector"].combine_chunks()
    has_all = not (table["image_id"].null_count or column.null_count or column.values.null_count)
    return has_all and bool(np.isfinite(column.values.to_numpy()).all()) and read_checked(path) is not None


def read_most_complete_vectors(folder: Path, keys: Sequence[str]) -> Vectors | None:
    """Return the vectors (n, d) of the model that encoded most of the keys, zeros for the others; None where no model
    encoded half of them."""
    best: tuple[int, Vectors | None] = (len(keys) // 2, None)
    for of_model in sorted(path for path in folder.glob("*") if path.is_dir()):
        tables = (read_checked(path, ["vector"]) for path in sorted(of_model.glob("*.parquet")))
        if (table := next((table for table in tables if table is not None), None)) is not None:
            vectors, known = _read_files(of_model, keys, table["vector"].type.list_size)
            best = max(best, (int(known.sum()), vectors), key=lambda one: one[0])
    return best[1]


def _read_files(folder: Path, keys: Sequence[str], dimensions: int) -> tuple[Vectors, NDArray[np.bool_]]:
    row = {key: number for number, key in enumerate(keys)}
    vectors, known = np.zeros((len(keys), dimensions), np.float32), np.zeros(len(keys), dtype=bool)
    for path in sorted(folder.glob("*.parquet")):
        table = read_checked(path)
        if table is None or table["vector"].type.list_size != dimensions:
            continue
        rows = np.array([row.get(key, -1) for key in table["image_id"].to_pylist()], dtype=np.int64)
        held = table["vector"].combine_chunks().values.to_numpy().reshape(-1, dimensions)
        vectors[rows[rows >= 0]], known[rows[rows >= 0]] = held[rows >= 0], True
    return vectors, known


def read_vectors(
    folder: Path, id_name: str, ids: pa.Array, advance: Callable[[int], None] = lambda _rows: None
) -> tuple[Vectors, NDArray[np.bool_], int]:
    """Read the vectors of these ids, in any order of parts and rows. Return the vectors (n, d), zeros if unknown,
    whether each is known (n,), and the number of rows with other ids. Raises UserError for repeated ids, vectors of
    different length and missing columns."""
    vectors: Vectors | None = None
    known, other_rows = np.zeros(len(ids), dtype=bool), 0
    for path, batch in _batches(folder, id_name):
        read = _rows(path, batch["vector"])
        if vectors is None:
            vectors = np.zeros((len(ids), read.shape[1]), np.float32)
        if read.shape[1] != vectors.shape[1]:
            reason = f"has vectors of {read.shape[1]} numbers; other files have {vectors.shape[1]}"
            raise UserError(_STAGE, path, reason, "write all vectors with one model")
        place = pc.index_in(batch[id_name].cast(ids.type), value_set=ids).fill_null(-1).to_numpy()
        wanted = np.flatnonzero(place >= 0)
        at = place[wanted]
        values, counts = np.unique(at, return_counts=True)
        if (twice := np.append(values[counts > 1], values[known[values]])).size:
            raise UserError(_STAGE, path, f"repeats the id {ids[int(twice[0])]}", "write each id once")
        vectors[at], known[at] = read[wanted], True
        other_rows += len(place) - len(wanted)
        advance(len(read))
    if vectors is None:
        raise UserError(_STAGE, folder, "has no rows", f"write {id_name} and vector to {folder.name}/*.parquet")
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
    """Return a column of lists as an array (n, d)."""
    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not lists and not pa.types.is_fixed_size_list(column.type):
        raise UserError(_STAGE, path, f"has vectors of type {column.type}", "write lists of numbers")
    lengths = pc.list_value_length(column)
    length = lengths[0].as_py() if len(column) else 0
    values = column.flatten()
    if column.null_count or not length or values.null_count or not pc.all(pc.equal(lengths, length)).as_py():
        raise UserError(_STAGE, path, "has empty vectors or different lengths", "write all vectors with one model")
    vectors: Vectors = values.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False).reshape(-1, length)
    return vectors


def open_pixels(folder: Path, key: str) -> tuple[NDArray[np.uint8], NDArray[np.bool_]] | None:
    """Return images (n, side, side, 3) and which of them are known (n,); None where none, or only some, are stored
    under this key."""
    rows, known = _paths(folder, key)
    try:
        return np.load(rows, mmap_mode="r"), np.load(known)
    except (FileNotFoundError, ValueError):
        return None


def write_pixels(
    folder: Path, key: str, shape: tuple[int, ...], fill: Callable[[NDArray[np.uint8]], NDArray[np.bool_]]
) -> None:
    """Store the array that `fill` fills, and which rows it returns as known. The file of images is put in place last
    and atomically. Raises UserError where they cannot be written."""
    rows, known = _paths(folder, key)
    folder.mkdir(parents=True, exist_ok=True)
    beside = rows.with_name(f".{rows.name}.{secrets.token_hex(8)}")
    try:
        with translate_write_errors("keep images", folder):
            held: Any = np.lib.format.open_memmap(beside, mode="w+", dtype=np.uint8, shape=shape)
            is_known = fill(held)
            held.flush()
            del held
            replace_atomically(known, lambda file: np.save(file, is_known))
            with beside.open("rb") as file:
                os.fsync(file.fileno())
            beside.replace(rows)
    finally:
        beside.unlink(missing_ok=True)


def _paths(folder: Path, key: str) -> tuple[Path, Path]:
    return folder / f"{key}.npy", folder / f"{key}-known.npy"
