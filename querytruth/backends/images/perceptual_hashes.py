"""Perceptual hashes of grey images: of the whole (64 bits), and of parts, which stay in edited copies.

All computation is in integers: every machine finds the same points and bits, also of an image that is its own mirror
image.

The hash of the whole is `imagehash.phash`'s: DCT-II of the grey image resized to 32 x 32 with LANCZOS, the 8 x 8 lowest
frequencies, one bit for each that is above their median, row by row from the highest bit. (Zauner, "Implementation and
Benchmarking of Perceptual Image Hash Functions", 2010.) Resizing and DCT are both sums of pixels, so that two matrix
products do both. Rotating or mirroring an image moves and negates its coefficients: mirrored left-right, the odd
columns change sign, upside down the odd rows, and transposed it is transposed. So the seven other transforms cost next
to nothing.

Parts stay when an image is cropped, framed or written on. They lie around the points that stand out most from their
surroundings (centre-surround extrema, as in Agrawal, Konolige, Blas, "CenSurE", 2008), each in three sizes: one of them
shows nearly the same in a crop, which is larger. A part is large, so that its 64 bits, those of `perceptual_hash`
without the brightness, say as much as those of a small image.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from querytruth.array_types import FloatArray, GreyImage, RowIndices

DctCoefficients = NDArray[np.float64]

MAX_GREY_SIDE = 320  # px: the maximum of both sides
_SIDE, _KEPT = 32, 8
FREQUENCY_COUNT = _KEPT * _KEPT
_LOBES = 3  # of LANCZOS
# The weights are multiples of these; weighted sums of bytes stay below 2^24, so that float32 is exact.
_UNITS = 2.0 ** -np.array([[15], [17], [17], [17], [17], [17], [17], [17]])
_COUNTED = (_UNITS * _UNITS.T).ravel()
_LEAST_STRUCTURE = 4 / (2 * _SIDE)  # four grey levels in the units of the orthonormal DCT
_OUTLINE = 2.0**10  # of a grey level: the squares of the coefficients in this unit add up below 2^53

_PLACES = np.arange(FREQUENCY_COUNT).reshape(_KEPT, _KEPT)
_ACROSS = np.broadcast_to(np.where(np.arange(_KEPT) % 2, -1.0, 1.0), (_KEPT, _KEPT))
_SIGNS = np.stack([_ACROSS**0, _ACROSS, _ACROSS.T, _ACROSS * _ACROSS.T]).reshape(4, -1)
_NONE, _ODD_COLUMNS, _ODD_ROWS, _BOTH = range(4)  # which coefficients are negated before they are moved
_TURNS = [
    (_PLACES, _NONE),
    (_PLACES.T, _ODD_COLUMNS),
    (_PLACES, _BOTH),
    (_PLACES.T, _ODD_ROWS),
    (_PLACES, _ODD_COLUMNS),
    (_PLACES.T, _NONE),
    (_PLACES, _ODD_ROWS),
    (_PLACES.T, _BOTH),
]
_FROM = np.stack([signs * FREQUENCY_COUNT + places.ravel() for places, signs in _TURNS])
GUIDE_SIDE = 96  # px: the longer side of the image that points are looked for in
PATCH_SIDES = (29, 32, 35)  # px; a tenth apart
THUMBNAIL_HEAD = 7  # bytes before the pixels
THUMBNAIL_FACTOR = 3  # a thumbnail's pixel is the mean of so many squared
_POINTS = 12  # at most
_APART = 3  # px: no two points are nearer than this in both directions
_REACH = 4  # px to each side that the surroundings of a point are
_MARGIN = PATCH_SIDES[-1] // 2 + 1
_BITS = 10  # of the cosines: sums of a patch's row stay below 2^24, where float32 is exact
_LEAST_PATCH_STRUCTURE = 0.5  # grey levels that two thirds of the 64 frequencies spread over

PATCH_TYPE = np.dtype([("row", "u1"), ("column", "u1"), ("hashes", "<u8", (len(PATCH_SIDES),))])
Patches = np.ndarray[Any, np.dtype[np.void]]
_Shorts = NDArray[np.int16]
ContentShares = tuple[float, float, float, float]


class PerceptualHash(NamedTuple):
    """The hash of an image; the hashes of it rotated 90, 180, 270 degrees counter-clockwise, mirrored left-right, and
    mirrored and rotated 90, 180, 270; and the strengths of the 64 frequencies: a signed byte each, scaled to a common
    norm of 127, 0 for the constant one, which is the brightness.

    All are None where an image has too little structure, as a plain area or a gradient: two thirds of its coefficients
    are within four grey levels (in the units of the orthonormal DCT, where a re-compressed copy differs by half a
    level).
    """

    phash: int | None = None
    turned: list[int] | None = None
    outline: bytes | None = None


def dct_coefficients(grey: NDArray[np.uint8], turn: int = 0) -> DctCoefficients:
    """Returns the 64 lowest frequencies (64,), row by row, of a grey image (height, width) of at most 320 x 320 after a
    transform (0 to 7, in the order of the hashes); integers, in the units of `compute_perceptual_hashes`. Of images of
    one size (images, height, width), with the same transform, those of each (images, 64)."""
    *images, height, width = grey.shape
    rows = _weights(height) @ grey.astype(np.float32)
    low: DctCoefficients = rows.astype(np.float64).reshape(-1, width) @ _weights_across(width)
    low = low.reshape(*images, FREQUENCY_COUNT)
    return (low[..., None, :] * _SIGNS).reshape(*images, -1).take(_FROM[turn], axis=-1) if turn else low


@lru_cache(maxsize=MAX_GREY_SIDE)
def _weights(side: int) -> NDArray[np.float32]:
    """Returns the weights (frequencies, pixels) of `side` pixels, symmetric from both ends."""
    scale = max(1.0, side / _SIDE)
    centers = (np.arange(_SIDE) + 0.5)[:, None] * (side / _SIDE)
    places = (np.arange(side) + 0.5 - centers) / scale
    lanczos = np.where(np.abs(places) < _LOBES, np.sinc(places) * np.sinc(places / _LOBES), 0)
    cosines = np.cos(np.pi / (2 * _SIDE) * np.outer(np.arange(_KEPT), 2 * np.arange(_SIDE) + 1))
    weights = cosines @ (lanczos / lanczos.sum(axis=1, keepdims=True)) / _SIDE
    from_the_end = weights[:, ::-1] * _ACROSS[0, :, None]
    rounded: NDArray[np.float32] = np.rint((weights + from_the_end) / (2 * _UNITS)).astype(np.float32)
    return rounded


@lru_cache(maxsize=MAX_GREY_SIDE)
def _weights_across(side: int) -> NDArray[np.float64]:
    """Returns the same weights for the second product (pixels, frequencies)."""
    return np.ascontiguousarray(_weights(side).T.astype(np.float64))


def compute_perceptual_hashes(low: DctCoefficients) -> list[PerceptualHash]:
    """Returns the hashes of images from their coefficients (images, 64); a batch takes a tenth of the time."""
    grey_levels = low * _COUNTED
    signed = grey_levels[:, None] * _SIGNS
    ordered = np.sort(signed, axis=2)
    above = signed > (ordered[:, :, 31:32] + ordered[:, :, 32:33]) / 2  # the median
    hashes = np.packbits(above.reshape(len(low), _SIGNS.size)[:, _FROM], axis=2).view(">u8")[:, :, 0].tolist()
    # The minimum over all transforms, so that transformed copies agree.
    has_structure_flags = (ordered[:, :, 53] - ordered[:, :, 10]).min(axis=1) >= _LEAST_STRUCTURE
    each = zip(has_structure_flags, hashes, _outlines(grey_levels), strict=True)
    return [
        PerceptualHash(own, turned, outline.tobytes()) if has_structure else PerceptualHash()
        for has_structure, (own, *turned), outline in each
    ]


def _outlines(grey_levels: DctCoefficients) -> NDArray[np.int8]:
    parts = np.rint(grey_levels * _OUTLINE)
    parts[:, 0] = 0
    lengths = np.sqrt(np.einsum("ij,ij->i", parts, parts))
    rounded: NDArray[np.int8] = np.rint(parts * (127 / np.maximum(lengths, 1.0))[:, None]).astype(np.int8)
    return rounded


def compute_patch_features(guides: list[GreyImage], boxes: list[ContentShares | None]) -> list[tuple[bytes, bytes]]:
    """Returns the patches and the thumbnail of guide images: grey images without their borders, the longer side
    GUIDE_SIDE px. `boxes`: which shares of the image lie inside the borders (left, top, right, bottom); None without
    borders.

    Patches are records of PATCH_TYPE: the point in the guide image and the hashes of the three sizes, 0 for one without
    structure. A thumbnail is whether borders were removed, height and width, a byte each; left, top, right and bottom
    of what is inside them, in 255ths of the image's sides; then the pixels of the guide image reduced by
    THUMBNAIL_FACTOR."""
    stacked = np.zeros((len(guides), GUIDE_SIDE, GUIDE_SIDE), np.uint8)
    for number, guide in enumerate(guides):
        stacked[number, : guide.shape[0], : guide.shape[1]] = guide
    owners, places = _find_points(stacked, np.array([guide.shape for guide in guides]).reshape(-1, 2))
    patches = np.zeros(len(places), PATCH_TYPE)
    patches["row"], patches["column"] = places.T
    patches["hashes"] = _hash_patches(stacked, owners, places)
    ends = np.searchsorted(owners, np.arange(len(guides) + 1)).tolist()
    thumbnails = zip(_reduce(stacked), guides, boxes, strict=True)
    return [
        (patches[first:last].tobytes(), _thumbnail(reduced, guide.shape, box))
        for (first, last), (reduced, guide, box) in zip(pairwise(ends), thumbnails, strict=True)
    ]


def _find_points(stacked: NDArray[np.uint8], shapes: RowIndices) -> tuple[RowIndices, RowIndices]:
    """Returns per point its image (n,), and row and column (n, 2): of each image those that stand out most, the
    strongest first, whose patches are inside it."""
    inner = slice(_MARGIN - _APART - _REACH, GUIDE_SIDE - _MARGIN + _APART + _REACH)
    contrast = _contrast(stacked[:, inner, inner])
    centre = contrast[:, _APART:-_APART, _APART:-_APART]
    is_peak = (centre == _window_maximum(_window_maximum(contrast, 1), 2)) & (centre > 0)
    owners, rows, columns = np.nonzero(is_peak)
    is_inside = (rows < shapes[owners, 0] - 2 * _MARGIN) & (columns < shapes[owners, 1] - 2 * _MARGIN)
    owners, rows, columns = owners[is_inside], rows[is_inside], columns[is_inside]
    order = np.lexsort((-centre[owners, rows, columns], owners))  # stable: then row by row
    owners = owners[order]
    rank = np.arange(len(owners)) - np.searchsorted(owners, owners)
    chosen = rank < _POINTS
    return owners[chosen], np.stack([rows, columns], axis=1)[order[chosen]] + _MARGIN


def _contrast(stacked: NDArray[np.uint8]) -> _Shorts:
    """Returns by how much each pixel's 3 x 3 neighbourhood differs from the surrounding 9 x 9, in 1/81 grey levels,
    without the outer _REACH pixels."""
    small = _sum_shifted(_sum_shifted(stacked.astype(np.int16), 1, 1), 1, 2)
    around = _sum_shifted(_sum_shifted(small, 3, 1), 3, 2)
    contrast: _Shorts = small[:, 3:-3, 3:-3] * np.int16(9)
    contrast -= around
    return np.abs(contrast, out=contrast)


def _sum_shifted(values: _Shorts, step: int, axis: int) -> _Shorts:
    """Returns the sums of three lines each, `step` apart."""
    count = values.shape[axis] - 2 * step
    first, second, third = (_lines(values, offset, count, axis) for offset in (0, step, 2 * step))
    summed: _Shorts = first + second
    summed += third
    return summed


def _window_maximum(values: _Shorts, axis: int) -> _Shorts:
    """Returns the maximum of each 2 * _APART + 1 lines: of 2, of 4 and of 7 lines, each from the one before."""
    for step in (1, 2, _APART):
        count = values.shape[axis] - step
        values = np.maximum(_lines(values, 0, count, axis), _lines(values, step, count, axis))
    return values


def _lines(values: _Shorts, start: int, count: int, axis: int) -> _Shorts:
    return values[:, start : start + count] if axis == 1 else values[:, :, start : start + count]


@lru_cache(maxsize=1)
def _cosines() -> NDArray[np.float32]:
    """Returns the 8 lowest frequencies of the DCT of each side of a patch, rounded (sides, 8, pixels): around the
    middle of the largest one, 0 outside."""
    largest = PATCH_SIDES[-1]
    cosines = np.zeros((len(PATCH_SIDES), 8, largest), np.float32)
    for own, side in zip(cosines, PATCH_SIDES, strict=True):
        angles = np.pi / (2 * side) * np.outer(np.arange(8), 2 * np.arange(side) + 1)
        first = largest // 2 - side // 2
        own[:, first : first + side] = np.rint(np.cos(angles) * (1 << _BITS))
    return cosines


def _hash_patches(stacked: NDArray[np.uint8], owners: RowIndices, places: RowIndices) -> NDArray[np.uint64]:
    """Returns the hashes (places, sides) of the patches around each place; 0 for one without structure."""
    count, cosines, largest = len(places), _cosines(), PATCH_SIDES[-1]
    corners = places - largest // 2
    pixels = sliding_window_view(stacked, (largest, largest), axis=(1, 2))[owners, corners[:, 0], corners[:, 1]]
    # One product for all sides. The frequencies come first, so that the next one needs no transposed copy.
    across = cosines.reshape(-1, largest) @ pixels.astype(np.float32).reshape(-1, largest).T
    hashes = np.empty((count, len(PATCH_SIDES)), np.uint64)
    for number, (side, own) in enumerate(zip(PATCH_SIDES, cosines, strict=True)):
        rows = across[8 * number : 8 * number + 8].astype(np.float64).reshape(-1, largest)
        low = (rows @ own.T.astype(np.float64)).reshape(8, count, 8).transpose(1, 0, 2).reshape(count, 64)
        hashes[:, number] = _pack_bits(low, side)
    return hashes


def _pack_bits(low: FloatArray, side: int) -> NDArray[np.uint64]:
    """Returns the hash of each patch from its frequencies (patches, 64), which are set to 0 for the brightness."""
    low[:, 0] = 0
    ordered = np.sort(low, axis=1)
    bits = np.packbits(low > ((ordered[:, 31] + ordered[:, 32]) / 2)[:, None], axis=1)
    has_structure = ordered[:, 53] - ordered[:, 10] >= _LEAST_PATCH_STRUCTURE * (side**2 << 2 * _BITS)
    return np.where(has_structure, bits.view(">u8")[:, 0], 0).astype(np.uint64)


def _reduce(stacked: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns the means of the blocks of images (n, side, side), rounded."""
    rows: NDArray[np.uint16] = stacked[:, ::THUMBNAIL_FACTOR].astype(np.uint16)
    for offset in range(1, THUMBNAIL_FACTOR):
        rows += stacked[:, offset::THUMBNAIL_FACTOR]
    sums: NDArray[np.uint16] = rows[:, :, ::THUMBNAIL_FACTOR].copy()
    for offset in range(1, THUMBNAIL_FACTOR):
        sums += rows[:, :, offset::THUMBNAIL_FACTOR]
    means: NDArray[np.uint8] = ((sums + THUMBNAIL_FACTOR**2 // 2) // THUMBNAIL_FACTOR**2).astype(np.uint8)
    return means


def _thumbnail(reduced: NDArray[np.uint8], shape: tuple[int, int], box: ContentShares | None) -> bytes:
    height, width = (side // THUMBNAIL_FACTOR for side in shape)
    pixels: bytes = reduced[:height, :width].tobytes()
    inside = [round(255 * share) for share in box or (0, 0, 1, 1)]
    return bytes([box is not None, height, width, *inside]) + pixels


def read_thumbnail(stored: bytes) -> FloatArray:
    """Returns the pixels (height, width) of a stored thumbnail."""
    return np.frombuffer(stored, np.uint8, offset=THUMBNAIL_HEAD).astype(np.float64).reshape(stored[1], stored[2])
