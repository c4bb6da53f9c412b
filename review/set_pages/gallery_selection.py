"""Which pictures of a gallery a page shows: the same whenever the gallery is, however large it is."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from builders.benchmark_set import Tables
from builders.records import stable_hash

_CANDIDATES = 2000  # looked at per reason: a million pictures that were not selected take no longer
_WAYS = ("bytes", "pixels", "person", "hash", "embedding")  # the surest match first
_NAMED = 40  # further members of a group, by name


class ThumbnailKey(NamedTuple):
    """What a thumbnail is of: a picture of the set by its image_id, or a listed item by its name. A file may bear
    the id of a picture as its name; hence the kind."""

    kind: Literal["image", "item"]
    name: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One picture of a duplicate group; `matched_by` is None on the representative."""

    key: ThumbnailKey
    item: str
    width: int
    height: int
    is_representative: bool
    matched_by: str | None
    distance: int | None


@dataclass(frozen=True, slots=True)
class DuplicateGroupSample:
    """A duplicate group of `size` members: some to be seen, more by name."""

    size: int
    members: tuple[GroupMember, ...]
    further_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GalleryRejectionReason:
    """All that left a stage for one reason; `grouped` says that the duplicate groups show them already."""

    stage: str
    bucket: str
    reason: str
    count: int
    grouped: bool
    examples: tuple[tuple[str, str], ...]  # item, detail


@dataclass(frozen=True, slots=True)
class GallerySelection:
    """What the page shows, and how many groups there are in all."""

    image_ids: list[str]
    groups: list[DuplicateGroupSample]
    group_total: int
    rejection_reasons: list[GalleryRejectionReason]

    @property
    def thumbnail_keys(self) -> list[ThumbnailKey]:
        """Every picture that needs a thumbnail, once, in the order of the page."""
        shown = [ThumbnailKey("image", image_id) for image_id in self.image_ids]
        shown += [member.key for group in self.groups for member in group.members]
        shown += [ThumbnailKey("item", item) for reason in self.rejection_reasons for item, _ in reason.examples]
        return list(dict.fromkeys(shown))


def select_gallery(
    tables: Tables, *, images: int = 150, groups: int = 60, members: int = 6, examples: int = 6
) -> GallerySelection:
    """So many pictures of the gallery at most (drawn by their ids, which are digests), duplicate groups (the largest)
    with so many members each, and examples of each reason (drawn by hash)."""
    ids = heapq.nsmallest(images, tables.images["image_id"])
    chosen = tables.images[tables.images["image_id"].isin(ids)]
    chosen = chosen.sort_values(["taken_at", "file_name", "image_id"], na_position="last")
    group_sizes = tables.duplicates["duplicate_group"].value_counts()
    return GallerySelection(
        [str(image_id) for image_id in chosen["image_id"]],
        list(_groups(tables, group_sizes, groups, members)),
        len(group_sizes),
        list(_rejection_reasons(tables, examples)),
    )


def _groups(tables: Tables, sizes: pd.Series, groups: int, members: int) -> Iterator[DuplicateGroupSample]:
    least = sizes.iloc[min(groups, len(sizes)) - 1] if len(sizes) else 0
    largest = sorted(sizes[sizes >= least].items(), key=lambda pair: (-pair[1], str(pair[0])))[:groups]
    rows = tables.duplicates[tables.duplicates["duplicate_group"].isin([name for name, _ in largest])]
    image_ids_in_set = set(tables.images["image_id"][tables.images["image_id"].isin(rows["image_id"])])
    by_group = dict(list(rows.groupby("duplicate_group", observed=True)))
    for name, size in largest:
        every = sorted((_member(row, image_ids_in_set) for row in by_group[name].itertuples()), key=_match_order)
        further = tuple(member.item for member in every[members : members + _NAMED])
        yield DuplicateGroupSample(int(size), tuple(every[:members]), further)


def _member(row: Any, image_ids_in_set: set[str]) -> GroupMember:
    in_set = bool(row.is_representative) and row.image_id in image_ids_in_set
    return GroupMember(
        ThumbnailKey("image", row.image_id) if in_set else ThumbnailKey("item", row.item),
        row.item,
        int(row.width),
        int(row.height),
        bool(row.is_representative),
        row.matched_by if isinstance(row.matched_by, str) else None,
        None if pd.isna(row.distance) else int(row.distance),
    )


def _match_order(member: GroupMember) -> tuple[bool, int, int, str]:
    way = _WAYS.index(member.matched_by) if member.matched_by in _WAYS else len(_WAYS)
    return not member.is_representative, way, member.distance or 0, member.item


def _rejection_reasons(tables: Tables, examples: int) -> Iterator[GalleryRejectionReason]:
    """Stages in the ledger's order, the most frequent reason of each first."""
    ledger = tables.ledger
    is_duplicate = ledger["item"].isin(
        tables.duplicates.loc[~tables.duplicates["is_representative"].astype(bool), "item"]
    )
    rows = [ledger[column].astype("str") for column in ("stage", "bucket", "reason")]
    order = {str(stage): number for number, stage in enumerate(ledger["stage"].unique())}
    ordered = [
        (order[stage], -len(places), reason, bucket, stage, places)
        for (stage, bucket, reason), places in ledger.groupby(rows).indices.items()
    ]
    for _, count, reason, bucket, stage, places in sorted(ordered, key=lambda one: one[:4]):
        grouped = bool(is_duplicate.iloc[places].all())
        samples = () if grouped else tuple(_sample_examples(ledger, places, examples))
        yield GalleryRejectionReason(stage, bucket, reason, -count, grouped, samples)


def _sample_examples(ledger: pd.DataFrame, places: Any, examples: int) -> Iterator[tuple[str, str]]:
    spread = places[np.linspace(0, len(places) - 1, min(len(places), _CANDIDATES)).astype(np.int64)]
    rows = list(ledger[["item", "detail"]].iloc[spread].itertuples(index=False))
    for row in heapq.nsmallest(examples, rows, key=lambda row: (stable_hash("page", row.item), row.item)):
        yield row.item, row.detail if isinstance(row.detail, str) else ""
