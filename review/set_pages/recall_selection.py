"""The queries and images on the page of a recall set: the same for the same set, however large."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from builders.benchmark_set import Tables
from review.set_pages.rejection_examples import RejectionReason, sample_rejections
from review.set_pages.set_parts import DisplayedWording, reading_order

_CLEANING = "clean"  # the stage in the ledger that rejects replies without a caption
_EXAMPLES = 4  # rejected replies shown of each reason


@dataclass(frozen=True, slots=True)
class CaptionQuery(DisplayedWording):
    """One query, with the other images that are relevant for it, sorted."""

    other_relevant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImageQueries:
    """An image with its queries; `image_id` is None for a query that has no relevant image in the set."""

    image_id: str | None
    queries: tuple[CaptionQuery, ...]


@dataclass(frozen=True, slots=True)
class RecallSelection:
    """The content of the page: images of `image_total`, ambiguous captions from the manifest's notes, and rejected
    replies."""

    images: list[ImageQueries]
    image_total: int
    ambiguous: list[dict[str, Any]]
    rejected_replies: list[RejectionReason]
    max_other_relevant: int  # images shown beside the own image of a query

    @property
    def image_ids(self) -> list[str]:
        """The ids of all images shown, once, in the order of the page."""
        shown = [one.image_id for one in self.images if one.image_id is not None]
        queries = [query for one in self.images for query in one.queries]
        shown += [name for query in queries for name in query.other_relevant[: self.max_other_relevant]]
        for example in self.ambiguous:
            shown += [example["image_id"], *[confusable["image_id"] for confusable in example["rivals"]]]
        return list(dict.fromkeys(shown))


def select_recall(
    tables: Tables, notes: dict[str, Any], *, images: int = 96, examples: int = 24, max_other_relevant: int = 3
) -> RecallSelection:
    """Select images with queries by their ids, which are digests; `notes`: those of the manifest."""
    right = _relevant_pairs(tables)
    shown = _shown_image(tables.queries, right)
    image_ids = shown.dropna().unique()
    chosen = heapq.nsmallest(images, image_ids)
    queries_without_image = heapq.nsmallest(images - len(chosen), tables.queries.loc[shown.isna(), "query_id"])
    ledger, ambiguous = tables.ledger, (notes.get("ambiguity") or {}).get("examples", [])[:examples]
    grouped = _group_by_image(tables.queries, shown, chosen, right)
    return RecallSelection(
        [*grouped, *_without_image(tables.queries, queries_without_image)],
        len(image_ids),
        ambiguous,
        sample_rejections(ledger[ledger["stage"] == _CLEANING], _EXAMPLES),
        max_other_relevant,
    )


def _relevant_pairs(tables: Tables) -> pd.DataFrame:
    """Return the sorted pairs of queries and relevant images that are in the set."""
    qrels = tables.qrels[tables.qrels["relevance"] > 0]
    plain = qrels[["query_id", "image_id"]].astype("str")
    plain = plain[plain["image_id"].isin(tables.images["image_id"])]
    return plain.sort_values(["query_id", "image_id"], ignore_index=True)


def _shown_image(queries: pd.DataFrame, right: pd.DataFrame) -> pd.Series:
    """Return per query its image on the page: the source of the caption if it is relevant, else the first relevant one,
    as in a smaller gallery without the source."""
    pairs = pd.MultiIndex.from_frame(right)
    own = pd.MultiIndex.from_arrays([queries["query_id"].astype("str"), queries["source_image_id"].astype("object")])
    first = right.drop_duplicates("query_id").set_index("query_id")["image_id"]
    shown: pd.Series = queries["source_image_id"].where(own.isin(pairs), queries["query_id"].map(first))
    return shown


def _group_by_image(
    queries: pd.DataFrame, shown: pd.Series, chosen: list[str], right: pd.DataFrame
) -> Iterator[ImageQueries]:
    chosen_queries = queries[shown.isin(chosen)].assign(image=shown[shown.isin(chosen)])
    pairs = right[right["query_id"].isin(chosen_queries["query_id"])]
    of_query = pairs.groupby("query_id")["image_id"].agg(tuple).to_dict()
    by_image: dict[str, list[CaptionQuery]] = {image_id: [] for image_id in chosen}
    for row in chosen_queries.itertuples(index=False):
        also = tuple(image_id for image_id in of_query[row.query_id] if image_id != row.image)
        by_image[row.image].append(CaptionQuery(row.query_id, row.text, row.language, row.style, also))
    for image_id, caption_queries in by_image.items():
        yield ImageQueries(image_id, tuple(sorted(caption_queries, key=reading_order)))


def _without_image(queries: pd.DataFrame, lost: Iterable[str]) -> Iterator[ImageQueries]:
    for row in queries[queries["query_id"].isin(list(lost))].sort_values("query_id").itertuples(index=False):
        yield ImageQueries(None, (CaptionQuery(row.query_id, row.text, row.language, row.style, ()),))
