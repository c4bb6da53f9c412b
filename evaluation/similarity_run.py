"""A run from a matrix of similarities."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from builders.errors import UserError
from evaluation.identifiers import argsort_ids_descending, build_run

_STAGE = "read similarities"
_AT_ONCE = 1 << 24  # numbers of the matrix


def run_from_similarities(
    similarity: Any, query_ids: Sequence[str], image_ids: Sequence[str], k: int, *, is_distance: bool = False
) -> pd.DataFrame:
    """Returns the k highest of each row of a matrix (queries, images) as a run (query_id, image_id, score); of
    distances the k lowest, with minus the distance as the score. It is read in blocks and may be a mapped file. Ties at
    the cut go to the highest id. Raises UserError for a wrong shape, a repeated id or a number that is not finite."""
    if similarity.shape != (len(query_ids), len(image_ids)):
        reason = f"has the shape {similarity.shape}, the ids are {len(query_ids)} and {len(image_ids)}"
        raise UserError(_STAGE, "matrix", reason, "give an id per row and per column")
    argsort_ids_descending(query_ids, _STAGE)
    columns = argsort_ids_descending(image_ids, _STAGE)
    k = min(k, len(columns))
    places = np.empty((len(query_ids), k), dtype=np.int64)
    scores = np.empty((len(query_ids), k))
    step = max(1, _AT_ONCE // max(len(columns), 1))
    for start in range(0, len(query_ids), step):
        block = np.asarray(similarity[start : start + step])[:, columns]
        block = -block if is_distance else block
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0]
            reason = f"has the similarity {block[row, column]} with {image_ids[columns[column]]}"
            raise UserError(_STAGE, query_ids[start + int(row)], reason, "give finite numbers")
        best = _first_highest(block, k)
        places[start : start + step] = columns[best]
        scores[start : start + step] = np.take_along_axis(block, best, axis=1)
    return build_run(query_ids, image_ids, places, scores)


def _first_highest(block: Any, k: int) -> Any:
    """The columns (rows, k) of each row's k highest numbers, ascending; of those equal at the cut the first."""
    last = np.partition(block, block.shape[1] - k, axis=1)[:, [block.shape[1] - k]]
    higher, equal = block > last, block == last
    left = k - higher.sum(axis=1, keepdims=True)
    taken = higher | (equal & (np.cumsum(equal, axis=1) <= left))
    return np.nonzero(taken)[1].reshape(len(block), k)
