"""A sample of judgments for people, chosen by hash."""

import numpy as np
import pandas as pd

from builders.array_types import Hashes, RowIndices
from builders.records import mix_bits, stable_hash


def sample_rows(qrels: pd.DataFrame, sample: int) -> RowIndices:
    """Returns the positions of a sample in which every query has one judgment before any query has two.

    Queries are ordered by their hashes, and so are the images of one query. A judgment's place does not depend on
    other queries' judgments: the sample is stable when these change.
    """
    if len(qrels) <= sample:
        return np.arange(len(qrels))
    query = qrels["query_id"].cat.codes.to_numpy()
    hashes, used = _category_hashes(qrels["query_id"])
    sampled = used[np.argsort(hashes[used], kind="stable")][:sample]  # later queries cannot be in the sample
    place = np.full(len(hashes), -1, dtype=np.int64)
    place[sampled] = np.arange(len(sampled))
    rows = np.flatnonzero(place[query] >= 0)
    of_query = place[query[rows]]
    of_image = _category_hashes(qrels["image_id"])[0][qrels["image_id"].cat.codes.to_numpy()[rows]]
    # One key by query and hash sorts ten times as fast as two.
    pair_hashes = mix_bits(hashes[query[rows]] * np.uint64(0x9E3779B97F4A7C15) + of_image)
    low_bits = (pair_hashes >> np.uint64(24)).astype(np.int64)
    order = np.argsort((of_query << 40) | low_bits, kind="stable")
    of_query = of_query[order]
    starts = np.flatnonzero(np.diff(of_query, prepend=-1))
    turn = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    return np.sort(rows[order[np.argsort(turn, kind="stable")[:sample]]])


def _category_hashes(column: pd.Series) -> tuple[Hashes, RowIndices]:
    """Returns a hash per category, 0 for unused ones, and the codes that are used."""
    names = column.cat.categories.to_list()
    used = np.flatnonzero(np.bincount(column.cat.codes.to_numpy(), minlength=len(names)))
    hashes = np.zeros(len(names), dtype=np.uint64)
    hashes[used] = [stable_hash("sample", names[code]) for code in used]
    return hashes, used
