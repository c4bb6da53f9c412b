"""Sets of several sizes from one build: 1K within 10K within 100K, the same queries in ever larger galleries.

Ambiguity is settled once, in the largest gallery: a query that is clear there is clear in every smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from builders.errors import UserError
from builders.ledger import rejection_rows


@dataclass(frozen=True, slots=True)
class NestedTables:
    """One size. `rejections`: the ledger's rows of queries that have no relevant picture in this gallery; `figures`:
    queries, images, judgments, and `narrower`, the queries of which some relevant pictures lie outside."""

    queries: pd.DataFrame
    images: pd.DataFrame
    qrels: pd.DataFrame
    rejections: pd.DataFrame
    figures: dict[str, int]


def cut_nested_tables(
    sizes: Sequence[int], rank: NDArray[Any], queries: pd.DataFrame, images: pd.DataFrame, qrels: pd.DataFrame
) -> dict[int, NestedTables]:
    """The tables of each size, smallest first. `rank`: per row of images its turn in the selection; the gallery of n
    holds the first n, so each lies within the next.

    A query is asked in every gallery that holds a picture relevant to it, its own or one that it was merged with, and
    its truth there is what the gallery holds of it. Judgments of pictures outside are left out, relevant or not.
    """
    order = rank.argsort(kind="stable")
    if len(set(rank.tolist())) != len(images):
        raise ValueError(f"{len(set(rank.tolist()))} different turns for {len(images)} pictures")
    for size in sizes:
        if not 1 <= size <= len(images):
            raise UserError("cut sizes", size, f"the gallery has {len(images)} pictures", "name sizes within that")
    return {size: _cut(images.iloc[sorted(order[:size])], queries, qrels) for size in sorted(set(sizes))}


def _cut(images: pd.DataFrame, queries: pd.DataFrame, qrels: pd.DataFrame) -> NestedTables:
    inside = qrels["image_id"].isin(images["image_id"])
    relevant = qrels["relevance"] > 0
    answered = set(qrels.loc[inside & relevant, "query_id"].unique())
    is_answered = queries["query_id"].isin(answered)
    truth = qrels[inside & qrels["query_id"].isin(answered)]
    narrower = set(qrels.loc[~inside & relevant, "query_id"].unique()) & answered
    outside = queries.loc[~is_answered, "query_id"].sort_values()
    return NestedTables(
        queries[is_answered].reset_index(drop=True),
        images.reset_index(drop=True),
        _shrunk(truth).reset_index(drop=True),
        rejection_rows(outside, "rejected", "image_outside", item_id=outside),
        {
            "queries": int(is_answered.sum()),
            "images": len(images),
            "judgments": len(truth),
            "narrower": len(narrower),
        },
    )


def _shrunk(qrels: pd.DataFrame) -> pd.DataFrame:
    """Without the categories of what is gone: a set's digest and its size know nothing of the larger ones."""
    categories = [name for name in qrels.columns if isinstance(qrels[name].dtype, pd.CategoricalDtype)]
    return qrels.assign(**{name: qrels[name].cat.remove_unused_categories() for name in categories})
