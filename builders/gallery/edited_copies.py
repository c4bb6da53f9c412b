"""Edited copies among images: cropped, framed, letterboxed, or with a text, a sticker or a watermark on them.

A pair is a candidate if any two of their patches are within a few bits, which the search for near hashes finds
exactly. It is accepted if one scale, turn and shift maps three patches or more onto each other, and if the aligned
thumbnails show the same (`edit_alignment`) in colours that do not contradict each other (`hash_checks`).
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.gallery.edit_alignment import ImagePatches, align_patches, compare_thumbnails, find_places
from builders.gallery.hash_checks import HashChecks
from querytruth.array_types import BoolArray, RowIndices
from querytruth.backends.images.hash_neighbours import Components, equal_code_pairs, join_near_hashes
from querytruth.backends.images.image_quality import CELLS
from querytruth.backends.images.perceptual_hashes import PATCH_SIDES, PATCH_TYPE, read_thumbnail

PATCH_DISTANCE = 4  # bits of 64
_FRAME = 1.6  # times the pixels of an image that it may have in a frame of a tenth of its longer side
_ROWS = 24  # of a group that are compared
_COMMON = 50  # groups with the very same patch: it is a logo or a pattern, and leads nowhere


@dataclass(frozen=True, slots=True)
class EditableImages:
    """The patches and thumbnails of images, a row each, as a scan stores them; null or empty without. `checks`: what
    aligned images must not contradict each other in."""

    patches: pd.Series
    thumbnails: pd.Series
    checks: HashChecks
    _compared: dict[tuple[int, int], tuple[float, str] | None] = field(default_factory=dict)

    def find_pairs(self, groups: RowIndices) -> RowIndices:
        """Returns pairs of rows (n, 2) that are edited copies and connect all groups (per row its name) that have such
        pairs. Several rows of each group are compared: what leads to one copy need not lead to another."""
        rows = self._distinct_rows(groups)
        hashes, owners = self._hashes(rows, groups)
        pairs: list[tuple[int, int]] = []

        def agree(ones: RowIndices, others: RowIndices) -> BoolArray:
            accepted: BoolArray = groups[owners[ones]] == groups[owners[others]]
            for place in np.flatnonzero(~accepted).tolist():
                pair = int(owners[ones[place]]), int(owners[others[place]])
                if self.compare(*pair) is not None:
                    accepted[place] = True
                    pairs.append(pair)
            return accepted

        components = Components(len(hashes), agree)
        components.join(*equal_code_pairs(groups[owners]))
        join_near_hashes(hashes, PATCH_DISTANCE, components)
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    def compare(self, one: int, other: int) -> tuple[float, str] | None:
        """Returns the share of matching blocks of two rows and what was edited (`compare_thumbnails`); None where they
        are no edited copies."""
        key = min(one, other), max(one, other)
        if key not in self._compared:
            self._compared[key] = self._compare(*key)
        return self._compared[key]

    def _compare(self, one: int, other: int) -> tuple[float, str] | None:
        first, second = self._image(one), self._image(other)
        alignment = align_patches(first, second) if first and second else None
        found = compare_thumbnails(first, second, alignment) if first and second and alignment else None
        if not (first and second and alignment and found) or self.checks.are_different_pages(one, other):
            return None
        share, edit, is_same = found
        places = find_places(first, second, alignment, is_same, CELLS)
        has_borders = first.has_borders != second.has_borders
        return (share, edit) if self.checks.aligned_colours_agree(one, other, places, has_borders) else None

    def _distinct_rows(self, groups: RowIndices) -> RowIndices:
        """Returns the first rows of each group that differ in their patches, up to _ROWS of them."""
        known = np.flatnonzero(self.patches.notna().to_numpy())
        codes = pd.factorize(self.patches.iloc[known])[0]
        distinct = known[~pd.DataFrame({"group": groups[known], "code": codes}).duplicated().to_numpy()]
        rank = pd.Series(groups[distinct]).groupby(groups[distinct]).cumcount().to_numpy()
        rows: RowIndices = distinct[rank < _ROWS].astype(np.int64)
        return rows

    def _image(self, row: int) -> ImagePatches | None:
        packed, thumbnail = self.patches.iloc[row], self.thumbnails.iloc[row]
        if not isinstance(packed, bytes) or not packed:
            return None
        patches = np.frombuffer(packed, PATCH_TYPE)
        points = np.stack([patches["row"], patches["column"]], axis=1).astype(np.float64)
        inside = np.frombuffer(thumbnail, np.uint8, 4, offset=3) / 255
        hashes = patches["hashes"].astype(np.uint64)
        return ImagePatches(points, hashes, read_thumbnail(thumbnail), bool(thumbnail[0]), inside)

    def _hashes(self, rows: RowIndices, groups: RowIndices) -> tuple[NDArray[np.uint64], RowIndices]:
        """Returns the hashes of these rows' patches (n,) and the row of each, in the order of rows, without those of
        patches that lack structure or are common."""
        packed = [value if isinstance(value, bytes) else b"" for value in self.patches.iloc[rows]]
        patches = np.frombuffer(b"".join(packed), PATCH_TYPE)
        counts = [len(value) // PATCH_TYPE.itemsize * len(PATCH_SIDES) for value in packed]
        hashes, owners = patches["hashes"].astype(np.uint64).ravel(), np.repeat(rows, counts)
        _, codes = np.unique(hashes, return_inverse=True)
        in_groups = pd.DataFrame({"code": codes, "group": groups[owners]}).drop_duplicates()["code"]
        counted = np.bincount(in_groups, minlength=codes.max(initial=-1) + 1)
        is_useful = (hashes != 0) & (counted[codes] <= _COMMON)
        return hashes[is_useful], owners[is_useful]


def count_own_pixels(frame: pd.DataFrame, group: RowIndices) -> RowIndices:
    """Returns the pixels of each image (n,). Where others of its `group` have no borders, an image with borders counts
    only those that lie inside them for certain: bars and frames make no copy the larger one."""
    pixels: RowIndices = frame["width"].to_numpy(dtype=np.int64) * frame["height"].to_numpy(dtype=np.int64)
    if "thumbnail" not in frame:
        return pixels
    heads = [value[:3] if isinstance(value, bytes) else b"" for value in frame["thumbnail"]]
    is_plain = np.array([head[:1] == b"\0" for head in heads], dtype=bool)
    plain_groups = np.unique(group[is_plain])
    for row in np.flatnonzero(~is_plain & np.isin(group, plain_groups)).tolist():
        if len(heads[row]) == 3:
            _, high, wide = heads[row]  # the shape inside the borders
            width, height = int(frame["width"].iloc[row]), int(frame["height"].iloc[row])
            inside = min(width, height * wide / high) * min(height, width * high / wide)
            pixels[row] = int(inside / _FRAME)
    return pixels
