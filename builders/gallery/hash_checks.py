"""What a perceptual hash does not see: the colours of two images, and the small print of pages, cards and screens.

A hash is of 64 coarse frequencies of grey. A shirt in six colours has one hash, and so have six cards of one template
that say different things. Images whose hashes agree are therefore compared once more, by two things that a scan takes
from the same small image as the hash.

Colours: 8 x 8 cells, of each its mean chroma (Cb, Cr of Rec. 601) and that of the part of it, a sixteenth, that differs
most from the mean. A copy's colours are those of the original times a factor (faded, saturated) plus a small shift
(white balance). Grey copies and those toned in one hue (sepia) contradict no colour. Two different colours at one place
do, unless the shapes there differ as well, as below a sticker.

Details: of flat images, as pages and screens are, 32 x 32 grey pixels. Their differences from left to right, in which
lines of text do not show, but letters and gaps do, must correlate, as a whole and block by block.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.gallery.edit_alignment import LEAST_MATCHING_SHARE, find_matching_blocks
from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.backends.images.image_quality import CELLS, COLOUR_BYTES, DETAIL_SIDE
from querytruth.backends.images.perceptual_hashes import THUMBNAIL_HEAD, read_thumbnail

DETAIL_CORRELATION = 0.945  # the minimum; copies of drawn cards, slides, scans and chats: 0.97, of drawn scenes: 0.95
_BLOCK_CORRELATION = 0.6  # the minimum in a block with structure
_STRUCTURE, _FAINT = 3.0, 1.2  # grey levels of a block's differences: what is structure, and what is none
_SAME = 3  # levels of chroma between cells that are equal after compression
_COLOURLESS, _COLOURLESS_PART = 6, 14  # levels of chroma in an image without colours: of cells, and of their parts
_TOLERANCE, _SHARE = 6.5, 0.13  # levels and share of a colour by which a cell may differ from those around its place
_SHIFT, _FACTOR = 12.0, 1.3  # the largest shift and factor of a copy's colours
_STRONG, _UNLIKE = 20.0, (8.0, 0.4)  # of a part's chroma: what is a colour, and by how much another one differs
_CONTRADICTION = 2.0  # levels of chroma, in all cells together, that are too many
_ALIGNED = 1.5, 6.0  # times as many between images that are aligned, whose cells are interpolated; and in borders
_EDGE = 0.1  # of the differences around a cell: where an edge runs through it, a copy's may lie a little beside
_TONE = {"across": 9.0, "against": -3.0, "most": 45.0, "least": 3.0, "share": 0.5}  # of an image in one hue
_HUES, _NEUTRAL, _TIED = 8.0, 5.0, 0.6
_MOST_CHANGED = 12  # cells below a sticker
_AT_ONCE = 1 << 10  # pairs
_BESIDE = 4  # 255ths of a side by which the contents of two images may begin or end elsewhere
_THUMBNAIL = 4 * CELLS

Colours = NDArray[np.float32]  # (n, 8, 8, 4): mean Cb, Cr and those of the part that differs most


@dataclass(frozen=True, slots=True)
class HashChecks:
    """Colours, details and thumbnails of images as a scan stores them, a row each; null or missing where unknown, which
    contradicts nothing."""

    colours: pd.Series | None
    details: pd.Series | None
    thumbnails: pd.Series | None

    @classmethod
    def of_frame(cls, frame: pd.DataFrame) -> "HashChecks":
        """Takes the columns that the frame has."""
        return cls(*(frame.get(name) for name in ("colours", "details", "thumbnail")))

    def agree(self, ones: RowIndices, others: RowIndices, turn: int = 0) -> BoolArray:
        """Returns per pair of rows (n,) whether nothing contradicts that they show the same, the first ones after a
        turn (0 to 7 in the order of `perceptual_hash`)."""
        agrees = np.ones(len(ones), dtype=bool)
        for start in range(0, len(ones), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            agrees[some] = self._details_agree(ones[some], others[some], turn)
            left = start + np.flatnonzero(agrees[some])
            agrees[left] = self._colours_agree(ones[left], others[left], turn)
        return agrees

    def muteness(self, rows: RowIndices) -> RowIndices:
        """Returns per row how little its colours can contradict: 2 grey, 1 in one hue all over, 0 others, unknown."""
        found, known = _read(self.colours, rows, COLOUR_BYTES)
        colours = _as_colours(found)
        muteness = np.where(_are_colourless(colours), 2, np.where(_has_one_hue(colours[..., :2]), 1, 0))
        return np.where(known, muteness, 0).astype(np.int64)

    def aligned_colours_agree(self, one: int, other: int, places: FloatArray, has_borders: bool) -> bool:
        """Returns whether the colours of two rows agree where both show the same. `places` (8, 8, 2): for each cell of
        the first the place in the second, row and column as shares of its sides; NaN where that does not show it.
        `has_borders`: few cells show what is inside them."""
        found, known = _read(self.colours, np.array([one, other]), COLOUR_BYTES)
        inside: BoolArray = np.asarray(~np.isnan(places).any(axis=-1))
        if not known.all() or not inside.any():
            return True
        pair = _as_colours(found)
        at = np.nan_to_num(places * CELLS - 0.5).clip(0, CELLS - 1)
        low = np.minimum(at.astype(np.int64), CELLS - 2)
        down, right = (at - low)[..., 0, None], (at - low)[..., 1, None]
        row, column, second = low[..., 0], low[..., 1], pair[1]
        upper = second[row, column] * (1 - right) + second[row, column + 1] * right
        lower = second[row + 1, column] * (1 - right) + second[row + 1, column + 1] * right
        warped = upper * (1 - down) + lower * down
        nearest = np.rint(at).astype(np.int64)
        warped[..., 2:] = second[nearest[..., 0], nearest[..., 1], 2:]
        warped = np.where(inside[..., None], warped, pair[0]).astype(np.float32)
        excess = np.maximum(_colour_excess(pair[:1], warped[None])[0], 0)
        return bool(excess[inside].sum() < _ALIGNED[has_borders] * _CONTRADICTION)

    def are_different_pages(self, one: int, other: int) -> bool:
        """Returns whether both rows are pages or screens, and say different things: of these no parts are compared."""
        found, known = _read(self.details, np.array([one, other]), 1 + DETAIL_SIDE**2)
        if not (known.all() and found[:, 0].all()):
            return False
        return not self._details_agree(np.array([one]), np.array([other]), 0)[0]

    def _details_agree(self, ones: RowIndices, others: RowIndices, turn: int) -> BoolArray:
        first, known = _read(self.details, ones, 1 + DETAIL_SIDE**2)
        second, also_known = _read(self.details, others, 1 + DETAIL_SIDE**2)
        agrees = ~(known & also_known & ((first[:, 0] | second[:, 0]) > 0))
        rows = np.flatnonzero(~agrees)
        images = [some[rows, 1:].reshape(-1, DETAIL_SIDE, DETAIL_SIDE).astype(np.float32) for some in (first, second)]
        agrees[rows] = have_same_details(_turned(images[0], turn), images[1])
        return agrees

    def _colours_agree(self, ones: RowIndices, others: RowIndices, turn: int) -> BoolArray:
        first, known = _read(self.colours, ones, COLOUR_BYTES)
        second, also_known = _read(self.colours, others, COLOUR_BYTES)
        pair = _turned(_as_colours(first), turn), _as_colours(second)
        differences = np.abs(pair[0] - pair[1])
        is_same = differences[..., :2].max(axis=(1, 2, 3), initial=0) <= _SAME
        is_same &= differences[..., 2:].max(axis=(1, 2, 3), initial=0) <= _STRONG
        agrees: BoolArray = is_same | ~(known & also_known)
        is_grey = _are_colourless(pair[0]) != _are_colourless(pair[1])
        for place in np.flatnonzero(is_grey & ~agrees).tolist():
            is_grey[place] = self._matching_share(int(ones[place]), int(others[place]), turn) < LEAST_MATCHING_SHARE
        rows = np.flatnonzero(~agrees)
        excess = np.maximum(_colour_excess(pair[0][rows], pair[1][rows]), 0)
        agrees[rows] = (excess.sum(axis=(1, 2)) < _CONTRADICTION) & ~is_grey[rows]
        for place in np.flatnonzero(~agrees & ~is_grey).tolist():
            changed = self._changed_cells(int(ones[place]), int(others[place]), turn)
            if changed is not None:
                beside = excess[int(np.searchsorted(rows, place))][~changed]
                agrees[place] = beside.sum() < _CONTRADICTION
        return agrees

    def _matching_share(self, one: int, other: int, turn: int) -> float:
        """Returns the share of cells in which two rows show the same shapes: a grey copy has those of the original."""
        matching = self._matching_cells(one, other, turn)
        return 1.0 if matching is None else float(matching.mean())

    def _matching_cells(self, one: int, other: int, turn: int) -> BoolArray | None:
        """Returns the cells (8, 8) in which the shapes of two rows agree; None where that is unknown."""
        values = [] if self.thumbnails is None else [self.thumbnails.iloc[row] for row in (one, other)]
        if not values or any(not isinstance(value, bytes) or len(value) <= THUMBNAIL_HEAD for value in values):
            return None
        if (
            max(abs(a - b) for a, b in zip(values[0][3:THUMBNAIL_HEAD], values[1][3:THUMBNAIL_HEAD], strict=True))
            > _BESIDE
        ):
            return None  # borders were removed from one of them
        grids = [_on_cells(read_thumbnail(value)) for value in values]
        return find_matching_blocks(_turned(grids[0][None], turn)[0], grids[1])

    def _changed_cells(self, one: int, other: int, turn: int) -> BoolArray | None:
        """Returns the cells (8, 8) at or beside which the shapes of two rows differ; None where that is unknown, or are
        too many for a sticker."""
        matching = self._matching_cells(one, other, turn)
        if matching is None:
            return None
        changed = ~matching
        return _spread(changed) if np.count_nonzero(changed) <= _MOST_CHANGED else None


def have_same_details(first: NDArray[np.float32], second: NDArray[np.float32]) -> BoolArray:
    """Returns whether the differences from left to right of grey images (n, height, width) correlate, over the whole
    image and in each block of 4 x 4 pixels in which one of them has any."""
    one, other = (np.diff(images.astype(np.float64), axis=2, prepend=images[:, :, :1]) for images in (first, second))
    whole = _correlate(one.reshape(len(one), DETAIL_SIDE**2), other.reshape(len(one), DETAIL_SIDE**2))
    blocks = [
        steps.reshape(len(one), CELLS, 4, CELLS, 4).transpose(0, 1, 3, 2, 4).reshape(len(one), CELLS**2, 16)
        for steps in (one, other)
    ]
    blocks = [block - block.mean(axis=2, keepdims=True) for block in blocks]
    energies = [(block**2).mean(axis=2) for block in blocks]
    differs = _correlate(*blocks) < _BLOCK_CORRELATION
    differs |= np.minimum(*energies) < _FAINT**2
    differs &= np.maximum(*energies) >= _STRUCTURE**2
    same: BoolArray = (whole >= DETAIL_CORRELATION) & ~differs.any(axis=1)
    return same


def _correlate(one: FloatArray, other: FloatArray) -> FloatArray:
    """Returns correlations over the last axis, rounded."""
    norms = np.sqrt((one**2).sum(axis=-1) * (other**2).sum(axis=-1))
    correlation: FloatArray = np.round((one * other).sum(axis=-1) / np.maximum(norms, 1e-9), 6)
    return correlation


def _read(column: pd.Series | None, rows: RowIndices, length: int) -> tuple[NDArray[np.uint8], BoolArray]:
    """Returns the bytes (n, length) of these rows, zeros where there are none, and whether there are."""
    values = [b""] * len(rows) if column is None else column.iloc[rows].tolist()
    known = [isinstance(value, bytes) and len(value) == length for value in values]
    whole = b"".join(value if is_known else bytes(length) for value, is_known in zip(values, known, strict=True))
    return np.frombuffer(whole, np.uint8).reshape(-1, length), np.array(known, dtype=bool)


def _as_colours(found: NDArray[np.uint8]) -> Colours:
    return found.view(np.int8).reshape(-1, CELLS, CELLS, 4).astype(np.float32)


def _turned(images: NDArray[np.float32], turn: int) -> NDArray[np.float32]:
    """Returns images (n, side, side, …) after a turn: quarter turns, from 4 on after mirroring them left-right."""
    turned: NDArray[np.float32] = np.rot90(images[:, :, ::-1] if turn >= 4 else images, turn % 4, axes=(1, 2))
    return turned


def _are_colourless(colours: Colours) -> BoolArray:
    cells = np.abs(colours[..., :2]).max(axis=(1, 2, 3), initial=0) <= _COLOURLESS
    parts = np.linalg.norm(colours[..., 2:], axis=-1).max(axis=(1, 2), initial=0) <= _COLOURLESS_PART
    colourless: BoolArray = cells & parts
    return colourless


def _colour_excess(one: Colours, other: Colours) -> Colours:
    """Returns per pair and cell (n, 8, 8) by how many levels the colours differ more than a copy's may; at most 0 where
    they agree."""
    energies = [(colours[..., :2] ** 2).sum(axis=(1, 2, 3)) for colours in (one, other)]
    is_swapped = (energies[1] > energies[0])[:, None, None, None]
    strong, weak = np.where(is_swapped, other, one), np.where(is_swapped, one, other)
    candidates = [_excess_after_fit(strong, weak, has_shift) for has_shift in (False, True)]
    totals = [np.maximum(excess, 0).sum(axis=(1, 2)) for excess in candidates]
    excess = np.where((totals[1] < totals[0])[:, None, None], candidates[1], candidates[0])
    says_nothing = _are_colourless(weak) | _is_toned(strong, weak) | _is_toned(weak, strong)
    return np.where(says_nothing[:, None, None], -1, np.round(excess, 3)).astype(np.float32)


def _excess_after_fit(strong: Colours, weak: Colours, has_shift: bool) -> Colours:
    """Returns the excess (n, 8, 8) of the second colours over the first ones times a factor, and with a shift."""
    one, other = strong[..., :2], weak[..., :2]
    means = [cells.mean(axis=(1, 2), keepdims=True) if has_shift else np.float32(0) for cells in (one, other)]
    product = ((one - means[0]) * (other - means[1])).sum(axis=(1, 2, 3))
    factor = product / np.maximum(((one - means[0]) ** 2).sum(axis=(1, 2, 3)), 1e-3)
    factor = factor.clip(0, _FACTOR)[:, None, None, None]
    shift = (means[1] - factor * means[0]).clip(-_SHIFT, _SHIFT) if has_shift else np.float32(0)
    fitted = factor * one + shift
    around = [(_around(cells).min(axis=3), _around(cells).max(axis=3)) for cells in (fitted, other)]
    tolerance = _TOLERANCE + _SHARE * np.abs(fitted) + _EDGE * (around[0][1] - around[0][0])
    outside = [
        np.maximum(low - value, value - high) for (low, high), value in zip(around, (other, fitted), strict=True)
    ]
    excess = (np.maximum(*outside) - tolerance).max(axis=3)
    parts = factor * strong[..., 2:] + shift, weak[..., 2:]
    is_strong = [np.linalg.norm(colours[..., 2:], axis=-1) > _STRONG for colours in (strong, weak)]
    is_other_colour = _is_unlike(parts[0], parts[1], other) | _is_unlike(parts[1], parts[0], fitted)
    is_other_colour &= is_strong[0] & is_strong[1]
    worst: Colours = np.where(is_other_colour, np.maximum(excess, _CONTRADICTION), excess)
    return worst


def _is_unlike(parts: Colours, other_parts: Colours, other_cells: Colours) -> BoolArray:
    """Returns where (n, 8, 8) the colour of a part is nowhere around its place in the other image. Where an edge halves
    a cell, both its sides differ as much from the mean: the side that was not stored counts as well."""
    other_sides = 2 * other_cells - other_parts
    around = np.concatenate([_around(cells) for cells in (other_parts, other_cells, other_sides)], axis=3)
    nearest = np.linalg.norm(around - parts[:, :, :, None], axis=-1).min(axis=3)
    unlike: BoolArray = nearest > _UNLIKE[0] + _UNLIKE[1] * np.linalg.norm(parts, axis=-1)
    return unlike


def _around(cells: Colours) -> Colours:
    """Returns the cells (n, 8, 8, 9, k) at and around each place: copies are cropped or shifted a little."""
    padded = np.pad(cells, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    return np.stack([padded[:, a : a + CELLS, b : b + CELLS] for a in range(3) for b in range(3)], axis=3)


def _is_toned(original: Colours, copy: Colours) -> BoolArray:
    """Returns per pair whether the second image is in one hue all over (sepia), which is no colour of things: the first
    has several hues, or its neutral cells have the hue, or the hue is not where its colours are."""
    one, other = original[..., :2], copy[..., :2]
    along = _by_main_hue(other)[0]
    lengths = [np.linalg.norm(cells, axis=-1) for cells in (one, other)]
    neutral = lengths[0] <= _NEUTRAL
    counts = np.maximum(neutral.sum(axis=(1, 2)), 6)
    is_tinted = (neutral & (along >= 4)).sum(axis=(1, 2)) >= 0.7 * counts
    centred = [some - some.mean(axis=(1, 2), keepdims=True) for some in lengths]
    norms = np.sqrt((centred[0] ** 2).sum(axis=(1, 2)) * (centred[1] ** 2).sum(axis=(1, 2)))
    tied = (centred[0] * centred[1]).sum(axis=(1, 2)) >= _TIED * np.maximum(norms, 1e-3)
    has_hues = _by_main_hue(one)[1].max(axis=(1, 2)) > _HUES
    toned: BoolArray = _has_one_hue(other) & (has_hues | is_tinted | ~tied)
    return toned


def _has_one_hue(cells: Colours) -> BoolArray:
    along, across = _by_main_hue(cells)
    has_one = (across.max(axis=(1, 2)) <= _TONE["across"]) & (along.min(axis=(1, 2)) >= _TONE["against"])
    has_one &= along.max(axis=(1, 2)) <= _TONE["most"]
    has_one &= (along >= _TONE["least"]).mean(axis=(1, 2)) >= _TONE["share"]
    one_hue: BoolArray = has_one
    return one_hue


def _by_main_hue(cells: Colours) -> tuple[Colours, Colours]:
    """Returns how far cells lie along the mean's direction, and how far beside it (n, 8, 8)."""
    means = cells.mean(axis=(1, 2))
    hue = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-3)
    beside = np.stack([-hue[:, 1], hue[:, 0]], axis=1)
    return (cells * hue[:, None, None]).sum(axis=3), np.abs((cells * beside[:, None, None]).sum(axis=3))


def _on_cells(thumbnail: FloatArray) -> NDArray[np.float32]:
    """Returns a thumbnail stretched to four pixels a cell."""
    rows, columns = (np.arange(_THUMBNAIL) * side // _THUMBNAIL for side in thumbnail.shape)
    grid: NDArray[np.float32] = thumbnail[rows][:, columns].astype(np.float32)
    return grid


def _spread(cells: BoolArray) -> BoolArray:
    padded = np.pad(cells, 1)
    spread: Any = np.logical_or.reduce([padded[a : a + CELLS, b : b + CELLS] for a in range(3) for b in range(3)])
    return np.asarray(spread, dtype=bool)
