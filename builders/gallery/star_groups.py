"""Groups of duplicates in which a direct comparison with the representative supports every image.

Ties connect images that may differ at the two ends of a chain, and a grey copy is tied to the red shirt and to the blue
one. A connected component is therefore divided into stars: the image that is tied to most of the others is the
representative (of several the one that comes first in an order of preference), with those that are tied to it; then the
same for what is left. Around one without colours, which may be tied to images of different colours, no two contradict
each other. It is the greedy cover of a graph by dominating vertices
(Chvátal, "A greedy heuristic for the set-covering problem", 1979). Images of the same bytes or pixels are one vertex.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from builders.array_types import BoolArray, RowIndices

TIED, UNRELATED, CONTRADICTING = 1, 0, -1
Relations = NDArray[np.int8]
RelationFinder = Callable[[RowIndices, RowIndices], Relations]
_ALL_PAIRS = 64  # images up to which all pairs of a component are compared, above only those with representatives


@dataclass(frozen=True, slots=True)
class StarGroups:
    """Per row (n,) the first row of its group, and the representative of that group."""

    group: RowIndices
    representative: RowIndices


def divide_into_stars(
    components: RowIndices,
    same: RowIndices,
    preference: RowIndices,
    is_damaged: BoolArray,
    is_mute: BoolArray,
    relate: RelationFinder,
) -> StarGroups:
    """Divides components (per row its name). `same`: per row the name of those with the same bytes or pixels;
    `preference`: per row its place in the order of preference (0 the first); a damaged row represents only damaged
    ones, and a mute row has no colours. `relate` returns TIED, UNRELATED or CONTRADICTING per pair of rows."""
    leaders = _best_of_each(same, preference)
    units = np.unique(leaders)
    star = np.arange(len(components), dtype=np.int64)
    order = units[np.lexsort((preference[units], components[units]))]
    starts = np.flatnonzero(np.diff(components[order], prepend=-1))
    lengths = np.diff(starts, append=len(order))
    small = np.flatnonzero((lengths > 1) & (lengths <= _ALL_PAIRS))
    for members, relations in _relate_all([order[starts[n] : starts[n] + lengths[n]] for n in small.tolist()], relate):
        star[members] = members[_stars_of(relations, is_damaged[members], is_mute[members])]
    for place in np.flatnonzero(lengths > _ALL_PAIRS).tolist():
        members = order[starts[place] : starts[place] + lengths[place]]
        star[members] = _large_stars(members, is_damaged, relate)
    representative = star[leaders]
    firsts = np.full(len(components), len(components), dtype=np.int64)
    np.minimum.at(firsts, representative, np.arange(len(components)))
    return StarGroups(firsts[representative], representative)


def _best_of_each(names: RowIndices, preference: RowIndices) -> RowIndices:
    """Returns per row the preferred row among those of the same name."""
    order = np.lexsort((preference, names))
    is_first = np.diff(names[order], prepend=-1) != 0
    best = np.empty(len(names), dtype=np.int64)
    best[order] = order[np.flatnonzero(is_first)[np.cumsum(is_first) - 1]]
    return best


def _relate_all(components: list[RowIndices], relate: RelationFinder) -> list[tuple[RowIndices, Relations]]:
    """Returns each component with the relations (m, m) of its rows: all pairs of all of them are compared at once."""
    pairs = [np.triu_indices(len(members), 1) for members in components]
    ones = [members[one] for members, (one, _) in zip(components, pairs, strict=True)]
    others = [members[other] for members, (_, other) in zip(components, pairs, strict=True)]
    if not components:
        return []
    found = relate(np.concatenate(ones), np.concatenate(others))
    ends = np.cumsum([0, *map(len, ones)]).tolist()
    related = []
    for members, (one, other), (start, end) in zip(components, pairs, pairwise(ends), strict=True):
        relations = np.zeros((len(members), len(members)), dtype=np.int8)
        relations[one, other] = relations[other, one] = found[start:end]
        related.append((members, relations))
    return related


def _stars_of(relations: Relations, is_damaged: BoolArray, is_mute: BoolArray) -> RowIndices:
    """Returns per row of a component, which come in the order of preference, the place of its representative."""
    count = len(relations)
    centre = np.full(count, -1, dtype=np.int64)
    while (left := np.flatnonzero(centre < 0)).size:
        sound = left[~is_damaged[left]]
        stars = [
            _star_around(place, left, relations, is_mute[place]) for place in (sound if sound.size else left).tolist()
        ]
        largest = max(stars, key=len)  # the first of several
        centre[largest] = largest[0]
    return centre


def _star_around(place: int, left: RowIndices, relations: Relations, is_mute: bool) -> list[int]:
    """Returns the place, and those left that are tied to it, in order; around a mute one without such as contradict an
    earlier one."""
    star = [place]
    for other in left[relations[place, left] == TIED].tolist():
        if not (is_mute and (relations[other, star] == CONTRADICTING).any()):
            star.append(other)
    return star


def _large_stars(members: RowIndices, is_damaged: BoolArray, relate: RelationFinder) -> RowIndices:
    """Returns the representatives of the rows of a large component, in the order of preference: each row that is left
    takes all that are tied to it."""
    centre = np.full(len(members), -1, dtype=np.int64)
    left = np.arange(len(members))
    while left.size:
        sound = left[~is_damaged[members[left]]]
        first = int(sound[0]) if sound.size else int(left[0])
        relations = relate(np.full(len(left), members[first]), members[left])
        taken = left[(relations == TIED) | (left == first)]
        centre[taken] = members[first]
        left = left[centre[left] < 0]
    return centre
