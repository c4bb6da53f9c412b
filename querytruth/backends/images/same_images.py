"""Which images are the same: views propose pairs, their thumbnails are aligned, and fitted cuts decide.

Two images are compared if any two of their views differ in at most `distance` bits. Their thumbnails are aligned from
the best of three pairs of views, and they are the same if every measure is at most its cut: a single contradiction
decides, unlike in a weighted sum. There are separate cuts for photos and for drawings (one shade in a large part of
both). `benchmarks/duplicate_cuts.py` fits the cuts and writes them to same_images.yaml.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from querytruth.array_types import BoolArray, FloatArray, Hashes, RowIndices
from querytruth.backends.files.text_formats import read_package_yaml
from querytruth.backends.images import image_views, pair_measures
from querytruth.backends.images.hash_neighbours import Components, join_near_hashes
from querytruth.backends.images.image_alignment import align, choose_starts
from querytruth.backends.images.image_views import VIEWS, Boxes
from querytruth.backends.images.pair_measures import MEASURES, Mosaics

NO_BITS = 65  # of a pair without views
AS_IT_IS, FLIPS, ROTATIONS, ALL_TURNS = (0,), (0, 2, 4, 6), (0, 1, 2, 3), tuple(range(8))
_STARTS = 3  # pairs of views that an alignment may begin with
_AT_ONCE = 12  # pairs: with more, the C library returns the memory of each step and asks for it again
_WHOLE = 0.02  # shares of the sides: nearer to each other, images are not cut or framed
_EXACT, _CHOICES = 1 << 20, 165  # hashes of which every near pair is looked for; beyond, 6 of 13,000 copies are lost
_MANY = 1 << 11  # pairs whose views are compared at a time
_MOST_OTHERS = 32  # images that an image is compared with in vain before the search gives up on it


@cache
def read_cuts() -> tuple[float, FloatArray]:
    """Return the share of one shade from which two images count as drawings, and the cuts (2, M) of photos and
    drawings, in the order of MEASURES."""
    stored = read_package_yaml(Path(__file__).with_suffix(".yaml"))
    cuts = np.array([[stored[kind][name] for name in MEASURES] for kind in ("photos", "drawings")])
    return float(stored["drawing_share"]), cuts


class ComparableImages:
    """Images of a scan, one row each, with the columns views, thumbnail and, if any, details (null: unknown).
    `distance`: the bits in which views of the same image may differ; `turns`: allowed turns of the first image of a
    pair."""

    def __init__(self, frame: pd.DataFrame, distance: int, turns: Sequence[int] = AS_IT_IS) -> None:
        self.views = image_views.read_views(frame["views"])
        self._thumbnails, self._details = frame["thumbnail"], frame.get("details")
        self._distance, self.turns = distance, turns
        self.boxes, self.hashes = self.views.boxes[:, None], self.views.hashes[:, None]  # (n, turns, …)
        if len(turns) > 1:
            self._add_turns()
        parts = [self._thumbnails] if self._details is None else [self._thumbnails, self._details]
        self._codes = np.stack([pd.factorize(part)[0] for part in parts])  # of equal thumbnails and details
        self.known, self.results = np.zeros(0, np.int64), np.zeros(0, bool)  # pairs that were compared, in order

    def _add_turns(self) -> None:
        """Add the views of turned images, computed from their thumbnails."""
        known = np.flatnonzero(self.hashes.any(axis=(1, 2)))
        boxes = np.zeros((len(self.boxes), len(self.turns), *self.boxes.shape[2:]), np.uint8)
        hashes = np.zeros((len(self.hashes), len(self.turns), VIEWS), np.uint64)
        boxes[:, :1], hashes[:, :1] = self.boxes, self.hashes
        for rows in (known[some] for some in _slices(len(known), _AT_ONCE)):
            mosaics = self.mosaics(rows)
            for place, turn in list(enumerate(self.turns))[1:]:
                found = image_views.view_thumbnails(pair_measures.turn_mosaics(mosaics, turn))
                boxes[rows, place], hashes[rows, place] = found
        self.boxes, self.hashes = boxes, hashes

    def mosaics(self, rows: RowIndices) -> Mosaics:
        """Return the thumbnails (n, 80, 64) of rows that have one."""
        return np.stack([image_views.read_thumbnail(self._thumbnails.iloc[row]) for row in rows.tolist()])

    def details(self, row: int) -> bytes | None:
        """Return the stored details of a row."""
        found = None if self._details is None else self._details.iloc[row]
        return found if isinstance(found, bytes) else None

    def list_hashes(self) -> tuple[Hashes, RowIndices]:
        """Return the hashes of all views in all turns (h,), and the row of each."""
        rows, turns, views = np.nonzero(self.hashes)
        return self.hashes[rows, turns, views], rows

    def view_distances(self, ones: RowIndices, others: RowIndices) -> RowIndices:
        """Return the number of bits in which the nearest views of each pair (n,) differ, NO_BITS if there are no
        views."""
        return nearest_turns(self, ones, self, others)[0]

    def relate(self, ones: RowIndices, others: RowIndices) -> tuple[BoolArray, BoolArray]:
        """Return per pair (n,) whether views are near, and whether the images are the same."""
        near = (self.view_distances(ones, others) <= self._distance) & (ones != others)
        same = near.copy()
        same[near] = self.are_same(ones[near], others[near])
        return near, same | (ones == others)

    def are_same(self, ones: RowIndices, others: RowIndices) -> BoolArray:
        """Return per pair (n,) of rows that have views whether nothing contradicts that they are the same."""
        low, high = np.minimum(ones, others), np.maximum(ones, others)
        equal: BoolArray = np.asarray((self._codes[:, low] == self._codes[:, high]).all(axis=0))
        keys = (low * len(self._thumbnails) + high)[~equal]
        unknown = np.setdiff1d(keys, self.known)
        rows = np.divmod(unknown, len(self._thumbnails))
        results = np.append(self.results, accept(measure_pairs(self, rows[0], self, rows[1])))
        known = np.append(self.known, unknown)
        order = np.argsort(known, kind="stable")
        self.known, self.results = known[order], results[order]
        equal[~equal] = self.results[np.searchsorted(self.known, keys)]
        return equal

    def find_same_pairs(self, groups: RowIndices) -> RowIndices:
        """Return pairs of rows (n, 2) that are the same and connect all groups (per row its name) that have such
        pairs. Of each group its first row is compared, with at most _MOST_OTHERS others that it is not the same as."""
        firsts = np.unique(groups, return_index=True)[1]
        hashes = self.hashes[firsts].reshape(len(firsts), len(self.turns) * VIEWS)
        places, slots = np.nonzero(hashes)
        sets = _SameImages(self, firsts[places], slots >= VIEWS)
        join_near_hashes(hashes[places, slots], self._distance, sets, _CHOICES if len(places) > _EXACT else None)
        return np.concatenate(sets.found)

    def name_edits(self, ones: RowIndices, others: RowIndices) -> list[str]:
        """Return what was edited between the images of pairs (n,): border, crop, overlay, joined by +, or copy."""
        measures = measure_pairs(self, ones, self, others)
        has_border = [self.boxes[rows, 0, 1].any(axis=1) for rows in (ones, others)]
        applies = {
            "border": has_border[0] != has_border[1],
            "crop": measures[:, -2] < 0.95,
            "overlay": measures[:, MEASURES.index("shape")] > 0.03,
        }
        return ["+".join(name for name, some in applies.items() if some[n]) or "copy" for n in range(len(ones))]


class _SameImages(Components):
    """Sets of images that are the same, built from hashes of their views (owners and whether the image is turned,
    (h,)). Images with near hashes are joined if `are_same` confirms it, each image with one other at a time. `found`:
    these pairs (n, 2)."""

    def __init__(self, images: ComparableImages, owners: RowIndices, is_turned: BoolArray) -> None:
        super().__init__(len(images.hashes), owners)
        self._images, self._is_turned = images, is_turned
        self._vain = np.zeros(self.size, np.int64)
        self.found = [np.zeros((0, 2), dtype=np.int64)]

    def join(self, ones: RowIndices, others: RowIndices) -> None:
        upright = ~(self._is_turned[ones] & self._is_turned[others])
        pair = self.own(ones[upright]), self.own(others[upright])
        keys = np.unique(np.minimum(*pair) * self.size + np.maximum(*pair))
        rejected = self._images.known[~self._images.results]
        low, high = np.divmod(np.setdiff1d(keys, rejected, assume_unique=True), self.size)
        while True:
            left = np.maximum(self._vain[low], self._vain[high]) < _MOST_OTHERS
            left &= self._find(low) != self._find(high)
            low, high = low[left], high[left]
            if not low.size:
                return
            some = np.unique(low, return_index=True)[1]
            some = some[np.unique(high[some], return_index=True)[1]]
            one, other = low[some], high[some]
            same = self._images.are_same(one, other)
            np.add.at(self._vain, np.append(one[~same], other[~same]), 1)
            self.unite(one[same], other[same])
            self.found.append(np.stack([one[same], other[same]], axis=1))
            low, high = np.delete(low, some), np.delete(high, some)


def measure_pairs(
    images: ComparableImages, ones: RowIndices, other_images: ComparableImages, others: RowIndices
) -> FloatArray:
    """Return MEASURES, the smaller share that both show, and that of one shade (n, M + 2), of pairs of rows that have
    views."""
    parts = [_measure(images, ones[some], other_images, others[some]) for some in _slices(len(ones), _AT_ONCE)]
    return np.concatenate([np.zeros((0, len(MEASURES) + 2)), *parts])


def _measure(
    images: ComparableImages, ones: RowIndices, other_images: ComparableImages, others: RowIndices
) -> FloatArray:
    turns = nearest_turns(images, ones, other_images, others)[1]
    first, second = images.mosaics(ones), other_images.mosaics(others)
    for place in np.unique(turns[turns > 0]).tolist():
        first[turns == place] = pair_measures.turn_mosaics(first[turns == place], images.turns[place])
    views = images.hashes[ones, turns], images.boxes[ones, turns]
    other_views = other_images.hashes[others, 0], other_images.boxes[others, 0]
    luma, other_luma = (pair_measures.split_mosaics(some)[0] for some in (first, second))
    start = choose_starts(luma, other_luma, _find_starts(*views, *other_views))
    muteness, shades = (
        np.stack([own[ones], other[others]], axis=1)
        for own, other in zip(images.views[:2], other_images.views[:2], strict=True)
    )
    shade = shades.min(axis=1) / 255
    is_drawing = shade >= read_cuts()[0]
    matrix = align(luma, other_luma, start)
    measures = pair_measures.measure_pairs(first, second, muteness, matrix, is_drawing)
    inside = [image_views.content_boxes(some).astype(np.int64) for some in (views[1], other_views[1])]
    whole = np.abs(matrix - np.eye(3)).max(axis=(1, 2)) < _WHOLE
    whole &= np.abs(inside[0] - inside[1]).max(axis=1) <= _WHOLE * image_views.SIDE
    for place in np.flatnonzero(whole & is_drawing).tolist():
        pair = images.details(ones[place]), other_images.details(others[place])
        if _differ_in_details(*pair, images.turns[turns[place]]):
            measures[place] = np.inf
    return np.column_stack([measures, shade])


def _differ_in_details(one: bytes | None, other: bytes | None, turn: int) -> bool:
    """Return whether the small print of two flat images is known and differs; one of them is a page or a screen."""
    if one is None or other is None or not (one[0] or other[0]):
        return False
    first, second = (np.frombuffer(some, np.uint8, offset=1).reshape(1, 32, 32) for some in (one, other))
    return not pair_measures.have_same_details(pair_measures.turn_images(first, turn), second)[0]


def nearest_turns(
    images: ComparableImages, ones: RowIndices, other_images: ComparableImages, others: RowIndices
) -> tuple[RowIndices, RowIndices]:
    """Return the number of bits in which the nearest views of pairs (n,) differ, NO_BITS if there are none, and the
    index of the first image's turn."""
    bits = np.full((len(ones), len(images.turns)), NO_BITS, dtype=np.int64)
    for some in _slices(len(ones), _MANY):
        for place in range(len(images.turns)):
            found = _view_bits(images.hashes[ones[some], place], other_images.hashes[others[some], 0])
            bits[some, place] = found.min(axis=1, initial=NO_BITS)
    return bits.min(axis=1, initial=NO_BITS), bits.argmin(axis=1)


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))


def _view_bits(ones: Hashes, others: Hashes) -> NDArray[np.int32]:
    """Return in how many bits the views of pairs differ (n, VIEWS * VIEWS), NO_BITS where one is missing."""
    bits = np.bitwise_count(ones[:, :, None] ^ others[:, None]).astype(np.int32)
    bits[(ones == 0)[:, :, None] | (others == 0)[:, None]] = NO_BITS
    of_pairs: NDArray[np.int32] = bits.reshape(len(ones), -1)
    return of_pairs


def _find_starts(hashes: Hashes, boxes: Boxes, other_hashes: Hashes, other_boxes: Boxes) -> FloatArray:
    """Return the maps (n, 3, 3, 3) between the views of pairs that differ in the fewest bits."""
    order = _view_bits(hashes, other_hashes) * VIEWS**2 + np.arange(VIEWS**2, dtype=np.int32)
    best = np.divmod(np.sort(np.partition(order, _STARTS, axis=1)[:, :_STARTS], axis=1) % VIEWS**2, VIEWS)
    rows = np.arange(len(hashes))[:, None]
    one, other = (
        image_views.locate_in_content(some)[rows, views] for some, views in zip((boxes, other_boxes), best, strict=True)
    )
    scale = (other[..., 2:] - other[..., :2]) / (one[..., 2:] - one[..., :2])
    starts = np.zeros((*scale.shape[:2], 3, 3))
    starts[..., 0, 0], starts[..., 1, 1], starts[..., 2, 2] = scale[..., 0], scale[..., 1], 1
    starts[..., :2, 2] = other[..., :2] - scale * one[..., :2]
    return starts


def accept(measures: FloatArray) -> BoolArray:
    """Return whether pairs are the same, from what `measure_pairs` returns."""
    share, cuts = read_cuts()
    accepted: BoolArray = (measures[:, : len(MEASURES)] <= cuts[(measures[:, -1] >= share).astype(int)]).all(axis=1)
    return accepted
