"""Duplicate groups: their images, their representatives, and the rejections of the others.

Ties connect images: bytes, upright pixels, aligned thumbnails (`same_images`), or a pair that a model found. In a group
each image is tied to the representative itself (`duplicate_groups`), except those that people put there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from builders.gallery import duplicate_groups
from builders.gallery.duplicate_overrides import UNTIED_DISTANCE, apply_duplicate_overrides
from querytruth.array_types import BoolArray, RowIndices
from querytruth.backends.images.hash_neighbours import Components, equal_code_pairs
from querytruth.backends.images.same_images import ALL_TURNS, AS_IT_IS, FLIPS, NO_BITS, ROTATIONS, ComparableImages
from querytruth.records import DUPLICATES_SCHEMA, content_id
from querytruth.sets import decision_outcomes, decision_records, ledger

# The strongest first; None: the image is a representative.
_TIE_KINDS = np.array([None, "bytes", "pixels", "views", "embedding", "person"], dtype=object)
_TIE_BY_VIEWS, _TIE_BY_EMBEDDING, _TIE_BY_PERSON = 3, 4, 5


@dataclass(frozen=True, slots=True)
class DuplicateGroups:
    """Per row (n,) whether it is accepted (`is_kept`) and its group (None without one); the table of DUPLICATES_SCHEMA;
    and the ledger's rows of the others. `decision_outcome`: the outcome of people's decisions on images."""

    is_kept: BoolArray
    group: np.ndarray[Any, np.dtype[np.object_]]
    table: pd.DataFrame
    rejections: pd.DataFrame
    decision_outcome: decision_outcomes.DecisionOutcome


def find_duplicates(
    frame: pd.DataFrame,
    *,
    distance: int | None,
    flips: bool = False,
    rotations: bool = False,
    pairs: RowIndices | None = None,
    decisions: Sequence[decision_records.ImagePairDecision] = (),
) -> DuplicateGroups:
    """Return the groups among the frame's images. Columns: image_id, item, sha256, pixels, width, height; with a
    `distance` (bits; None: the same bytes or pixels only) views and thumbnail, null where an image has none, and
    optional details, which drawings must not contradict each other in; optional taken_at and latitude, which make an
    image preferred; optional is_damaged: such an image represents only damaged ones.

    `flips` finds images mirrored left-right, upside down, or both, `rotations` those rotated by quarter turns. `pairs`
    (n, 2) are rows that are the same by another measure. `decisions`: people's last ones on pairs of images, which
    override ties (`apply_duplicate_overrides`).
    """
    ties = _read_ties(frame, distance, flips, rotations, pairs)
    components = ties.groups()
    is_damaged = frame["is_damaged"].to_numpy(dtype=bool) if "is_damaged" in frame else np.zeros(len(frame), bool)
    muteness = np.zeros(len(frame), np.int64)
    if ties.images is not None:
        muteness = ties.images.views.muteness.astype(np.int64)
    preference = duplicate_groups.rank_by_preference(frame, components, muteness)
    same = ties.same_pixels()
    relate = partial(ties.relate, same)
    star, centre = duplicate_groups.divide_into_stars(components, same, preference, is_damaged, muteness > 1, relate)
    overridden = apply_duplicate_overrides(star, frame["image_id"], decisions, ties.tie_distances)
    group = overridden.group
    rows = np.flatnonzero(np.bincount(group, minlength=len(frame))[group] > 1)
    members = frame.iloc[rows][["image_id", "item", "width", "height"]].reset_index(drop=True)
    # Undamaged, then one that the others are tied to, then the preferred one.
    keys = preference[rows], centre[rows] != rows, is_damaged[rows]
    representatives = duplicate_groups.first_of_each(group[rows], *keys)
    names = members["image_id"].to_numpy(dtype=object)
    ids = {lead: content_id("dup", names[lead]) for lead in np.unique(representatives).tolist()}
    way, through = ties.strongest_tie_kinds(rows, rows[representatives])
    way = np.where(through & overridden.is_joined_by_person(rows, rows[representatives]), _TIE_BY_PERSON, way)
    bits = ties.view_distances(rows, rows[representatives])
    by_views = np.flatnonzero((way == _TIE_BY_VIEWS) & ~through)
    edits = pd.array([None] * len(rows), dtype="str")
    if ties.images is not None and by_views.size:
        edits[by_views] = ties.images.name_edits(rows[by_views], rows[representatives[by_views]])
    members = members.assign(duplicate_group=[ids[lead] for lead in representatives.tolist()], edit=edits)
    stays, named = np.ones(len(frame), dtype=bool), np.full(len(frame), None, dtype=object)
    stays[rows], named[rows] = way == 0, members["duplicate_group"]
    view_bits = np.where(way == _TIE_BY_VIEWS, bits, -1)
    return DuplicateGroups(
        stays,
        named,
        _table(members, way, view_bits),
        _rejections(members, representatives, way, ties.bytes[rows], view_bits),
        overridden.outcome,
    )


def _table(members: pd.DataFrame, way: RowIndices, bits: RowIndices) -> pd.DataFrame:
    """Return the table, group by group, the representative first. `distance` is that from the representative, which
    may be above the threshold where ties lead through others."""
    distance = pd.array(np.where(bits < 0, 0, bits), dtype="Int16")
    distance[bits < 0] = pd.NA
    matched_by = pd.array(_TIE_KINDS[way], dtype="str")
    table = members.assign(is_representative=way == 0, matched_by=matched_by, distance=distance)
    order = ["duplicate_group", "is_representative", "item"]
    table = table.sort_values(order, ascending=[True, False, True], ignore_index=True)
    return table[DUPLICATES_SCHEMA.names]


def _rejections(
    members: pd.DataFrame, leads: RowIndices, way: RowIndices, codes: RowIndices, bits: RowIndices
) -> pd.DataFrame:
    is_rejected = way > 0
    exact = (codes == codes[leads]) & (codes >= 0)
    has_distance = is_rejected & (bits >= 0)
    return ledger.rejection_rows(
        members["item"],
        "rejected",
        np.where(exact, "exact_duplicate", "near_duplicate"),
        item_id=members["image_id"],
        measure=pd.Series("hamming_distance", members.index).where(has_distance),
        value=pd.Series(bits, members.index).where(has_distance),
        detail=members["edit"],
        related_item=members["item"].iloc[leads].to_numpy(),
    )[is_rejected]


@dataclass(frozen=True, slots=True)
class _DuplicateTies:
    """Per row (n,) codes of its bytes and its pixels (-1 where unknown); the images that are compared, None where only
    those count; pairs of rows that are the same by their views (e, 2), and that a model found (p, 2)."""

    bytes: RowIndices
    pixels: RowIndices
    images: ComparableImages | None
    same_views: RowIndices
    pairs: RowIndices

    def groups(self) -> RowIndices:
        """Return per row the first row of its connected component."""
        return _join([self.bytes, self.pixels], [self.same_views, self.pairs])

    def same_pixels(self) -> RowIndices:
        """Return per row the first row of those with the same bytes or pixels."""
        return _join([self.bytes, self.pixels], [])

    def relate(self, same: RowIndices, ones: RowIndices, others: RowIndices) -> duplicate_groups.Relations:
        """Return per pair (n,) whether the rows are tied, or contradict each other although their views agree. A
        model's pair ties all images with the pixels of one to those of the other (`same`, from `same_pixels`), and so
        does a chain of such pairs: of equal vectors only neighbours are listed."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        edges = same[self.pairs[:, 0]], same[self.pairs[:, 1]]
        graph = coo_array((np.ones(len(self.pairs)), edges), shape=(len(same), len(same)))
        chain = connected_components(graph, directed=False)[1]
        near, tied = self._compare_views(ones, others)
        tied |= chain[same[ones]] == chain[same[others]]
        relations: duplicate_groups.Relations = np.where(
            tied, duplicate_groups.TIED, np.where(near, duplicate_groups.CONTRADICTING, duplicate_groups.UNRELATED)
        ).astype(np.int8)
        return relations

    def strongest_tie_kinds(self, rows: RowIndices, representatives: RowIndices) -> tuple[RowIndices, BoolArray]:
        """Return the strongest tie (an index of _TIE_KINDS) of each row to its representative, or to another row where
        these two have none; and whether they have none. `rows` are members of groups; a representative has 0."""
        direct = [_same(some, rows, representatives) for some in (self.bytes, self.pixels)]
        direct += [self._compare_views(rows, representatives)[1], self._is_paired(rows, representatives)]
        stand_in = rows != representatives
        through = stand_in & ~np.logical_or.reduce(direct)
        to_others = [*(_shared(some)[rows] for some in (self.bytes, self.pixels)), np.isin(rows, self.same_views)]
        way = np.where(through, _first_of(to_others), _first_of(direct))
        return np.where(stand_in, way, 0), through

    def view_distances(self, rows: RowIndices, others: RowIndices) -> RowIndices:
        """Return in how many bits the nearest views of each pair (n,) differ, -1 where a row has none."""
        if self.images is None:
            return np.full(len(rows), -1, dtype=np.int64)
        bits = self.images.view_distances(rows, others)
        return np.where(bits < NO_BITS, bits, -1)

    def tie_distances(self, rows: RowIndices, others: RowIndices) -> RowIndices:
        """Return the distance of each pair (n,): 0 for the same bytes, 1 for the same pixels, then by bits;
        UNTIED_DISTANCE or more without a tie."""
        bits = self.view_distances(rows, others)
        far = np.where(bits >= 0, bits, NO_BITS) + 2
        tied = self._compare_views(rows, others)[1] | self._is_paired(rows, others)
        far = np.where(tied, far, far + UNTIED_DISTANCE)
        same_pixels = _same(self.pixels, rows, others)
        return np.where(_same(self.bytes, rows, others) | (rows == others), 0, np.where(same_pixels, 1, far))

    def _compare_views(self, rows: RowIndices, others: RowIndices) -> tuple[BoolArray, BoolArray]:
        """Return per pair (n,) whether views are near, and whether the images are the same."""
        if self.images is None:
            return np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
        return self.images.relate(rows, others)

    def _is_paired(self, rows: RowIndices, others: RowIndices) -> BoolArray:
        return np.isin(self._keys(rows, others), self._keys(self.pairs[:, 0], self.pairs[:, 1]))

    def _keys(self, ones: RowIndices, others: RowIndices) -> RowIndices:
        return np.minimum(ones, others) * len(self.bytes) + np.maximum(ones, others)


def _join(codes: Sequence[RowIndices], pairs: Sequence[RowIndices]) -> RowIndices:
    sets = Components(len(codes[0]))
    for some in codes:
        sets.join(*equal_code_pairs(some))
    for some in pairs:
        sets.join(some[:, 0], some[:, 1])
    return sets.names()


def _first_of(ways: list[BoolArray]) -> RowIndices:
    """Return per row the index in _TIE_KINDS of the first tie that holds, embedding where none does."""
    return np.select(ways, range(1, len(ways) + 1), default=_TIE_BY_EMBEDDING)


def _same(codes: RowIndices, ones: RowIndices, others: RowIndices) -> BoolArray:
    same: BoolArray = (codes[ones] == codes[others]) & (codes[ones] >= 0)
    return same


def _shared(codes: RowIndices) -> BoolArray:
    """Return per row whether another row has its code."""
    return (np.bincount(codes + 1)[codes + 1] > 1) & (codes >= 0)


def _read_ties(
    frame: pd.DataFrame, distance: int | None, flips: bool, rotations: bool, pairs: RowIndices | None
) -> _DuplicateTies:
    codes, none = [pd.factorize(frame[name])[0] for name in ("sha256", "pixels")], np.zeros((0, 2), dtype=np.int64)
    images, same_views = None, none
    if distance is not None:
        turns = ALL_TURNS if flips and rotations else FLIPS if flips else ROTATIONS if rotations else AS_IT_IS
        images = ComparableImages(frame, distance, turns)
        same_views = images.find_same_pairs(_join(codes, []))
    return _DuplicateTies(codes[0], codes[1], images, same_views, none if pairs is None else pairs)
