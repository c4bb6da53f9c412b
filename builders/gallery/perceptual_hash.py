"""A picture's 64-bit perceptual hash, and the hashes that it would have turned or mirrored.

The hash is `imagehash.phash`'s: DCT-II of the 32 x 32 grey picture, the 8 x 8 lowest frequencies, a bit for each
that lies above their median, row by row from the highest bit. (Zauner, "Implementation and Benchmarking of
Perceptual Image Hash Functions", 2010.) Whole numbers all the way: every machine finds the same bits, and no rounding
error draws those of a picture that is its own mirror image.

Turning a picture moves and negates its DCT's coefficients, no more: mirrored left-right, the odd columns change sign,
upside down the odd rows, and transposed it is transposed. So the seven other turns cost next to nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Coefficients = np.ndarray[Any, np.dtype[np.int64]]

SIDE = 32
_KEPT = 8
_UNIT = 1 << 20  # of the cosines: what a picture's bytes sum up to stays below 2^59
_BASIS = np.rint(
    _UNIT * np.cos(np.pi / (2 * SIDE) * np.arange(_KEPT)[:, None] * (2 * np.arange(SIDE) + 1)[None, :])
).astype(np.int64)

_LEAST_STRUCTURE = 4 * (SIDE // 2) * _UNIT**2  # four grey levels in the units of the orthonormal DCT

_PLACES = np.arange(_KEPT * _KEPT).reshape(_KEPT, _KEPT)
_ACROSS = np.broadcast_to(np.where(np.arange(_KEPT) % 2, -1, 1), (_KEPT, _KEPT))
_DOWN = _ACROSS.T
_BOTH = _ACROSS * _DOWN
_TURNS = [  # where a turned picture's coefficients come from, and with which sign
    (_PLACES, _BOTH * _BOTH),
    (_PLACES.T, _DOWN),
    (_PLACES, _BOTH),
    (_PLACES.T, _ACROSS),
    (_PLACES, _ACROSS),
    (_PLACES.T, _BOTH * _BOTH),
    (_PLACES, _DOWN),
    (_PLACES.T, _BOTH),
]
_FROM = np.stack([places.ravel() for places, _ in _TURNS])
_SIGN = np.stack([signs.ravel() for _, signs in _TURNS])


def coefficients(grey: np.ndarray[Any, np.dtype[np.uint8]]) -> Coefficients:
    """The 64 lowest frequencies of a 32 x 32 grey picture, row by row: all that the rest is made of."""
    low: Coefficients = (_BASIS @ grey @ _BASIS.T).ravel()
    return low


def perceptual_hashes(low: Coefficients) -> list[int] | None:
    """The hashes of a picture's eight turns: as it is; rotated 90, 180, 270 degrees counter-clockwise; mirrored
    left-right; the mirrored one rotated 90, 180, 270.

    None where it shows too little to be told by, a plain area or a gradient: two thirds of its coefficients lie within
    four grey levels (in the units of the orthonormal DCT, in which a re-compressed copy's differ by half a level).
    """
    turns = low[_FROM] * _SIGN
    ordered = np.sort(turns, axis=1)
    if (ordered[:, 53] - ordered[:, 10]).min() < _LEAST_STRUCTURE:  # of all turns, so that a turned picture agrees
        return None
    above = 2 * turns > ordered[:, 31:32] + ordered[:, 32:33]  # twice the median
    return [hashed for (hashed,) in np.packbits(above, axis=1).view(">u8").tolist()]


def outline(low: Coefficients) -> bytes:
    """How strong each of the frequencies is: a signed byte each, in parts of 127 of their common length; the constant
    one, which is the brightness, is nothing."""
    parts = low >> 32  # squares of what is left add up below 2^63
    parts[0] = 0
    length = math.sqrt(int(parts @ parts))
    rounded: bytes = np.rint(parts * (127 / max(length, 1.0))).astype(np.int8).tobytes()
    return rounded
