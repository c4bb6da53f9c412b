"""Items of a set whose vectors have a high cosine with those of other items."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from builders.array_types import FloatArray, RowIndices, Vectors
from builders.nearest_neighbours import COSINE_DECIMALS, find_near_pairs, pair_cosines


class NearVectors:
    """Items and their vectors (n, d) of length one; `find` returns pairs of at least the cosine `cut`."""

    def __init__(self, items: Sequence[str], vectors: Vectors, cut: float) -> None:
        self.items, self.cut = list(items), cut
        self._vectors = np.ascontiguousarray(vectors, dtype=np.float32)

    def find(self, others: Vectors) -> tuple[RowIndices, RowIndices, FloatArray]:
        """Returns all pairs with `others` (m, d): rows of the items, rows of `others`, and cosines."""
        if not len(self.items):
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        thresholds = np.full(len(others), self.cut)
        places, rows = find_near_pairs(others, self._vectors, thresholds, max_per_vector=len(self.items))
        cosines = pair_cosines(self._vectors, others, rows, places)
        is_near = cosines >= round(self.cut, COSINE_DECIMALS)
        return rows[is_near], places[is_near], cosines[is_near]


def read_vectors(column: pd.Series) -> Vectors:
    """Returns the vectors (n, d) of a column of float32 bytes, little-endian, without nulls."""
    width = len(column.iloc[0]) // 4 if len(column) else 1
    vectors: Vectors = np.frombuffer(b"".join(column), dtype="<f4").reshape(len(column), width)
    return vectors
