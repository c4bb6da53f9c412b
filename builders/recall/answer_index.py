"""Queries, images and answers as numbers, in an order that depends on ids alone.

An answer is an image or a duplicate group: near-duplicates are one answer and never confusable with each other.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.array_types import RowIndices

Texts = NDArray[np.object_]


class MemberIndex:
    """The members of each of `count` owners. `owner`: the owner of each member, -1 for none."""

    def __init__(self, owner: RowIndices, count: int) -> None:
        owned = np.flatnonzero(owner >= 0)
        self.members = owned[np.argsort(owner[owned], kind="stable")]
        self.sizes = np.bincount(owner[owned], minlength=count)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def members_of(self, owners: RowIndices) -> tuple[RowIndices, RowIndices]:
        """Returns for every member of the owners the position of its owner in `owners`, and the member."""
        sizes = self.sizes[owners]
        place = np.repeat(np.arange(len(owners)), sizes)
        inside = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        members: Any = self.members[np.repeat(self.starts[owners], sizes) + inside]
        return place, members


@dataclass(frozen=True)
class AnswerIndex:
    """Queries and images sorted by id; `query_rows` and `image_rows` are their rows in the given frames.

    `answer` is the answer of each image, numbered in the order of the images, `count` the number of answers;
    `relevant_query` and `relevant_image` pair each query with its relevant images; `judged_keys` are the sorted keys
    of all judged pairs (`pair_keys`).
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

    def pair_keys(self, query: RowIndices, answer: RowIndices) -> RowIndices:
        """Returns pairs of query and answer as single numbers."""
        return query * self.count + answer

    def pairs_of_keys(self, keys: RowIndices) -> tuple[RowIndices, RowIndices]:
        """Returns the query and the answer of each key."""
        return keys // max(self.count, 1), keys % max(self.count, 1)

    def caption_answer_pairs(self) -> tuple[RowIndices, RowIndices]:
        """Returns the distinct pairs of a query and an answer that it is a caption of."""
        return self.pairs_of_keys(np.unique(self.pair_keys(self.relevant_query, self.answer[self.relevant_image])))

    def max_judged_per_query(self) -> int:
        """Returns the largest number of judged answers of a query."""
        return int(np.bincount(self.pairs_of_keys(self.judged_keys)[0], minlength=1).max())

    @cached_property
    def images_by_answer(self) -> MemberIndex:
        """The images of each answer."""
        return MemberIndex(self.answer, self.count)

    def representative_images(self) -> RowIndices:
        """Returns the first image of each answer."""
        return np.unique(self.answer, return_index=True)[1]


def build_answer_index(
    queries: pd.DataFrame, qrels: pd.DataFrame, images: pd.DataFrame, duplicates: pd.DataFrame | None
) -> AnswerIndex:
    """Returns the index, independent of the order of rows. Raises ValueError for a judgment of an unknown query or
    image."""
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
    wanted = pd.Index(names.astype("str").to_numpy(dtype=object))
    places: RowIndices = pd.Index(ids).get_indexer(wanted).astype(np.int64)
    if (places < 0).any():
        raise ValueError(f"a judgment names {names.iloc[int(np.argmin(places))]!r}, which is in no table")
    return places


def _groups(images: pd.DataFrame, duplicates: pd.DataFrame | None) -> Any:
    """Returns the duplicate group of each image, or the image id where it has none."""
    group = images["duplicate_group"].astype("object")
    if duplicates is not None and len(duplicates):
        known = duplicates.drop_duplicates("image_id").set_index("image_id")["duplicate_group"]
        group = group.where(group.notna(), images["image_id"].map(known))
    return group.where(group.notna(), images["image_id"]).to_numpy(dtype=object)
