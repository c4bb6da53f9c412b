"""The sample of an audit: pairs or whole queries, chosen by hash, so that the same seed draws the same."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from builders.array_types import Hashes
from builders.audit.pool import OUTSIDE, PAIR, AuditPool
from builders.records import stable_hash

SAMPLE_COLUMNS = [*PAIR, "stratum", "probability", "order"]


def draw_pairs(pool: AuditPool, allocation: Mapping[str, int], seed: int) -> pd.DataFrame:
    """Returns the drawn pairs (SAMPLE_COLUMNS): of each stratum as many as allocated, those with the lowest hashes.
    `probability` is the chance of a pair to be drawn, `order` the place at which it is shown, which tells nothing of
    the stratum."""
    parts = []
    for stratum, pairs in pool.pairs.groupby("stratum", sort=True):
        count = min(allocation.get(str(stratum), 0), len(pairs))
        chosen = np.argsort(_hash_pairs(pairs, seed, "draw"), kind="stable")[:count]
        parts.append(pairs.iloc[np.sort(chosen)].assign(probability=count / len(pairs)))
    return order_sample(pd.concat(parts, ignore_index=True), seed)


def draw_added_pairs(added: AuditPool, allocation: Mapping[str, int], drawn: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Returns the sample of the pairs that an extension adds (SAMPLE_COLUMNS): those of them that the earlier sample
    `drawn` has already, as a draw outside the pool, and others until each stratum has as many as allocated. Given
    their number, the former are a random draw of their stratum, too."""
    known = pd.MultiIndex.from_frame(drawn[PAIR])
    is_known = pd.MultiIndex.from_frame(added.pairs[PAIR]).isin(known)
    parts = [added.pairs.iloc[:0].assign(probability=0.0)]
    for stratum, pairs in added.pairs.assign(is_known=is_known).groupby("stratum", sort=True):
        count = min(max(allocation.get(str(stratum), 0), int(pairs["is_known"].sum())), len(pairs))
        order = np.lexsort((_hash_pairs(pairs, seed, "draw"), ~pairs["is_known"]))  # the known ones first
        parts.append(pairs.iloc[np.sort(order[:count])].assign(probability=count / len(pairs)))
    return order_sample(pd.concat(parts, ignore_index=True), seed)


def draw_queries(pool: AuditPool, query_ids: Sequence[str], count: int, seed: int) -> tuple[pd.DataFrame, list[str]]:
    """Returns all pooled pairs of `count` queries (SAMPLE_COLUMNS), and the ids of these, sorted; a query may have no
    pair."""
    drawn = sorted(sorted(query_ids, key=lambda query: (stable_hash(str(seed), "query", query), query))[:count])
    pairs = pool.pairs[pool.pairs["query_id"].isin(drawn)]
    return order_sample(pairs.assign(probability=len(drawn) / len(query_ids)), seed), drawn


def draw_outside(
    pool: AuditPool, query_ids: Sequence[str], image_ids: Sequence[str], count: int, seed: int
) -> pd.DataFrame:
    """Returns a random draw of pairs outside the pool (SAMPLE_COLUMNS, `order` is 0)."""
    count = min(count, pool.outside_size)
    known = set(pool.pairs[PAIR].itertuples(index=False, name=None))
    drawn: list[tuple[str, str]] = []
    for pair in _random_pairs(sorted(query_ids), sorted(image_ids), seed):
        if len(drawn) >= count:
            break
        if pair not in known:
            known.add(pair)
            drawn.append(pair)
    table = pd.DataFrame(drawn, columns=PAIR, dtype="str")
    return table.assign(stratum=OUTSIDE, probability=count / max(pool.outside_size, 1), order=0)


def order_sample(sample: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Returns the sample with its order, by hash over all strata."""
    order = np.argsort(_hash_pairs(sample, seed, "order"), kind="stable")
    ordered = sample.iloc[order].reset_index(drop=True)
    return ordered.assign(order=np.arange(1, len(ordered) + 1))[SAMPLE_COLUMNS]


def _random_pairs(query_ids: Sequence[str], image_ids: Sequence[str], seed: int) -> Iterator[tuple[str, str]]:
    total = len(query_ids) * len(image_ids)
    number = 0
    while total:
        place = stable_hash(str(seed), "outside", str(number)) % total
        yield query_ids[place // len(image_ids)], image_ids[place % len(image_ids)]
        number += 1


def _hash_pairs(pairs: pd.DataFrame, seed: int, purpose: str) -> Hashes:
    columns = zip(pairs["query_id"], pairs["image_id"], strict=True)
    hashes = [stable_hash(str(seed), purpose, query, image) for query, image in columns]
    return np.asarray(hashes, dtype=np.uint64)
