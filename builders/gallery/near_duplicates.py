"""Duplicate groups: their images, their representatives, and the rejections of the others.

A group is a connected component of ties (`duplicate_ties`). A chain of ties may connect images that differ: `chains`
lists the groups with members that are tied to the representative through others alone, for people to check.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from builders.array_types import BoolArray, RowIndices
from builders.decisions.outcome import DecisionOutcome
from builders.decisions.records import ImagePairDecision
from builders.gallery.duplicate_overrides import apply_duplicate_overrides
from builders.gallery.duplicate_ties import TIE_BY_HASH, TIE_BY_PERSON, TIE_KINDS, read_ties
from builders.ledger import rejection_rows
from builders.records import DUPLICATES_SCHEMA, content_id


@dataclass(frozen=True, slots=True)
class DuplicateGroups:
    """Per row (n,) whether it is accepted (`is_kept`) and its group (None without one); the table of DUPLICATES_SCHEMA;
    the ledger's rows of the others; and `chains`, the largest first, with columns duplicate_group, item (the
    representative's), members, farthest (the largest distance from the representative in bits; -1 without hashes).
    `decision_outcome`: the outcome of people's decisions on images."""

    is_kept: BoolArray
    group: np.ndarray[Any, np.dtype[np.object_]]
    table: pd.DataFrame
    rejections: pd.DataFrame
    chains: pd.DataFrame
    decision_outcome: DecisionOutcome = field(default_factory=DecisionOutcome)


def find_duplicates(
    frame: pd.DataFrame,
    *,
    distance: int | None,
    flips: bool = False,
    rotations: bool = False,
    pairs: RowIndices | None = None,
    decisions: Sequence[ImagePairDecision] = (),
) -> DuplicateGroups:
    """Returns the groups among the frame's images. Columns: image_id, item, sha256, pixels, width, height; with a
    `distance` (bits; None: the same bytes or pixels only) phash and outline, null where an image has none; with flips
    or rotations turned.

    `flips` finds images mirrored left-right, upside down, or both, `rotations` those rotated by quarter turns. `pairs`
    (n, 2) are rows that are the same by another measure. `decisions`: people's last ones on pairs of images, which
    override ties (`apply_duplicate_overrides`).
    """
    ties = read_ties(frame, distance, flips, rotations, pairs)
    overridden = apply_duplicate_overrides(ties.groups(), frame["image_id"], decisions, ties.tie_distances)
    group = overridden.group
    rows = np.flatnonzero(np.bincount(group, minlength=len(frame))[group] > 1)
    members = frame.iloc[rows][["image_id", "item", "width", "height"]].reset_index(drop=True)
    representatives = _representatives(members, group[rows])
    names = members["image_id"].to_numpy(dtype=object)
    ids = {lead: content_id("dup", names[lead]) for lead in np.unique(representatives).tolist()}
    members = members.assign(duplicate_group=[ids[lead] for lead in representatives.tolist()])
    way, through = ties.strongest_tie_kinds(rows, rows[representatives])
    way = np.where(through & overridden.is_joined_by_person(rows, rows[representatives]), TIE_BY_PERSON, way)
    bits = ties.hamming_distances(rows, rows[representatives])
    hash_bits = np.where(way == TIE_BY_HASH, bits, -1)
    stays, named = np.ones(len(frame), dtype=bool), np.full(len(frame), None, dtype=object)
    stays[rows], named[rows] = way == 0, members["duplicate_group"]
    return DuplicateGroups(
        stays,
        named,
        _table(members, way, hash_bits),
        _rejections(members, representatives, way, ties.bytes[rows], hash_bits),
        _chains(members, representatives, through, bits),
        overridden.outcome,
    )


def _representatives(members: pd.DataFrame, group: RowIndices) -> RowIndices:
    """Returns per member the position of its representative: most pixels, then smallest image_id, then item."""
    pixels = members["width"].to_numpy(dtype=np.int64) * members["height"].to_numpy(dtype=np.int64)
    ids, items = (pd.factorize(members[name], sort=True)[0] for name in ("image_id", "item"))
    order = np.lexsort((items, ids, -pixels, group))
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    leads = np.empty(len(order), dtype=np.int64)
    leads[order] = np.repeat(order[first], np.diff(first, append=len(order)))
    return leads


def _table(members: pd.DataFrame, way: RowIndices, bits: RowIndices) -> pd.DataFrame:
    """Returns the table, group by group, the representative first. `distance` is that from the representative, which
    may be above the threshold where ties lead through others."""
    distance = pd.array(np.where(bits < 0, 0, bits), dtype="Int16")
    distance[bits < 0] = pd.NA
    matched_by = pd.array(TIE_KINDS[way], dtype="str")
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
    return rejection_rows(
        members["item"],
        "rejected",
        np.where(exact, "exact_duplicate", "near_duplicate"),
        item_id=members["image_id"],
        measure=pd.Series("hamming_distance", members.index).where(has_distance),
        value=pd.Series(bits, members.index).where(has_distance),
        related_item=members["item"].iloc[leads].to_numpy(),
    )[is_rejected]


def _chains(members: pd.DataFrame, leads: RowIndices, through: BoolArray, bits: RowIndices) -> pd.DataFrame:
    counts = np.bincount(leads)
    farthest = np.full(len(counts), -1, dtype=np.int64)
    np.maximum.at(farthest, leads, bits)
    chained = np.unique(leads[through])
    chains = members.iloc[chained][["duplicate_group", "item"]]
    chains = chains.assign(members=counts[chained], farthest=farthest[chained])
    return chains.sort_values(["members", "duplicate_group"], ascending=[False, True], ignore_index=True)
