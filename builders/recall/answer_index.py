"""Who asks for what: queries, pictures and answers as numbers, in an order that depends on ids alone.

An answer is a picture, or a duplicate group of them: near-duplicates are one answer, never each other's rivals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.array_types import RowIndices
from builders.recall.member_index import MemberIndex

Texts = NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class AnswerIndex:
    """Queries and pictures sorted by id; `query_rows` and `image_rows` are their places in the frames given.

    `answer` per picture, numbered in the order of the pictures; `relevant_query` and `relevant_image` pair each query
    with its relevant pictures, `judged_keys` are query * count + answer of every pair with a judgment, sorted.
    """

    query_ids: Texts
    texts: Texts
    image_ids: Texts
    query_rows: RowIndices
    image_rows: RowIndices
    answer: RowIndices
    count: int
    relevant_query: RowIndices
    relevant_image: RowIndices
    judged_keys: RowIndices

    def caption_answer_pairs(self) -> tuple[RowIndices, RowIndices]:
        """Query and answer of each pair of which the query's text was said, once."""
        keys = np.unique(self.relevant_query * self.count + self.answer[self.relevant_image])
        return keys // max(self.count, 1), keys % max(self.count, 1)

    def max_judged_per_query(self) -> int:
        """Judged answers of a query, at most."""
        return int(np.bincount(self.judged_keys // max(self.count, 1), minlength=1).max())

    def representative_images(self) -> RowIndices:
        """The picture by which an answer is named: its first."""
        firsts: RowIndices = MemberIndex(self.answer, self.count).members_of(np.arange(self.count))[1]
        return firsts[np.unique(self.answer[firsts], return_index=True)[1]]


def build_answer_index(
    queries: pd.DataFrame, qrels: pd.DataFrame, images: pd.DataFrame, duplicates: pd.DataFrame | None
) -> AnswerIndex:
    """The same numbers whatever the order of rows; a judgment of an unknown query or picture is a ValueError."""
    query_ids, query_rows = _sorted(queries["query_id"])
    image_ids, image_rows = _sorted(images["image_id"])
    answer = pd.factorize(_groups(images, duplicates)[image_rows])[0].astype(np.int64)
    count = int(answer.max(initial=-1)) + 1
    query, image = _places(qrels["query_id"], query_ids), _places(qrels["image_id"], image_ids)
    relevant = qrels["relevance"].to_numpy() > 0
    return AnswerIndex(
        query_ids,
        queries["text"].to_numpy(dtype=object)[query_rows],
        image_ids,
        query_rows,
        image_rows,
        answer,
        count,
        query[relevant],
        image[relevant],
        np.unique(query * count + answer[image]),
    )


def _sorted(ids: pd.Series) -> tuple[Texts, RowIndices]:
    plain = ids.to_numpy(dtype=object)
    rows = np.argsort(plain, kind="stable")
    return plain[rows], rows


def _places(names: pd.Series, ids: Texts) -> RowIndices:
    places: RowIndices = (
        pd.Index(ids).get_indexer(pd.Index(names.astype("str").to_numpy(dtype=object))).astype(np.int64)
    )
    if (places < 0).any():
        raise ValueError(f"a judgment names {names.iloc[int(np.argmin(places))]!r}, which is in no table")
    return places


def _groups(images: pd.DataFrame, duplicates: pd.DataFrame | None) -> Any:
    """The duplicate group of each picture, where it has none the picture itself."""
    group = images["duplicate_group"].astype("object")
    if duplicates is not None and len(duplicates):
        known = duplicates.drop_duplicates("image_id").set_index("image_id")["duplicate_group"]
        group = group.where(group.notna(), images["image_id"].map(known))
    return group.where(group.notna(), images["image_id"]).to_numpy(dtype=object)
