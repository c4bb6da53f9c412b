"""Vectors that a model computed, in files that are only added, so that no image is encoded twice."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from backends.checked_parquet import read_checked, write_checked
from builders.array_types import Vectors


class VectorStore:
    """The vectors of the model with this fingerprint by image id, below a folder."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder = folder / hashlib.sha256(fingerprint.encode()).hexdigest()[:16]

    def read(self, image_ids: Sequence[str], dimensions: int) -> tuple[Vectors, NDArray[np.bool_]]:
        """Returns vectors (n, dimensions), and which rows are known (n,); the others are zero. Damaged files are
        skipped."""
        row = {image_id: number for number, image_id in enumerate(image_ids)}
        vectors, known = np.zeros((len(row), dimensions), np.float32), np.zeros(len(row), dtype=bool)
        for path in sorted(self._folder.glob("*.parquet")):
            table = read_checked(path)
            if table is None or table["vector"].type.list_size != dimensions:
                continue
            rows = np.array([row.get(image_id, -1) for image_id in table["image_id"].to_pylist()], dtype=np.int64)
            held = table["vector"].combine_chunks().values.to_numpy().reshape(-1, dimensions)
            vectors[rows[rows >= 0]], known[rows[rows >= 0]] = held[rows >= 0], True
        return vectors, known

    def add(self, image_ids: Sequence[str], vectors: Vectors) -> None:
        """Adds vectors (n, dimensions); replaces a file with the same ids."""
        name = hashlib.sha256("\n".join(image_ids).encode()).hexdigest()[:16]
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1])
        table = pa.table({"image_id": pa.array(image_ids, pa.string()), "vector": column})
        write_checked(self._folder / f"{name}.parquet", table)
