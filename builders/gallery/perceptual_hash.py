"""A picture's 64-bit perceptual hash, and the hashes that it would have turned or mirrored.

The hash is `imagehash.phash`'s: DCT-II of the grey picture resized to 32 x 32 with LANCZOS, the 8 x 8 lowest
frequencies, a bit for each that lies above their median, row by row from the highest bit. (Zauner, "Implementation and
Benchmarking of Perceptual Image Hash Functions", 2010.) Resizing and DCT are both sums of pixels, so that two products
do them at once. Whole numbers all the way: every machine finds the same bits, and no rounding error draws those of a
picture that is its own mirror image.

Turning a picture moves and negates its DCT's coefficients, no more: mirrored left-right, the odd columns change sign,
upside down the odd rows, and transposed it is transposed. So the seven other turns cost next to nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DctCoefficients = NDArray[np.float64]

MAX_GREY_SIDE = 320  # px: no side of a picture is longer
_SIDE, _KEPT = 32, 8
FREQUENCY_COUNT = _KEPT * _KEPT
_LOBES = 3  # of LANCZOS
# The weights are multiples of these: of a picture's bytes float32 holds all their sums, which are below 2^24.
_UNITS = 2.0 ** -np.array([[15], [17], [17], [17], [17], [17], [17], [17]])
_COUNTED = (_UNITS * _UNITS.T).ravel()
_LEAST_STRUCTURE = 4 / (2 * _SIDE)  # four grey levels in the units of the orthonormal DCT
_OUTLINE = 2.0**10  # of a grey level: the squares of what it leaves of the coefficients add up below 2^53

_PLACES = np.arange(FREQUENCY_COUNT).reshape(_KEPT, _KEPT)
_ACROSS = np.broadcast_to(np.where(np.arange(_KEPT) % 2, -1.0, 1.0), (_KEPT, _KEPT))
_SIGNS = np.stack([_ACROSS**0, _ACROSS, _ACROSS.T, _ACROSS * _ACROSS.T]).reshape(4, -1)
_NONE, _ODD_COLUMNS, _ODD_ROWS, _BOTH = range(4)  # which are negated, before anything is moved
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


class PerceptualHash(NamedTuple):
    """A picture's hash as it is; the hashes that it has rotated 90, 180, 270 degrees counter-clockwise, mirrored
    left-right, and mirrored and rotated 90, 180, 270; and how strong each of the 64 frequencies is: a signed byte each,
    in parts of 127 of their common length, nothing for the constant one, which is the brightness.

    None of it where a picture shows too little to be told by, a plain area or a gradient: two thirds of its
    coefficients lie within four grey levels (in the units of the orthonormal DCT, in which a re-compressed copy's
    differ by half a level).
    """

    phash: int | None = None
    turned: list[int] | None = None
    outline: bytes | None = None


def dct_coefficients(grey: NDArray[np.uint8], turn: int = 0) -> DctCoefficients:
    """The 64 lowest frequencies of a grey picture of at most 320 x 320, row by row, once it is turned (0 to 7, in the
    order of the hashes); whole numbers, for `compute_perceptual_hashes` alone."""
    height, width = grey.shape
    rows = _weights(height) @ grey.astype(np.float32)
    low: DctCoefficients = (rows.astype(np.float64) @ _weights(width).T).ravel()
    return (_SIGNS * low).take(_FROM[turn]) if turn else low


@lru_cache(maxsize=MAX_GREY_SIDE)
def _weights(side: int) -> NDArray[np.float32]:
    """What each of `side` pixels adds to each frequency (frequencies x pixels), the same from either end."""
    scale = max(1.0, side / _SIDE)
    centers = (np.arange(_SIDE) + 0.5)[:, None] * (side / _SIDE)
    places = (np.arange(side) + 0.5 - centers) / scale
    lanczos = np.where(np.abs(places) < _LOBES, np.sinc(places) * np.sinc(places / _LOBES), 0)
    cosines = np.cos(np.pi / (2 * _SIDE) * np.outer(np.arange(_KEPT), 2 * np.arange(_SIDE) + 1))
    weights = cosines @ (lanczos / lanczos.sum(axis=1, keepdims=True)) / _SIDE
    from_the_end = weights[:, ::-1] * _ACROSS[0, :, None]
    rounded: NDArray[np.float32] = np.rint((weights + from_the_end) / (2 * _UNITS)).astype(np.float32)
    return rounded


def compute_perceptual_hashes(low: DctCoefficients) -> list[PerceptualHash]:
    """Of pictures (pictures x 64 coefficients): of many at once in a tenth of the time."""
    grey_levels = low * _COUNTED
    signed = grey_levels[:, None] * _SIGNS
    ordered = np.sort(signed, axis=2)
    above = signed > (ordered[:, :, 31:32] + ordered[:, :, 32:33]) / 2  # the median
    hashes = np.packbits(above.reshape(len(low), _SIGNS.size)[:, _FROM], axis=2).view(">u8")[:, :, 0].tolist()
    # Of all turns, so that a turned picture agrees.
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
