"""Duplicate groups: their images, their representatives, and the rejections of the others.

Ties connect images: bytes, upright pixels, similarity, edits, or a pair that a model found. In a group each image is
tied to the representative itself (`star_groups`), except those that people put there. `chains` lists the groups with
members that are tied to the representative through others alone, for people to check.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from builders.gallery import duplicate_groups
from builders.gallery.duplicate_overrides import UNTIED_DISTANCE, apply_duplicate_overrides
from builders.gallery.edited_copies import EditableImages
from builders.gallery.hash_checks import HashChecks
from querytruth.array_types import BoolArray, FloatArray, Hashes, RowIndices
from querytruth.backends.images import hash_similarity
from querytruth.backends.images.hash_neighbours import Components, equal_code_pairs
from querytruth.records import DUPLICATES_SCHEMA, content_id
from querytruth.sets import decision_outcomes, decision_records, ledger

# The strongest first; None: the image is a representative.
_TIE_KINDS = np.array([None, "bytes", "pixels", "hash", "patches", "embedding", "person"], dtype=object)
_TIE_BY_HASH, _TIE_BY_PATCHES, _TIE_BY_EMBEDDING, _TIE_BY_PERSON = 3, 4, 5, 6
_BITS = 64  # of a hash: the largest distance
_MANY_PAIRS = 1 << 17


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
    decision_outcome: decision_outcomes.DecisionOutcome = field(default_factory=decision_outcomes.DecisionOutcome)


def find_duplicates(
    frame: pd.DataFrame,
    *,
    distance: int | None,
    flips: bool = False,
    rotations: bool = False,
    edits: bool = False,
    pairs: RowIndices | None = None,
    decisions: Sequence[decision_records.ImagePairDecision] = (),
) -> DuplicateGroups:
    """Returns the groups among the frame's images. Columns: image_id, item, sha256, pixels, width, height; with a
    `distance` (bits; None: the same bytes or pixels only) phash and outline, null where an image has none; with flips
    or rotations turned; optional colours and details, which images of similar hashes must not contradict each other in;
    optional taken_at and latitude, which make an image preferred; optional is_damaged: such an image represents only
    damaged ones.

    `flips` finds images mirrored left-right, upside down, or both, `rotations` those rotated by quarter turns, `edits`
    those cropped, framed or written on, by the columns patches and thumbnail, where the frame has them. `pairs` (n, 2)
    are rows that are the same by another measure. `decisions`: people's last ones on pairs of images, which override
    ties (`apply_duplicate_overrides`).
    """
    ties = _read_ties(frame, distance, flips, rotations, pairs)
    if edits and distance is not None and "patches" in frame:
        ties = ties.with_edited_copies(EditableImages(frame["patches"], frame["thumbnail"], ties.checks))
    components = ties.groups()
    is_damaged = frame["is_damaged"].to_numpy(dtype=bool) if "is_damaged" in frame else np.zeros(len(frame), bool)
    muteness, grouped = np.zeros(len(frame), np.int64), _shared(components)
    muteness[grouped] = ties.checks.muteness(np.flatnonzero(grouped))
    preference = duplicate_groups.rank_by_preference(frame, components, muteness)
    same = ties.same_pixels()
    relate = partial(ties.relate, same)
    star, centre = duplicate_groups.divide_into_stars(components, same, preference, is_damaged, muteness > 0, relate)
    overridden = apply_duplicate_overrides(star, frame["image_id"], decisions, ties.tie_distances)
    group = overridden.group
    rows = np.flatnonzero(np.bincount(group, minlength=len(frame))[group] > 1)
    members = frame.iloc[rows][["image_id", "item", "width", "height"]].reset_index(drop=True)
    representatives = _representatives(group[rows], is_damaged[rows], centre[rows] == rows, preference[rows])
    names = members["image_id"].to_numpy(dtype=object)
    ids = {lead: content_id("dup", names[lead]) for lead in np.unique(representatives).tolist()}
    way, through = ties.strongest_tie_kinds(rows, rows[representatives])
    way = np.where(through & overridden.is_joined_by_person(rows, rows[representatives]), _TIE_BY_PERSON, way)
    bits = ties.hamming_distances(rows, rows[representatives])
    hash_bits = np.where(way == _TIE_BY_HASH, bits, -1)
    share, edited = ties.compare_edits(rows, rows[representatives], way == _TIE_BY_PATCHES)
    group_ids = [ids[lead] for lead in representatives.tolist()]
    members = members.assign(duplicate_group=group_ids, share=share, edit=pd.array(edited, dtype="str"))
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


def _representatives(
    group: RowIndices, is_damaged: BoolArray, is_centre: BoolArray, preference: RowIndices
) -> RowIndices:
    """Returns per member the position of its representative: undamaged, then one that the others are tied to, then the
    preferred one."""
    order = np.lexsort((preference, ~is_centre, is_damaged, group))
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    leads = np.empty(len(order), dtype=np.int64)
    leads[order] = np.repeat(order[first], np.diff(first, append=len(order)))
    return leads


def _table(members: pd.DataFrame, way: RowIndices, bits: RowIndices) -> pd.DataFrame:
    """Returns the table, group by group, the representative first. `distance` is that from the representative, which
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
    is_rejected, share = way > 0, members["share"]
    exact = (codes == codes[leads]) & (codes >= 0)
    has_distance = is_rejected & (bits >= 0)
    return ledger.rejection_rows(
        members["item"],
        "rejected",
        np.where(exact, "exact_duplicate", "near_duplicate"),
        item_id=members["image_id"],
        measure=pd.Series("hamming_distance", members.index).where(has_distance).mask(share.notna(), "matching_share"),
        value=pd.Series(bits, members.index).where(has_distance, share),
        detail=members["edit"],
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


@dataclass(frozen=True, slots=True)
class _DuplicateTies:
    """Per row (n,) codes of its bytes, its pixels and its component of similar images (-1 where unknown); the hashed
    images, and each row's position among them (-1 for none); pairs of rows (p, 2) that a model found; what images of
    similar hashes are compared by; the images whose edited copies are found, and pairs of rows (e, 2) that are edited
    copies."""

    bytes: RowIndices
    pixels: RowIndices
    similar: RowIndices
    hashed: hash_similarity.HashedImages
    hash_row: RowIndices
    pairs: RowIndices
    checks: HashChecks
    editable: EditableImages | None = None
    edited_pairs: RowIndices = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))

    def with_edited_copies(self, images: EditableImages) -> "_DuplicateTies":
        """Returns these ties with those of edited copies, which are looked for among the groups."""
        return replace(self, editable=images, edited_pairs=images.find_pairs(self.groups()))

    def groups(self) -> RowIndices:
        """Returns per row the first row of its connected component."""
        sets = Components(len(self.bytes))
        for codes in (self.bytes, self.pixels, self.similar):
            sets.join(*equal_code_pairs(codes))
        for pairs in (self.pairs, self.edited_pairs):
            sets.join(pairs[:, 0], pairs[:, 1])
        return sets.names()

    def same_pixels(self) -> RowIndices:
        """Returns per row the first row of those with the same bytes or pixels."""
        sets = Components(len(self.bytes))
        for codes in (self.bytes, self.pixels):
            sets.join(*equal_code_pairs(codes))
        return sets.names()

    def relate(self, same: RowIndices, ones: RowIndices, others: RowIndices) -> duplicate_groups.Relations:
        """Returns per pair (n,) whether the rows are tied, or contradict each other although their hashes agree. A
        model's pair ties all images with the pixels of one to those of the other (`same`, from `same_pixels`), and so
        does a chain of such pairs: of equal vectors only neighbours are listed."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        similar, agreeing = self._compare_hashes(ones, others)
        edges = same[self.pairs[:, 0]], same[self.pairs[:, 1]]
        graph = coo_array((np.ones(len(self.pairs)), edges), shape=(len(same), len(same)))
        chain = connected_components(graph, directed=False)[1]
        tied = agreeing | (chain[same[ones]] == chain[same[others]])
        # Of many pairs only those of images that have edited copies are compared: a comparison takes a third of a
        # millisecond.
        may_be_edited = ~tied & (ones != others)
        if len(ones) > _MANY_PAIRS:
            may_be_edited &= np.isin(ones, self.edited_pairs) & np.isin(others, self.edited_pairs)
        tied |= ~np.isnan(self.compare_edits(ones, others, may_be_edited)[0])
        relations: duplicate_groups.Relations = np.where(
            tied, duplicate_groups.TIED, np.where(similar, duplicate_groups.CONTRADICTING, duplicate_groups.UNRELATED)
        ).astype(np.int8)
        return relations

    def strongest_tie_kinds(self, rows: RowIndices, representatives: RowIndices) -> tuple[RowIndices, BoolArray]:
        """Returns the strongest tie (an index of _TIE_KINDS) of each row to its representative, or to another row where
        these two have none; and whether they have none. `rows` are members of groups; a representative has 0."""
        paired = np.isin(self._keys(rows, representatives), self._keys(self.pairs[:, 0], self.pairs[:, 1]))
        codes = (self.bytes, self.pixels, self.similar)
        same = [_same(some, rows, representatives) for some in (self.bytes, self.pixels)]
        direct = [*same, self._is_similar(rows, representatives)]
        stand_in = rows != representatives
        unknown = stand_in & ~np.logical_or.reduce([*direct, paired])
        direct.append(~np.isnan(self.compare_edits(rows, representatives, unknown)[0]))
        through = unknown & ~direct[-1]
        to_others = [*(_shared(some)[rows] for some in codes), np.isin(rows, self.edited_pairs)]
        way = np.where(through, _first_of(to_others), _first_of([*direct, paired]))
        return np.where(stand_in, way, 0), through

    def compare_edits(
        self, rows: RowIndices, others: RowIndices, wanted: BoolArray
    ) -> tuple[FloatArray, list[str | None]]:
        """Returns per wanted pair (n,) of edited copies the share of matching blocks and what was edited; NaN and None
        for the other pairs."""
        shares: FloatArray = np.full(len(rows), np.nan)
        edits: list[str | None] = [None] * len(rows)
        for place in np.flatnonzero(wanted).tolist():
            if self.editable and (found := self.editable.compare(int(rows[place]), int(others[place]))):
                shares[place], edits[place] = round(found[0], 3), found[1]
        return shares, edits

    def hamming_distances(self, rows: RowIndices, others: RowIndices) -> RowIndices:
        """Returns the Hamming distance of each pair (n,) in bits, -1 where a row has no hash."""
        ones, others = self.hash_row[rows], self.hash_row[others]
        known = (ones >= 0) & (others >= 0)
        bits = np.full(len(rows), -1, dtype=np.int64)
        bits[known] = self.hashed.hamming_distances(ones[known], others[known])
        return bits

    def tie_distances(self, rows: RowIndices, others: RowIndices) -> RowIndices:
        """Returns the distance of each pair (n,): 0 for the same bytes, 1 for the same pixels, then by bits;
        UNTIED_DISTANCE or more without a tie."""
        bits = self.hamming_distances(rows, others)
        far = np.where(bits >= 0, bits, _BITS) + 2
        paired = np.isin(self._keys(rows, others), self._keys(self.pairs[:, 0], self.pairs[:, 1]))
        tied = self._is_similar(rows, others) | paired
        tied |= ~np.isnan(self.compare_edits(rows, others, ~tied)[0])
        far = np.where(tied, far, far + UNTIED_DISTANCE)
        same_pixels = _same(self.pixels, rows, others)
        return np.where(_same(self.bytes, rows, others) | (rows == others), 0, np.where(same_pixels, 1, far))

    def _is_similar(self, rows: RowIndices, others: RowIndices) -> BoolArray:
        return self._compare_hashes(rows, others)[1]

    def _compare_hashes(self, rows: RowIndices, others: RowIndices) -> tuple[BoolArray, BoolArray]:
        """Returns per pair (n,) whether hashes and outlines agree, and whether nothing else contradicts them."""
        bits = self.hamming_distances(rows, others)
        similar = (bits >= 0) & (bits <= self.hashed.distance)
        similar[similar] = self.hashed.has_matching_outlines(
            self.hash_row[rows[similar]], self.hash_row[others[similar]]
        )
        agreeing = np.zeros(len(rows), dtype=bool)
        for turn, transform in enumerate(self.hashed.transforms):
            left = np.flatnonzero(similar & ~agreeing)
            close = self.hashed.turned_distances(self.hash_row[rows[left]], self.hash_row[others[left]], turn)
            left = left[close <= self.hashed.distance]
            agreeing[left] = self.checks.agree(rows[left], others[left], transform)
        return similar, agreeing

    def _keys(self, ones: RowIndices, others: RowIndices) -> RowIndices:
        return np.minimum(ones, others) * len(self.bytes) + np.maximum(ones, others)


def _first_of(ways: list[BoolArray]) -> RowIndices:
    """Returns per row the index in _TIE_KINDS of the first tie that holds, embedding where none does."""
    return np.select(ways, range(1, len(ways) + 1), default=_TIE_BY_EMBEDDING)


def _same(codes: RowIndices, ones: RowIndices, others: RowIndices) -> BoolArray:
    same: BoolArray = (codes[ones] == codes[others]) & (codes[ones] >= 0)
    return same


def _shared(codes: RowIndices) -> BoolArray:
    """Returns per row whether another row has its code."""
    return (np.bincount(codes + 1)[codes + 1] > 1) & (codes >= 0)


def _read_ties(
    frame: pd.DataFrame, distance: int | None, flips: bool, rotations: bool, pairs: RowIndices | None
) -> _DuplicateTies:
    """Returns the ties of the frame's rows. Raises ValueError where hashes were read as floats."""
    known = frame["phash"].notna().to_numpy() if distance is not None else np.zeros(len(frame), dtype=bool)
    turns = {
        (False, False): (0,),
        (True, False): hash_similarity.FLIP_TRANSFORMS,
        (False, True): hash_similarity.ROTATION_TRANSFORMS,
        (True, True): hash_similarity.ALL_TRANSFORMS,
    }[flips, rotations]
    hashes, outlines = np.zeros((0, len(turns)), dtype=np.uint64), np.zeros((0, 64), dtype=np.int8)
    if known.any():
        hashes = _hashes(frame["phash"])[known][:, None]
        if len(turns) > 1:
            turned = np.array(frame["turned"][known].tolist(), dtype=np.uint64)
            hashes = np.concatenate([hashes, turned], axis=1)[:, turns]
        outlines = hash_similarity.read_outlines(frame["outline"])
        outlines = outlines if known.all() else outlines[known]
    hashed = hash_similarity.HashedImages(hashes, outlines, turns, distance or 0)
    similar = np.full(len(frame), -1, dtype=np.int64)
    similar[known] = hash_similarity.similar_image_components(hashed)
    return _DuplicateTies(
        pd.factorize(frame["sha256"])[0],
        pd.factorize(frame["pixels"])[0],
        similar,
        hashed,
        np.where(known, np.cumsum(known) - 1, -1),
        np.zeros((0, 2), dtype=np.int64) if pairs is None else pairs,
        HashChecks.of_frame(frame),
    )


def _hashes(column: pd.Series) -> Hashes:
    """Returns the hashes. A column with nulls becomes floats by default, which lose the lowest bits."""
    if column.dtype.kind == "f":
        raise ValueError("phash came as floats, which hold 53 of its 64 bits: read it as UInt64")
    hashes: Hashes = column.to_numpy(dtype=np.uint64, na_value=0)
    return hashes
