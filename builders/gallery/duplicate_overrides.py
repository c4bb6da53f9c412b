"""Duplicate groups after people's decisions: images decided different are never in one group, images decided the same
always are.

Ties form groups of connected images. Decisions on two images override them:

- images that are the same are merged, and so are their groups;
- a group with different images is split between these: each other image joins the nearest of them. Images that differ
  from others, but not from each other, stay together if a tie connects them.

If decisions contradict each other (a is b, b is c, but a is not c), `different` counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from querytruth.array_types import BoolArray, RowIndices
from querytruth.backends.images.hash_neighbours import Components
from querytruth.sets.decision_outcomes import DecisionOutcome
from querytruth.sets.decision_records import ImagePairDecision

PairDistances = Callable[[RowIndices, RowIndices], RowIndices]
UNTIED_DISTANCE = 1000  # at and above this distance two images have no tie


@dataclass(frozen=True, slots=True)
class OverriddenGroups:
    """Per row (n,) the first row of its group. `tie_group`: the groups by ties alone; `same_block`: per row the first
    row of the images that people decided are the same as its image."""

    group: RowIndices
    tie_group: RowIndices
    same_block: RowIndices
    outcome: DecisionOutcome

    def is_joined_by_person(self, rows: RowIndices, others: RowIndices) -> BoolArray:
        """Return per pair whether a decision, not a tie, puts the rows into one group."""
        is_untied = self.tie_group[rows] != self.tie_group[others]
        is_joined: BoolArray = is_untied | (self.same_block[rows] == self.same_block[others])
        return is_joined


def apply_duplicate_overrides(
    tie_groups: RowIndices, ids: pd.Series, decisions: Sequence[ImagePairDecision], pair_distances: PairDistances
) -> OverriddenGroups:
    """Return the groups of `tie_groups` (per row the name of its group) after people's last decisions on pairs of
    images. Rows with one id are one image. `pair_distances(ones, others)`: the distance of each pair of rows,
    UNTIED_DISTANCE or more where they have no tie."""
    alone = np.arange(len(tie_groups), dtype=np.int64)
    if not decisions:
        return OverriddenGroups(tie_groups, tie_groups, alone, DecisionOutcome())
    rows_of = _rows_of(ids, decisions)
    applicable = [decision for decision in decisions if all(one in rows_of for one in decision.images)]
    blocks, contradicted = _blocks(len(tie_groups), rows_of, applicable)
    regions = Components(len(tie_groups))
    regions.join(alone, tie_groups)
    regions.join(alone, blocks)
    group = regions.names().copy()
    different = [decision for decision in applicable if decision.decision == "different"]
    inside: dict[int, set[tuple[int, int]]] = {}
    for one, other in (_firsts(rows_of, decision, blocks) for decision in different):
        if group[one] == group[other]:
            inside.setdefault(int(group[one]), set()).add((one, other))
    order = _order(ids, rows_of, blocks)
    for members in _members(group, list(inside)):
        group[members] = _split(members, blocks[members], inside[int(group[members[0]])], order, pair_distances)
    contradicted_ids = {id(decision) for decision, _ in contradicted}
    stale = [(decision, _IMAGE_MISSING) for decision in decisions if not all(one in rows_of for one in decision.images)]
    followed = [decision for decision in applicable if id(decision) not in contradicted_ids]
    return OverriddenGroups(group, tie_groups, blocks, DecisionOutcome(followed, stale + contradicted))


_IMAGE_MISSING = "an image is missing, or was rejected before images were compared"
_CONTRADICTED = "it would merge images that were decided to be different"


def _members(group: RowIndices, regions: list[int]) -> list[RowIndices]:
    """Return the rows of each of these groups."""
    rows = np.flatnonzero(np.isin(group, regions))
    rows = rows[np.argsort(group[rows], kind="stable")]
    return [part for part in np.split(rows, np.flatnonzero(np.diff(group[rows])) + 1) if part.size]


def _rows_of(ids: pd.Series, decisions: Sequence[ImagePairDecision]) -> dict[str, RowIndices]:
    """Return the rows of each image that has a decision, sorted by image."""
    rows = np.flatnonzero(ids.isin(sorted({one for decision in decisions for one in decision.images})).to_numpy())
    rows_by_id: dict[str, list[int]] = {}
    for row, name in zip(rows.tolist(), ids.iloc[rows].astype("str").tolist(), strict=True):
        rows_by_id.setdefault(name, []).append(row)
    return {name: np.array(rows_by_id[name], dtype=np.int64) for name in sorted(rows_by_id)}


def _blocks(
    count: int, rows_of: dict[str, RowIndices], decisions: Sequence[ImagePairDecision]
) -> tuple[RowIndices, list[tuple[ImagePairDecision, str]]]:
    """Return per row a row of its block, and the decisions that contradict `different` ones, with the reason."""
    block = {name: name for name in rows_of}
    inside = {name: [name] for name in rows_of}
    different_from: dict[str, set[str]] = {name: set() for name in rows_of}
    for one, other in (one.images for one in decisions if one.decision == "different"):
        different_from[one].add(other)
        different_from[other].add(one)
    contradicted = []
    for decision in sorted((one for one in decisions if one.decision == "same"), key=lambda decision: decision.images):
        one, other = sorted((block[name] for name in decision.images), key=lambda name: (-len(inside[name]), name))
        if other in different_from[one]:
            contradicted.append((decision, _CONTRADICTED))
        elif one != other:
            _merge(one, other, block, inside, different_from)
    blocks = np.arange(count, dtype=np.int64)
    for name, rows in rows_of.items():
        blocks[rows] = rows_of[block[name]][0]
    return blocks, contradicted


def _merge(
    one: str, other: str, block: dict[str, str], inside: dict[str, list[str]], different_from: dict[str, set[str]]
) -> None:
    """Merge the block `other`, which is not larger, into `one`, with the blocks that differ from it."""
    for name in inside.pop(other):
        block[name] = one
        inside[one].append(name)
    for neighbour in different_from.pop(other):
        different_from[neighbour].discard(other)
        different_from[neighbour].add(one)
        different_from[one].add(neighbour)


def _firsts(rows_of: dict[str, RowIndices], decision: ImagePairDecision, blocks: RowIndices) -> tuple[int, int]:
    one, other = (int(blocks[rows_of[name][0]]) for name in decision.images)
    return min(one, other), max(one, other)


def _order(ids: pd.Series, rows_of: dict[str, RowIndices], blocks: RowIndices) -> Callable[[int], str]:
    """Return a key that orders blocks by their smallest id."""
    smallest: dict[int, str] = {}
    for name, rows in rows_of.items():  # sorted by name
        smallest.setdefault(int(blocks[rows[0]]), name)
    return lambda block: smallest.get(block) or str(ids.iloc[block])


def _split(
    members: RowIndices,
    blocks: RowIndices,
    different_pairs: set[tuple[int, int]],
    order: Callable[[int], str],
    pair_distances: PairDistances,
) -> RowIndices:
    """Return per member the first row of its new group."""
    ends = sorted({end for pair in different_pairs for end in pair}, key=order)
    rows = [members[blocks == end] for end in ends]
    # The distance of each member from each of the different images, which is that of their nearest rows.
    distances = ([pair_distances(members, np.full_like(members, row)) for row in some] for some in rows)
    far = np.stack([np.min(of_image, axis=0) for of_image in distances], axis=1)
    side = _sides(ends, blocks, far, different_pairs)
    names, place = np.unique(blocks, return_inverse=True)
    least = np.full((len(names), len(ends)), np.iinfo(np.int64).max)
    np.minimum.at(least, place, far)
    nearest = least.argmin(axis=1)  # of several the one with the smallest id
    for number, end in enumerate(ends):
        nearest[names == end] = number
    sides = side[nearest[place]]
    firsts = {number: members[sides == number].min() for number in np.unique(sides).tolist()}
    return np.array([firsts[number] for number in sides.tolist()], dtype=np.int64)


def _sides(ends: list[int], blocks: RowIndices, far: RowIndices, different_pairs: set[tuple[int, int]]) -> RowIndices:
    """Return the side of each image that differs from another: images with a tie share one, the nearest first, unless
    that would join different images."""
    pairs = combinations(range(len(ends)), 2)
    near = sorted((int(far[blocks == ends[one], other].min()), one, other) for one, other in pairs)
    sides = np.arange(len(ends), dtype=np.int64)
    different_places = [(ends.index(one), ends.index(other)) for one, other in different_pairs]
    for distance, one, other in near:
        a, b = sides[one], sides[other]
        is_different = any({sides[x], sides[y]} == {a, b} for x, y in different_places)
        if distance < UNTIED_DISTANCE and a != b and not is_different:
            sides[sides == b] = a
    return sides
