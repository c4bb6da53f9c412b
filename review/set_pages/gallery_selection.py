"""The images on the page of a gallery: the same for the same gallery, however large."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import pandas as pd

from builders.benchmark_set import Tables
from review.set_pages.rejection_examples import RejectionReason, sample_rejections

MATCH_NAMES = {  # the kinds of matches, the most certain first
    "bytes": "same bytes",
    "pixels": "same pixels",
    "person": "the same, a person decided",
    "hash": "looks alike",
    "patches": "an edited copy",
    "embedding": "similar to the embedder",
}
_NAMED = 40  # further members of a group, by name


class ThumbnailKey(NamedTuple):
    """The key of a thumbnail: an image of the set by its image_id, or a listed item by its name. The kind is needed, as
    a file may have an image id as its name."""

    kind: Literal["image", "item"]
    name: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """An image of a duplicate group; `matched_by` is None on the representative, `edit` without a match by patches."""

    key: ThumbnailKey
    item: str
    width: int
    height: int
    is_representative: bool
    matched_by: str | None
    distance: int | None
    edit: str | None


@dataclass(frozen=True, slots=True)
class DuplicateGroupSample:
    """A duplicate group of `size` members: some as images, more by name."""

    size: int
    members: tuple[GroupMember, ...]
    further_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GallerySelection:
    """The content of the page, and the number of all groups. A reason has no examples where the groups show all of its
    items."""

    image_ids: list[str]
    groups: list[DuplicateGroupSample]
    group_total: int
    rejection_reasons: list[RejectionReason]

    @property
    def thumbnail_keys(self) -> list[ThumbnailKey]:
        """The keys of all images with a thumbnail, once, in the order of the page."""
        shown = [ThumbnailKey("image", image_id) for image_id in self.image_ids]
        shown += [member.key for group in self.groups for member in group.members]
        shown += [ThumbnailKey("item", one.item) for reason in self.rejection_reasons for one in reason.examples]
        return list(dict.fromkeys(shown))


def select_gallery(
    tables: Tables, *, images: int = 150, groups: int = 60, members: int = 6, examples: int = 6
) -> GallerySelection:
    """Select images by their ids, which are digests; the largest duplicate groups with some members each; and examples
    of each reason for a rejection."""
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
        row.edit if isinstance(row.edit, str) else None,
    )


def _match_order(member: GroupMember) -> tuple[bool, int, int, str]:
    matches = [*MATCH_NAMES, member.matched_by]
    return not member.is_representative, matches.index(member.matched_by), member.distance or 0, member.item


def _rejection_reasons(tables: Tables, examples: int) -> Iterator[RejectionReason]:
    """Yield the reasons, without examples where the duplicate groups show all items."""
    ledger, duplicates = tables.ledger, tables.duplicates
    shown_in_groups = set(duplicates.loc[~duplicates["is_representative"].astype(bool), "item"])
    elsewhere = ledger.loc[~ledger["item"].isin(shown_in_groups), ["stage", "reason"]].astype("str")
    with_examples = set(elsewhere.itertuples(index=False, name=None))
    for one in sample_rejections(ledger, examples):
        yield one if (one.stage, one.reason) in with_examples else replace(one, examples=())
