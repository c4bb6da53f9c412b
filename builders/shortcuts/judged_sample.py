"""The part of a set on which shortcuts are measured: queries with a relevant image, and their gallery."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from builders.array_types import AnyArray, BoolArray, Hashes, RowIndices
from builders.benchmark_set import Tables
from builders.records import mix_bits, stable_hash

MAX_QUERIES, MAX_IMAGES = 500, 10_000
_RELEVANT = 1_000  # images per query
_BLOCK = 1 << 18  # judgments: fit a processor's cache


@dataclass(frozen=True, slots=True)
class JudgedSample:
    """`queries` and `images` in the order of the set, with `place` (0 to 1) in it. A pair of a query (row) and an image
    that is relevant for it is a place in `query` and `image`, (pairs,). `subject` (queries,): queries of one subject
    share their truth."""

    queries: pd.DataFrame
    images: pd.DataFrame
    query: RowIndices
    image: RowIndices
    subject: list[tuple[str, ...]]

    def relevant_counts(self) -> RowIndices:
        """Returns the number of relevant images per query (queries,)."""
        return np.bincount(self.query, minlength=len(self.queries))


def draw_sample(tables: Tables) -> JudgedSample:
    """Returns at most MAX_QUERIES queries, drawn by hash, and MAX_IMAGES images: relevant ones first, so that none of
    these queries is without one; of a query with more than 1,000 relevant images, 1,000."""
    query_ids, image_ids = tables.queries["query_id"], tables.images["image_id"]
    query, image, is_drawn = _relevant_pairs(tables)
    if len(query) > MAX_IMAGES:
        query, image = _limit_images(query, image, query_ids, image_ids)
    is_needed = np.zeros(len(image_ids), dtype=bool)
    is_needed[image] = True
    is_chosen = _draw(image_ids, is_needed, MAX_IMAGES)
    is_chosen |= _draw(image_ids, ~is_needed, max(0, MAX_IMAGES - int(is_needed.sum())))
    query, image = query[is_chosen[image]], image[is_chosen[image]]
    is_drawn[:] = False
    is_drawn[query] = True
    queries, images = _part(tables.queries, is_drawn), _part(tables.images, is_chosen)
    query, image = (np.cumsum(is_drawn) - 1)[query], (np.cumsum(is_chosen) - 1)[image]
    return JudgedSample(queries, images, query, image, _subjects(queries, images, query, image))


def _relevant_pairs(tables: Tables) -> tuple[RowIndices, RowIndices, BoolArray]:
    """Returns the rows of queries and images of the relevant pairs of the drawn queries, and which are drawn."""
    query_row, query_codes = _rows_by_code(tables.qrels["query_id"], tables.queries["query_id"])
    image_row, image_codes = _rows_by_code(tables.qrels["image_id"], tables.images["image_id"])
    is_relevant = tables.qrels["relevance"].to_numpy() > 0
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(is_relevant), _BLOCK)]
    is_judged = np.zeros(len(tables.queries) + 1, dtype=bool)  # the last one: judgments of no query of the set
    for block in blocks:
        is_judged[query_row[query_codes[block][is_relevant[block]]]] = True
    is_drawn = _draw(tables.queries["query_id"], is_judged[:-1], MAX_QUERIES)
    is_drawn_code = np.append(is_drawn, False)[query_row]
    rows = [b.start + np.flatnonzero(is_relevant[b] & is_drawn_code[query_codes[b]]) for b in blocks]
    pairs = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
    query, image = query_row[query_codes[pairs]], image_row[image_codes[pairs]]
    return query[image >= 0], image[image >= 0], is_drawn


def _rows_by_code(judged: pd.Series, ids: pd.Series) -> tuple[RowIndices, AnyArray]:
    """Returns the row of each distinct id in `ids`, -1: none, and the code of each judgment among the distinct ids."""
    column = judged.astype("category").cat
    return pd.Index(ids.astype("str")).get_indexer(column.categories.astype("str")), column.codes.to_numpy()


def _limit_images(
    query: RowIndices, image: RowIndices, query_ids: pd.Series, image_ids: pd.Series
) -> tuple[RowIndices, RowIndices]:
    """Returns the pairs with at most 1,000 images of each query, drawn by hash. A pair's hash mixes those of its ids:
    to hash the text of each of a million pairs would take seconds."""
    query_hashes, image_hashes = _hash_used(query_ids, query), _hash_used(image_ids, image)
    pairs = mix_bits(query_hashes[query] ^ image_hashes[image])
    by_query = np.split(np.argsort(query, kind="stable"), np.cumsum(np.bincount(query))[:-1])
    kept = np.concatenate(
        [
            rows if len(rows) <= _RELEVANT else rows[np.argpartition(pairs[rows], _RELEVANT)[:_RELEVANT]]
            for rows in by_query
        ]
    )
    return query[kept], image[kept]


def _hash_used(ids: pd.Series, rows: RowIndices) -> Hashes:
    """Returns a hash per id (ids,), 0 where no row is of it."""
    is_used = np.zeros(len(ids), dtype=bool)
    is_used[rows] = True
    used = np.flatnonzero(is_used)
    hashes = np.zeros(len(ids), dtype=np.uint64)
    hashes[used] = [stable_hash("shortcuts", one) for one in ids.iloc[used].astype(str).tolist()]
    return hashes


def _draw(ids: pd.Series, is_candidate: BoolArray, count: int) -> BoolArray:
    """Returns which of the candidates are drawn, at most `count`."""
    rows = np.flatnonzero(is_candidate)
    if len(rows) > count:
        rows = rows[np.argsort(_hash_used(ids, rows)[rows], kind="stable")[:count]] if count else rows[:0]
    is_drawn = np.zeros(len(ids), dtype=bool)
    is_drawn[rows] = True
    return is_drawn


def _part(table: pd.DataFrame, is_kept: BoolArray) -> pd.DataFrame:
    kept = np.flatnonzero(is_kept)
    return table.iloc[kept].assign(place=kept / max(len(table) - 1, 1)).reset_index(drop=True)


def _subjects(
    queries: pd.DataFrame, images: pd.DataFrame, query: RowIndices, image: RowIndices
) -> list[tuple[str, ...]]:
    """Returns the labels of each query, or its relevant images, together, where it has no labels."""
    labels = queries["labels"] if "labels" in queries else [None] * len(queries)
    subjects = [tuple(map(str, own)) if own is not None and len(own) else () for own in labels]
    if not all(subjects):
        parts = np.split(
            image[np.argsort(query, kind="stable")], np.cumsum(np.bincount(query, minlength=len(queries)))[:-1]
        )
        ids = images["image_id"].astype(str).to_numpy()
        subjects = [own or (" ".join(sorted(ids[part])),) for own, part in zip(subjects, parts, strict=True)]
    return subjects
