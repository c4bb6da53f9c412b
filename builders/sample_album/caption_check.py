"""How well a set made of the album's captions knows which of them fit several pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from builders.benchmark_set import Tables


@dataclass(frozen=True, slots=True)
class CaptionCheck:
    """`ambiguous`: captions of the gallery's pictures, in all languages of the set, that fit another picture, too. Of
    the set's queries: `reported` as ambiguous (by several relevant pictures, or a suspicion), `true`: those that are,
    `right`: both; `as_true`: those whose relevant pictures are just the ones that the caption fits."""

    ambiguous: int
    queries: int
    reported: int
    right: int
    true: int
    as_true: int

    @property
    def precision(self) -> float:
        """Of the reported ones, the share that is right."""
        return self.right / self.reported if self.reported else 1.0

    @property
    def recall(self) -> float:
        """Of the true ones, the share that is reported."""
        return self.right / self.true if self.true else 1.0


def check_captions(tables: Tables, fitting: Iterable[tuple[str, str]]) -> CaptionCheck:
    """`fitting` are pairs of file names: a picture, and another that its caption fits, too. One that is the same
    picture as the caption's own, or is not in the gallery, does not count."""
    images, queries = tables.images, tables.queries
    name = dict(zip(images["image_id"], images["file_name"], strict=True))
    truth = _truth(tables, fitting)
    own = dict(zip(queries["query_id"], queries["source_image_id"].map(name), strict=True))
    found: dict[str, set[str]] = {query: set() for query in own}
    positive = tables.qrels[tables.qrels["relevance"] > 0].astype({"query_id": "object", "image_id": "object"})
    for query, image in zip(positive["query_id"], positive["image_id"], strict=True):
        found[query].add(name[image])
    reported = {query for query, pictures in found.items() if len(pictures) > 1} | set(tables.suspicions["query_id"])
    true = {query for query, picture in own.items() if len(truth[picture]) > 1}
    return CaptionCheck(
        ambiguous=sum(len(pictures) > 1 for pictures in truth.values()) * queries["language"].nunique(),
        queries=len(own),
        reported=len(reported),
        right=len(reported & true),
        true=len(true),
        as_true=sum(found[query] == truth[picture] for query, picture in own.items()),
    )


def _truth(tables: Tables, fitting: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Per picture of the gallery those that its caption fits, itself first."""
    images = tables.images
    group = dict(zip(images["file_name"], images["duplicate_group"].fillna(images["image_id"]), strict=True))
    truth = {picture: {picture} for picture in group}
    for one, other in fitting:
        if one in group and other in group and group[one] != group[other]:
            truth[one].add(other)
    return truth
