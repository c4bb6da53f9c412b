"""Groups of duplicates, each supported by direct comparisons with its representative, and the choice of that image.

Ties connect images that may differ at the two ends of a chain; for example, a grey copy is tied to a red and to a blue
shirt. A connected component is therefore divided into stars: the image with the most ties represents the images tied to
it, then the same is repeated for the rest. Images tied to a representative without colours may have different colours,
but no two of them contradict each other. It is the greedy cover of a graph by dominating vertices (Chvátal, "A greedy
heuristic for the set-covering problem", 1979). Images of the same bytes are one vertex.

The representative is the image that lost nothing: colours, pixels, the camera's metadata. If several lost nothing, the
location decides: a folder whose images nearly all exist elsewhere too is a copy, and so is the longer name. File dates
do not count: they change whenever files are copied.
"""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.backends.images.image_views import measure_content

TIED, UNRELATED, CONTRADICTING = 1, 0, -1
Relations = NDArray[np.int8]
RelationFinder = Callable[[RowIndices, RowIndices], Relations]
_ALL_PAIRS = 64  # images up to which all pairs of a component are compared, above only those with representatives


def divide_into_stars(
    components: RowIndices,
    same: RowIndices,
    preference: RowIndices,
    is_damaged: BoolArray,
    is_mute: BoolArray,
    relate: RelationFinder,
) -> tuple[RowIndices, RowIndices]:
    """Divide components (per row its name); return per row (n,) the first row of its group, and the representative of
    that group. `same`: per row the name of those with the same bytes or pixels;
    `preference`: per row its place in the order of preference (0 the first); a damaged row represents only damaged
    ones, and a mute row has no colours. `relate` returns TIED, UNRELATED or CONTRADICTING per pair of rows."""
    leaders = first_of_each(same, preference)
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
    return firsts[representative], representative


def first_of_each(names: RowIndices, *keys: RowIndices | BoolArray) -> RowIndices:
    """Return per row the first row of its name in the order of the keys, of which the last counts most."""
    order = np.lexsort((*keys, names))
    is_first = np.diff(names[order], prepend=-1) != 0
    best = np.empty(len(names), dtype=np.int64)
    best[order] = order[np.flatnonzero(is_first)[np.cumsum(is_first) - 1]]
    return best


def _relate_all(components: list[RowIndices], relate: RelationFinder) -> list[tuple[RowIndices, Relations]]:
    """Return each component with the relations (m, m) of its rows: all pairs of all of them are compared at once."""
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
    """Return, for each row of a component (in the order of preference), the position of its representative."""
    centre = np.full(len(relations), -1, dtype=np.int64)
    while (left := np.flatnonzero(centre < 0)).size:
        sound = left[~is_damaged[left]]
        stars = [
            _star_around(place, left, relations, is_mute[place]) for place in (sound if sound.size else left).tolist()
        ]
        largest = max(stars, key=len)  # the first of several
        centre[largest] = largest[0]
    return centre


def _star_around(place: int, left: RowIndices, relations: Relations, is_mute: bool) -> list[int]:
    """Return the place, and those left that are tied to it, in order; around a mute one without such as contradict an
    earlier one."""
    star = [place]
    for other in left[relations[place, left] == TIED].tolist():
        if not (is_mute and (relations[other, star] == CONTRADICTING).any()):
            star.append(other)
    return star


def _large_stars(members: RowIndices, is_damaged: BoolArray, relate: RelationFinder) -> RowIndices:
    """Return the representatives of the rows of a large component, in the order of preference: each row that is left
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


def rank_by_preference(frame: pd.DataFrame, components: RowIndices, muteness: RowIndices) -> RowIndices:
    """Return the place of each row (n,) in the order of preference: with colours (the least `muteness`), then most
    pixels inside its borders, then with capture time and place, then of the folder of which the smallest share of
    images has a copy in another one, then the shortest item, then the smallest image_id, then item. `components`: per
    row the name of the images that may be the same as it."""
    count = len(frame)
    rows = np.flatnonzero(np.bincount(components, minlength=count)[components] > 1)
    keys = np.zeros((4, count))
    some = frame.iloc[rows]
    keys[0] = muteness
    keys[1, rows] = -_count_own_pixels(some, components[rows])
    for name in ("taken_at", "latitude"):
        if name in frame:
            keys[2, rows] -= some[name].notna().to_numpy()
    items = frame["item"].astype("str")
    keys[3] = _copied_shares(items, components, rows)
    lengths = items.str.len().to_numpy()
    ids, places = (pd.factorize(frame[name], sort=True)[0] for name in ("image_id", "item"))
    order = np.lexsort((places, ids, lengths, keys[3], keys[2], keys[1], keys[0]))
    preference = np.empty(count, dtype=np.int64)
    preference[order] = np.arange(count)
    return preference


def _copied_shares(items: pd.Series, components: RowIndices, rows: RowIndices) -> FloatArray:
    """Return per row the share of its folder's images that have a copy in another folder."""
    folders = pd.factorize(items.str.rpartition("/")[0])[0] if len(items) else np.zeros(0, np.int64)
    pairs = np.unique(np.stack([components[rows], folders[rows]]), axis=1)
    in_several = np.array([number for number, folders_of in Counter(pairs[0].tolist()).items() if folders_of > 1])
    is_copied: BoolArray = np.zeros(len(items), dtype=bool)
    is_copied[rows] = np.isin(components[rows], in_several)
    totals = np.bincount(folders, minlength=1)
    shares: FloatArray = np.bincount(folders, is_copied, minlength=1) / np.maximum(totals, 1)
    return np.round(shares[folders], 6) if len(items) else np.zeros(0)


def _count_own_pixels(frame: pd.DataFrame, group: RowIndices) -> RowIndices:
    """Return the pixels of each image (n,). Where others of its `group` have no borders, an image with borders counts
    only those inside: bars and frames make no copy the larger one."""
    pixels: RowIndices = frame["width"].to_numpy(dtype=np.int64) * frame["height"].to_numpy(dtype=np.int64)
    if "views" not in frame:
        return pixels
    shares = measure_content(frame["views"])
    return (pixels * np.where(np.isin(group, group[shares == 1]), shares, 1)).astype(np.int64)
