"""Queries by how often they were asked: head, torso and tail, and a sample of each with its inclusion probabilities.

Each stratum holds about a third of all searches. Within one, queries are drawn without replacement and with equal
chances; a figure per query, divided by its inclusion probability, is one of the whole log (Horvitz and Thompson, "A
Generalization of Sampling Without Replacement from a Finite Universe", 1952).
"""

import numpy as np
import pandas as pd

from querytruth.array_types import AnyArray
from querytruth.records import stable_hash

STRATA = ("head", "torso", "tail")


def assign_strata(queries: pd.DataFrame) -> AnyArray:
    """Returns head, torso or tail per query (query_id, searches): by searches, of equal ones by id."""
    order = np.lexsort((queries["query_id"].to_numpy(dtype="U"), -queries["searches"].to_numpy()))
    searches = queries["searches"].to_numpy(dtype=np.float64)[order]
    before = np.cumsum(searches) - searches  # of the more frequent queries
    third = np.minimum(3 * before // max(searches.sum(), 1.0), 2).astype(int)
    strata = np.empty(len(queries), dtype=object)
    strata[order] = np.array(STRATA, dtype=object)[third]
    return strata


def draw_queries(queries: pd.DataFrame, count: int | None, seed: int) -> pd.DataFrame:
    """Returns the drawn queries with `inclusion`, the probability that each had. Every stratum of the column `stratum`
    gives the same number; one with fewer queries gives all, and the others more. `count` None: all queries. A query's
    place in the draw does not depend on the others, so that a longer log keeps most of a draw."""
    if count is None:
        return queries.assign(inclusion=1.0)
    groups = sorted(queries.groupby("stratum", sort=True), key=lambda group: len(group[1]))
    drawn, left = [], count
    for place, (_, group) in enumerate(groups):
        share = min(len(group), left // (len(groups) - place))
        left -= share
        if share:
            hashes = [stable_hash("draw", str(seed), query_id) for query_id in group["query_id"]]
            first = np.argsort(np.array(hashes, dtype=np.uint64), kind="stable")[:share]
            drawn.append(group.iloc[np.sort(first)].assign(inclusion=share / len(group)))
    return pd.concat(drawn).sort_index() if drawn else queries.head(0).assign(inclusion=1.0)
