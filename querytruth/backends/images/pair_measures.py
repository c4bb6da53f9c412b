"""Measures of the difference between two aligned thumbnails, many pairs at a time; all are 0 for equal images.

detail      1 - correlation of what is finer than a twelfth of the side.
shape       Share of this fine structure that lies in cells (8 x 8) which do not agree.
inner       The same without the two rows of cells at the top or at the bottom, where texts and bars are.
tone        Mean luma after gain and offset, and
plain       as it is, of the agreeing cell in which it differs most, in grey levels.
gain        Logarithm of the ratio of contrasts.
grey        `plain` where one of the two is grey: a grey copy has the luma of its original everywhere.
chroma      Colours after one factor and one shift, as a copy's may be: the 92nd percentile, in levels of Cb or Cr.
spot        The same, of the point that differs most.
colour      The same by cells, with luma after gain and offset, of the cell that differs most where the structure is the
            same, the opposite or weaker, as in a thing of another colour; but two rows at the top or at the bottom.
saturation  Logarithm of that factor over the gain, weighted by how strong the colours are and how much they vary.
overlap     By how much too little of the images is shown by both.
drift       By which share of a side each goes beyond the other at opposite ends, as frames of a moving camera do.
"""

import math

import numpy as np
from numpy.typing import NDArray

from querytruth.array_types import BoolArray, FloatArray
from querytruth.backends.images.image_alignment import Pixels, blur, grid_points, map_points, sample
from querytruth.backends.images.image_views import CHROMA_SIDE, THUMBNAIL_SIDE

MEASURES: tuple[str, ...] = ("detail", "shape", "inner", "tone", "plain", "gain", "grey")
MEASURES += ("chroma", "spot", "colour", "saturation", "overlap", "drift")
_CELLS = 8  # to a side
_FINE_SIGMA = 2  # px of the Gaussian that fine structure is left by
_SHADE = 2.0  # grey levels of a cell without structure
_AGREEING = 0.7, 0.25  # least correlation of the structure of two cells, and least ratio of their energies
_CLIPPED = 4.0  # grey levels from black and from white
_BAND = 2  # rows of cells
_CORRELATION = 0.945  # of details; copies of drawn cards, slides, scans and chats: 0.97, of drawn scenes: 0.95
_BLOCK_CORRELATION = 0.6  # in a block with structure
_STRUCTURE, _FAINT = 3.0, 1.2  # grey levels of a block's differences: what is structure, and what is none
_SHARE = 0.92  # of the points, of which the largest difference counts
_LIT, _TONED, _KEPT = 40.0, 7.0, 0.1  # luma of what is not black, levels of a toned colour, and the share without
_SHIFT = 12.0  # levels by which the colours of a copy may be shifted
_SHOWN = 0.9, 0.6  # least share of the one and of the other image that both show

Mosaics = NDArray[np.uint8]  # (n, 80, 64), as thumbnails are stored
_FINE, _CHROMA = grid_points(THUMBNAIL_SIDE), grid_points(CHROMA_SIDE)


def split_mosaics(mosaics: Mosaics) -> tuple[Pixels, Pixels]:
    """Return luma (n, 64, 64), and Cb and Cr (n, 2, 16, 16) less 128."""
    below = mosaics[:, THUMBNAIL_SIDE:, : 2 * CHROMA_SIDE].astype(np.float32) - 128
    chroma = below.reshape(-1, CHROMA_SIDE, 2, CHROMA_SIDE).transpose(0, 2, 1, 3)
    return mosaics[:, :THUMBNAIL_SIDE].astype(np.float32), chroma


def measure_pairs(
    ones: Mosaics, others: Mosaics, muteness: NDArray[np.uint8], matrix: FloatArray, is_drawing: BoolArray
) -> FloatArray:
    """Return MEASURES and the smaller share that both show (n, M + 1). The arguments are thumbnails (n, 80, 64),
    whether their colours are missing (n, 2; see `Views`), the maps from the first to the second (n, 3, 3), and which
    pairs are drawings."""
    (one, colours), (other, other_colours) = split_mosaics(ones), split_mosaics(others)
    place, valid = map_points(_FINE, matrix)
    aligned = sample(other, place).reshape(one.shape)
    structure, agrees, follows = _compare_structure(one, aligned, valid)
    luma, tones = _compare_luma(one, aligned, valid, agrees)
    at, shown = map_points(_CHROMA, matrix)
    warped = np.stack([sample(np.ascontiguousarray(other_colours[:, i]), at) for i in (0, 1)], axis=1)
    first = colours.reshape(len(colours), 2, -1)
    where = _where(agrees, shown), _where(_shrink(agrees), shown), shown & _spread(follows, shown.shape[1])
    # Toning changes all colours but black, another colour of a thing only those of that thing.
    side = THUMBNAIL_SIDE // CHROMA_SIDE
    is_lit = shown & (_sum_cells(one, CHROMA_SIDE).reshape(shown.shape) > _LIT * side**2)
    kept = is_lit & (((first - warped) ** 2).sum(axis=1) < _TONED**2)
    is_toned = kept.sum(axis=1) <= _KEPT * is_lit.sum(axis=1)
    muteness = np.where((muteness == 2) & (is_drawing & ~is_toned)[:, None], 0, muteness)
    chroma = _compare_colours(first, warped, where, luma, tones * follows, muteness)
    share = valid.mean(axis=1)
    shares = share, share * np.abs(np.linalg.det(matrix[:, :2, :2]))
    overlap = np.maximum(0, _SHOWN[0] - np.maximum(*shares)) + np.maximum(0, _SHOWN[1] - np.minimum(*shares))
    columns = [*structure, *luma[:2], np.abs(luma[2]), *chroma, overlap, _drift(matrix), np.minimum(*shares)]
    measures: FloatArray = np.nan_to_num(np.round(np.stack(columns, axis=1).astype(np.float64), 4), nan=99.0)
    return measures


def _drift(matrix: FloatArray) -> FloatArray:
    """Return the drift (n,) of maps (n, 3, 3), along the middle of the images."""
    middle, reach = matrix[:, :2].sum(axis=2) - matrix[:, :2, :2].sum(axis=2) / 2, matrix[:, [0, 1], [0, 1]] / 2
    before, after = middle - reach, middle + reach - 1
    drift: FloatArray = np.maximum(np.minimum(before, after), np.minimum(-before, -after)).max(axis=1).clip(0)
    return drift


def _compare_structure(one: Pixels, other: Pixels, valid: BoolArray) -> tuple[list[Pixels], BoolArray, BoolArray]:
    """Return detail, shape and inner, and the cells (n, 8, 8) that agree, and those that also do after a change
    of colours: their structure is the same, or the opposite, and however strong."""
    shown = valid.reshape(one.shape)
    mass = np.maximum(blur(shown.astype(np.float32), _FINE_SIGMA), 1e-3)
    # Less the mean of the surroundings that both show.
    fine, other_fine = (np.where(shown, some - blur(some * shown, _FINE_SIGMA) / mass, 0) for some in (one, other))
    energy, other_energy, product = _sum_cells(fine**2), _sum_cells(other_fine**2), _sum_cells(fine * other_fine)
    totals = [values.sum(axis=(1, 2)) for values in (energy, other_energy, product)]
    detail = 1 - totals[2] / np.sqrt(np.maximum(totals[0] * totals[1], 1e-6))
    factor = np.sqrt(np.maximum(totals[0], 1) / np.maximum(totals[1], 1))[:, None, None]
    counts = _sum_cells(shown.astype(np.float32))
    is_seen = counts >= 0.5 * (THUMBNAIL_SIDE // _CELLS) ** 2
    scaled = other_energy * factor**2
    most, least = np.maximum(energy, scaled) * is_seen, np.minimum(energy, scaled)
    agrees = (product >= _AGREEING[0] * np.sqrt(energy * other_energy)) & (least >= _AGREEING[1] * most)
    agrees |= most <= _SHADE**2 * counts
    follows = (np.abs(product) >= _AGREEING[0] * np.sqrt(energy * other_energy)) | agrees
    rows = (most * ~agrees).sum(axis=2)
    bands = np.maximum(rows[:, :_BAND].sum(axis=1), rows[:, -_BAND:].sum(axis=1))
    total = np.maximum(most.sum(axis=(1, 2)), 1)
    return [detail, rows.sum(axis=1) / total, (rows.sum(axis=1) - bands) / total], agrees & is_seen, follows & is_seen


def _sum_cells(images: Pixels, cells: int = _CELLS) -> Pixels:
    side = images.shape[1] // cells
    rows = np.add.reduce(images.reshape(len(images), cells, side, -1), axis=2)
    sums: Pixels = np.add.reduce(rows.reshape(len(images), cells, cells, side), axis=3)
    return sums


def _where(cells: BoolArray, valid: BoolArray) -> BoolArray:
    """Return the valid points (n, p) in these cells (n, 8, 8), or all valid points if there are no such cells."""
    inside = valid & _spread(cells, valid.shape[1])
    return np.where(inside.any(axis=1, keepdims=True), inside, valid)


def _spread(cells: BoolArray, points: int) -> BoolArray:
    """Return whether each point (n, p) is in one of these cells (n, 8, 8)."""
    times = math.isqrt(points) // _CELLS
    spread: BoolArray = cells.repeat(times, axis=1).repeat(times, axis=2).reshape(len(cells), points)
    return spread


def _shrink(cells: BoolArray) -> BoolArray:
    """Return the cells (n, 8, 8) whose neighbours are all present."""
    padded = np.pad(cells, ((0, 0), (1, 1), (1, 1)), constant_values=True)
    rows = padded[:, :-2] & padded[:, 1:-1] & padded[:, 2:]
    inner: BoolArray = rows[:, :, :-2] & rows[:, :, 1:-1] & rows[:, :, 2:]
    return inner


def _compare_luma(one: Pixels, other: Pixels, valid: BoolArray, agrees: BoolArray) -> tuple[list[Pixels], Pixels]:
    """Return tone, plain and the logarithm of the gain, and tone by cell (n, 8, 8), for luma (n, 64, 64), valid points
    (n, p) and agreeing cells (n, 8, 8)."""
    first, second, where = one.reshape(valid.shape), other.reshape(valid.shape), _where(agrees, valid)
    clear = where & (np.minimum(first, second) > _CLIPPED) & (np.maximum(first, second) < 255 - _CLIPPED)
    clear = np.where(clear.any(axis=1, keepdims=True), clear, where)
    means = [_mean(values, clear) for values in (first, second)]
    own, others = first - means[0], second - means[1]
    squares = [np.maximum(_mean(values**2, clear), 1) for values in (own, others)]
    gain = np.sqrt(squares[0] / squares[1])
    # What became black or white has lost its gain: either image may be made of the other.
    rests = (
        first - (means[0] + gain * others).clip(0, 255),
        second - (means[1] + own / gain).clip(0, 255),
        first - second,
    )
    counts = np.maximum(_sum_cells(valid.reshape(one.shape).astype(np.float32)), 1)
    cells = [np.abs(_sum_cells((rest * valid).reshape(one.shape))) / counts for rest in rests]
    tone, inner = np.minimum(cells[0], cells[1]), _shrink(agrees)
    inner = np.where(inner.any(axis=(1, 2), keepdims=True), inner, agrees)
    largest = [(values * inner).max(axis=(1, 2)) for values in (tone, cells[2])]
    return [*largest, np.log(gain[:, 0])], tone


def _mean(values: Pixels, where: BoolArray) -> Pixels:
    """Return the means over the last axis at some places, (…, 1)."""
    counts = np.maximum(where.sum(axis=-1, keepdims=True), 1)
    means: Pixels = ((values * where).sum(axis=-1, keepdims=True) / counts).astype(np.float32)
    return means


def _largest(values: Pixels, where: BoolArray) -> Pixels:
    """Return the quantile (n,) of values (n, p) at some places, or a large number if there are no places."""
    counts, width = where.sum(axis=1), values.shape[1]
    ordered = np.sort(np.where(where, values, -1), axis=1)
    at = width - counts + (_SHARE * np.maximum(counts - 1, 0)).astype(np.intp)
    return np.where(counts > 0, ordered[np.arange(len(values)), np.minimum(at, width - 1)], 99)


def _compare_colours(
    one: Pixels,
    other: Pixels,
    where: tuple[BoolArray, BoolArray, BoolArray],
    luma: list[Pixels],
    tones: Pixels,
    muteness: NDArray[np.uint8],
) -> list[Pixels]:
    """Return grey, chroma, spot, colour and saturation of Cb and Cr (n, 2, p) at some places, for spot and for colour
    at others, those of `tones` (n, 8, 8). A grey image contradicts no colour; a sepia image contradicts no image with
    more than one hue."""
    inside = where[0][:, None]
    means = [_mean(values, inside) for values in (one, other)]
    first, second = one - means[0], other - means[1]
    is_weaker = ((first**2).sum(axis=(1, 2)) <= (second**2).sum(axis=(1, 2)))[:, None, None]
    strong, weak = np.where(is_weaker, second, first), np.where(is_weaker, first, second)
    products = [_mean(values, inside).sum(axis=1)[:, 0] for values in (strong * weak, strong**2)]
    factor = (products[0] / np.maximum(products[1], 1)).clip(0, 1.1)
    apart = weak - factor[:, None, None] * strong
    rest = np.abs(apart).max(axis=1)
    shown = where[2].reshape(-1, CHROMA_SIDE, CHROMA_SIDE)
    counts = np.maximum(_sum_cells(shown.astype(np.float32)), 1)
    sums = [_sum_cells(apart[:, i].reshape(shown.shape) * shown) / counts for i in (0, 1)]
    is_excused = np.ptp(muteness, axis=1) >= 2
    local = (~is_excused[:, None, None] * (sums[0] ** 2 + sums[1] ** 2) + tones**2).max(axis=2)
    colour = np.sqrt(np.minimum(local[:, _BAND:].max(axis=1), local[:, :-_BAND].max(axis=1)))
    shift = np.maximum(np.abs(means[0] - means[1]).max(axis=(1, 2)) - _SHIFT, 0)
    chroma, spot = _largest(rest, where[0]) + shift, (rest * where[1]).max(axis=1)
    strength, variation = (
        np.sqrt(np.maximum(*(_mean(values**2, inside).sum(axis=1)[:, 0] for values in both)))
        for both in ((one, other), (first, second))
    )
    _, plain, gain = luma
    ratio = np.log(np.maximum(factor, 0.05)) * np.where(is_weaker[:, 0, 0], 1, -1) - gain
    saturation = np.minimum(np.abs(ratio), 2) * np.minimum(np.sqrt(strength * variation), 10) / 10
    chroma, spot, saturation = (np.where(is_excused, 0, values) for values in (chroma, spot, saturation))
    return [np.where(is_excused & (muteness.max(axis=1) == 4), plain, 0), chroma, spot, colour, saturation]


def have_same_details(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> BoolArray:
    """Return whether the small print of grey images (n, 32, 32) is the same. Differences from left to right show
    letters and gaps, but not lines of text; they must correlate over the whole image and in each block of 4 x 4 pixels
    where one image has any."""
    steps = [np.diff(images.astype(np.float64), axis=2, prepend=images[:, :, :1]) for images in (one, other)]
    whole = _correlate(*(some.reshape(len(one), -1) for some in steps))
    blocks = [some.reshape(len(one), 8, 4, 8, 4).transpose(0, 1, 3, 2, 4).reshape(len(one), 64, 16) for some in steps]
    blocks = [block - block.mean(axis=2, keepdims=True) for block in blocks]
    energies = [(block**2).mean(axis=2) for block in blocks]
    differs = (_correlate(*blocks) < _BLOCK_CORRELATION) | (np.minimum(*energies) < _FAINT**2)
    differs &= np.maximum(*energies) >= _STRUCTURE**2
    same: BoolArray = (whole >= _CORRELATION) & ~differs.any(axis=1)
    return same


def _correlate(one: FloatArray, other: FloatArray) -> FloatArray:
    norms = np.sqrt((one**2).sum(axis=-1) * (other**2).sum(axis=-1))
    correlation: FloatArray = np.round((one * other).sum(axis=-1) / np.maximum(norms, 1e-9), 6)
    return correlation


def turn_mosaics(mosaics: Mosaics, turn: int) -> Mosaics:
    """Return thumbnails after a turn: 1 to 3 quarter turns counter-clockwise, from 4 on after mirroring left-right."""
    turned = mosaics.copy()
    for top, left, side in ((0, 0, 64), (64, 0, 16), (64, 16, 16)):
        place = slice(None), slice(top, top + side), slice(left, left + side)
        turned[place] = turn_images(mosaics[place], turn)
    return turned


def turn_images(images: NDArray[np.uint8], turn: int) -> NDArray[np.uint8]:
    """Return images (n, side, side) after such a turn."""
    return np.rot90(images[:, :, ::-1] if turn >= 4 else images, turn % 4, axes=(1, 2))
