"""Nested sets of one build: 1K within 10K within 100K, the same queries in larger galleries.

Ambiguity is resolved in the largest gallery: a query that is unambiguous there is unambiguous in every smaller one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from builders.errors import UserError
from builders.ledger import rejection_rows


@dataclass(frozen=True, slots=True)
class NestedTables:
    """The tables of one size. `rejections`: ledger rows of the queries without a relevant image in this gallery;
    `figures`: counts of queries, images, judgments, and `narrower`: queries that lose some relevant images."""

    queries: pd.DataFrame
    images: pd.DataFrame
    qrels: pd.DataFrame
    rejections: pd.DataFrame
    figures: dict[str, int]


def cut_nested_tables(
    sizes: Sequence[int],
    rank: NDArray[Any],
    queries: pd.DataFrame,
    images: pd.DataFrame,
    qrels: pd.DataFrame,
    waiting: pd.DataFrame | None = None,
) -> dict[int, NestedTables]:
    """Returns the tables of each size, smallest first. `rank`: the rank of each row of `images` in the selection; the
    gallery of size n has the first n images.

    A query is in every set whose gallery has an image relevant to it, or, of an edited text, an image that waits for a
    person (`waiting`: query_id, image_id). Judgments of images outside the gallery are left
    out. Raises ValueError for repeated ranks, UserError for a size that is not within the gallery.
    """
    order = rank.argsort(kind="stable")
    if (distinct := len(set(rank.tolist()))) != len(images):
        raise ValueError(f"{distinct} different ranks for {len(images)} images")
    for size in sizes:
        if not 1 <= size <= len(images):
            raise UserError("cut sizes", size, f"the gallery has {len(images)} pictures", "use sizes up to that")
    return {size: _cut(images.iloc[sorted(order[:size])], queries, qrels, waiting) for size in sorted(set(sizes))}


def _cut(
    images: pd.DataFrame, queries: pd.DataFrame, qrels: pd.DataFrame, waiting: pd.DataFrame | None
) -> NestedTables:
    inside = qrels["image_id"].isin(images["image_id"])
    relevant = qrels["relevance"] > 0
    answered = set(qrels.loc[inside & relevant, "query_id"].unique())
    if waiting is not None:
        answered |= set(waiting.loc[waiting["image_id"].isin(images["image_id"]), "query_id"])
    is_answered = queries["query_id"].isin(answered)
    truth = qrels[inside & qrels["query_id"].isin(answered)]
    narrower = set(qrels.loc[~inside & relevant, "query_id"].unique()) & answered
    outside = queries.loc[~is_answered, "query_id"].sort_values()
    return NestedTables(
        queries[is_answered].reset_index(drop=True),
        images.reset_index(drop=True),
        _shrunk(truth).reset_index(drop=True),
        rejection_rows(outside, "rejected", "image_outside", item_id=outside),
        {"queries": len(answered), "images": len(images), "judgments": len(truth), "narrower": len(narrower)},
    )


def _shrunk(qrels: pd.DataFrame) -> pd.DataFrame:
    """Returns the judgments without unused categories, so that digests and sizes do not depend on larger sets."""
    categories = [name for name in qrels.columns if isinstance(qrels[name].dtype, pd.CategoricalDtype)]
    return qrels.assign(**{name: qrels[name].cat.remove_unused_categories() for name in categories})
