"""64-bit perceptual hashes of images, as they are and rotated or mirrored.

The hash is `imagehash.phash`'s: DCT-II of the grey image resized to 32 x 32 with LANCZOS, the 8 x 8 lowest frequencies,
one bit for each that is above their median, row by row from the highest bit. (Zauner, "Implementation and Benchmarking
of Perceptual Image Hash Functions", 2010.) Resizing and DCT are both sums of pixels, so that two matrix products do
both. All computation is in integers: every machine finds the same bits, also of an image that is its own mirror image.

Rotating or mirroring an image moves and negates its DCT coefficients: mirrored left-right, the odd columns change sign,
upside down the odd rows, and transposed it is transposed. So the seven other transforms cost next to nothing.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
