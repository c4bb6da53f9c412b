"""Perceptual hashes of grey images, 64 bits.

The hash is `imagehash.phash`'s: DCT-II of the grey image resized to 32 x 32 with LANCZOS, the 8 x 8 lowest frequencies,
one bit for each that is above their median, row by row from the highest bit. (Zauner, "Implementation and Benchmarking
of Perceptual Image Hash Functions", 2010.) Resizing and DCT are both sums of pixels, so that two matrix products do
both, in integers: every machine finds the same bits.
"""

from functools import lru_cache

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


def dct_coefficients(grey: NDArray[np.uint8]) -> DctCoefficients:
    """Returns the 64 lowest frequencies (64,), row by row, of a grey image (height, width) of at most 320 x 320;
    integers, in the units of `compute_perceptual_hashes`. Of images of one size (images, height, width), those of each
    (images, 64)."""
    *images, height, width = grey.shape
    rows = _weights(height) @ grey.astype(np.float32)
    low: DctCoefficients = rows.astype(np.float64).reshape(-1, width) @ _weights_across(width)
    return low.reshape(*images, FREQUENCY_COUNT)


@lru_cache(maxsize=MAX_GREY_SIDE)
def _weights(side: int) -> NDArray[np.float32]:
    """Returns the weights (frequencies, pixels) of `side` pixels, symmetric from both ends."""
    scale = max(1.0, side / _SIDE)
    centers = (np.arange(_SIDE) + 0.5)[:, None] * (side / _SIDE)
    places = (np.arange(side) + 0.5 - centers) / scale
    lanczos = np.where(np.abs(places) < _LOBES, np.sinc(places) * np.sinc(places / _LOBES), 0)
    cosines = np.cos(np.pi / (2 * _SIDE) * np.outer(np.arange(_KEPT), 2 * np.arange(_SIDE) + 1))
    weights = cosines @ (lanczos / lanczos.sum(axis=1, keepdims=True)) / _SIDE
    from_the_end = weights[:, ::-1] * np.where(np.arange(_KEPT) % 2, -1.0, 1.0)[:, None]
    rounded: NDArray[np.float32] = np.rint((weights + from_the_end) / (2 * _UNITS)).astype(np.float32)
    return rounded


@lru_cache(maxsize=MAX_GREY_SIDE)
def _weights_across(side: int) -> NDArray[np.float64]:
    """Returns the same weights for the second product (pixels, frequencies)."""
    return np.ascontiguousarray(_weights(side).T.astype(np.float64))


def compute_perceptual_hashes(low: DctCoefficients) -> list[int | None]:
    """Returns the hashes of images from their coefficients (images, 64); a batch takes a tenth of the time. None where
    an image has too little structure, as a plain area or a gradient: two thirds of its coefficients are within four
    grey levels (in the units of the orthonormal DCT, where a re-compressed copy differs by half a level)."""
    grey_levels = low * _COUNTED
    ordered = np.sort(grey_levels, axis=1)
    above = grey_levels > (ordered[:, 31:32] + ordered[:, 32:33]) / 2  # the median
    hashes = np.packbits(above, axis=1).view(">u8")[:, 0].tolist()
    has_structure = (ordered[:, 53] - ordered[:, 10] >= _LEAST_STRUCTURE).tolist()
    return [own if known else None for own, known in zip(hashes, has_structure, strict=True)]
