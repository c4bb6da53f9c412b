"""Vectors that a model computed, in files that are only added, so that no image is encoded twice."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from backends.bounded_parquet import read_parquet, read_parquet_schema
from backends.checked_parquet import read_checked, write_checked
from backends.contained_paths import contained_path
from builders.array_types import Vectors


class VectorStore:
    """The vectors of the model with this fingerprint by image id, below a folder. Raises UserError where its own folder
    there is a link."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        name = hashlib.sha256(fingerprint.encode()).hexdigest()[:16]
        self.folder = contained_path(folder, name, "keep vectors")

    def read(self, image_ids: Sequence[str], dimensions: int) -> tuple[Vectors, NDArray[np.bool_]]:
        """Returns vectors (n, dimensions), and which rows are known (n,); the others are zero. Damaged files are
        skipped."""
        return _read_files(self.folder, image_ids, dimensions)

    def add(self, image_ids: Sequence[str], vectors: Vectors) -> Path:
        """Adds vectors (n, dimensions), and returns their file; replaces a file with the same ids."""
        name = hashlib.sha256("\n".join(image_ids).encode()).hexdigest()[:16]
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1])
        table = pa.table({"image_id": pa.array(image_ids, pa.string()), "vector": column})
        path = self.folder / f"{name}.parquet"
        write_checked(path, table)
        return path


def is_sound_vector_file(path: Path) -> bool:
    """Whether a file that others may have written is one of a vector store, with finite numbers. Reads it within the
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
    """Returns the vectors (n, d) of the model that encoded most of the keys, zeros for the others; None where no model
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
