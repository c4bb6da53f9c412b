"""A sample of judgments for people, drawn by hash."""

from __future__ import annotations

import numpy as np
import pandas as pd

from builders.array_types import Hashes, RowIndices
from builders.records import stable_hash


def sample_rows(qrels: pd.DataFrame, sample: int) -> RowIndices:
    """Positions of a sample in which every query has its turn before any has a second one.

    Queries come in the order of their hashes, and so do the pictures of one query: a judgment's place hangs on no
    other query's judgments, and the sample stays as it is when others come and go.
    """
    if len(qrels) <= sample:
        return np.arange(len(qrels))
    query = qrels["query_id"].cat.codes.to_numpy()
    hashes, used = _category_hashes(qrels["query_id"])
    sampled = used[np.argsort(hashes[used], kind="stable")][:sample]  # of later queries none would come up
    place = np.full(len(hashes), -1, dtype=np.int64)
    place[sampled] = np.arange(len(sampled))
    rows = np.flatnonzero(place[query] >= 0)
    of_query = place[query[rows]]
    of_image = _category_hashes(qrels["image_id"])[0][qrels["image_id"].cat.codes.to_numpy()[rows]]
    # One number orders by query, and within it by hash; it sorts in a tenth of the time that two take.
    order = np.argsort(
        (of_query << 40) | (_mixed(hashes[query[rows]], of_image) >> np.uint64(24)).astype(np.int64), kind="stable"
    )
    of_query = of_query[order]
    starts = np.flatnonzero(np.diff(of_query, prepend=-1))
    turn = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    return np.sort(rows[order[np.argsort(turn, kind="stable")[:sample]]])


def _category_hashes(column: pd.Series) -> tuple[Hashes, RowIndices]:
    """A hash per category, each text hashed once however many rows have it, and the codes that rows have."""
    names = column.cat.categories.to_list()
    used = np.flatnonzero(np.bincount(column.cat.codes.to_numpy(), minlength=len(names)))
    hashes = np.zeros(len(names), dtype=np.uint64)
    hashes[used] = [stable_hash("sample", names[code]) for code in used]
    return hashes, used


def _mixed(first: Hashes, second: Hashes) -> Hashes:
    """A hash of two hashes (the finish of splitmix64), for arrays."""
    mixed = first * np.uint64(0x9E3779B97F4A7C15) + second
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
