"""Collection of rows in compact columns: a run has millions of rows and few different ids."""

from __future__ import annotations

from array import array

import numpy as np
import pandas as pd


class RunTableBuilder:
    """Collects rows of query id, image id and number."""

    def __init__(self) -> None:
        self._queries: dict[str, int] = {}
        self._images: dict[str, int] = {}
        self._query, self._image, self._number = array("i"), array("i"), array("d")

    def add(self, query_id: str, image_id: str, number: float) -> None:
        """Adds a row."""
        self._query.append(self._queries.setdefault(query_id, len(self._queries)))
        self._image.append(self._images.setdefault(image_id, len(self._images)))
        self._number.append(number)

    def build_table(self, name: str) -> pd.DataFrame:
        """Returns query_id and image_id as categories, and the numbers (float64) as column `name`, in order."""

        def ids(codes: array[int], known: dict[str, int]) -> pd.Categorical:
            return pd.Categorical.from_codes(np.frombuffer(codes, np.int32), pd.Index(list(known), dtype="str"))

        columns = {"query_id": ids(self._query, self._queries), "image_id": ids(self._image, self._images)}
        return pd.DataFrame(columns | {name: np.frombuffer(self._number, np.float64)})
