"""The part of a set on which shortcuts are measured: queries with a relevant image, and their gallery."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from builders.array_types import RowIndices
from builders.benchmark_set import Tables
from builders.records import stable_hash

MAX_QUERIES, MAX_IMAGES = 500, 10_000
_RELEVANT = 1_000  # images per query


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
    relevant = tables.qrels.loc[tables.qrels["relevance"] > 0, ["query_id", "image_id"]]
    judged = set(relevant["query_id"].unique())
    drawn = _draw(tables.queries.loc[tables.queries["query_id"].isin(judged), "query_id"], MAX_QUERIES)
    relevant = relevant[relevant["query_id"].isin(drawn)].astype("str").sort_values(["query_id", "image_id"])
    relevant = relevant[relevant["image_id"].isin(tables.images["image_id"])]
    if len(relevant) > MAX_IMAGES:
        order = np.argsort([stable_hash("shortcuts", *pair) for pair in relevant.itertuples(index=False)])
        relevant = relevant.iloc[order].groupby("query_id", sort=False).head(_RELEVANT)
    needed = dict.fromkeys(relevant["image_id"])
    others = tables.images.loc[~tables.images["image_id"].isin(needed), "image_id"]
    chosen = {*_draw(pd.Series([*needed]), MAX_IMAGES), *_draw(others, max(0, MAX_IMAGES - len(needed)))}
    images, queries = _part(tables.images, "image_id", chosen), _part(tables.queries, "query_id", drawn)
    relevant = relevant[relevant["image_id"].isin(chosen)]
    queries = queries[queries["query_id"].isin(relevant["query_id"])].reset_index(drop=True)
    query = pd.Index(queries["query_id"]).get_indexer(pd.Index(relevant["query_id"]))
    image = pd.Index(images["image_id"]).get_indexer(pd.Index(relevant["image_id"]))
    return JudgedSample(queries, images, query.astype(np.int64), image.astype(np.int64), _subjects(queries, relevant))


def _draw(ids: pd.Series, count: int) -> set[str]:
    if len(ids) <= count:
        return set(ids)
    return set(sorted(ids, key=lambda one: stable_hash("shortcuts", str(one)))[:count])


def _part(table: pd.DataFrame, column: str, ids: set[str]) -> pd.DataFrame:
    placed = table.assign(place=np.arange(len(table)) / max(len(table) - 1, 1))
    return placed[placed[column].isin(ids)].reset_index(drop=True)


def _subjects(queries: pd.DataFrame, relevant: pd.DataFrame) -> list[tuple[str, ...]]:
    """Returns the labels of each query, or its relevant images, together, where it has no labels."""
    images = relevant.sort_values(["query_id", "image_id"]).groupby("query_id")["image_id"].agg(" ".join).to_dict()
    labels = queries["labels"] if "labels" in queries else [None] * len(queries)
    pairs = zip(queries["query_id"], labels, strict=True)
    return [tuple(map(str, own)) if own is not None and len(own) else (images[name],) for name, own in pairs]
