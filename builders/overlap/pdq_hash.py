"""256-bit PDQ hashes of grey images.

The image is averaged twice along both sides by windows of 1/128 of the side, sampled at 64 x 64 points, and transformed
by the DCT. The hash has one bit for each of the frequencies 1 to 16 x 1 to 16 that is above their median. All of this
but the median is linear, so that two matrix products do it. (Meta, "The TMK+PDQF video-hashing algorithm and the PDQ
image-hashing algorithm", 2019.)

All computation is in integers that doubles hold exactly: every machine finds the same bits.
"""

from functools import lru_cache

import numpy as np

from builders.array_types import FloatArray, GreyImage, RowIndices

PDQ_BITS = 256
PDQ_DISTANCE = 31  # bits: the authors' limit for the same image
LEAST_QUALITY = 50  # the authors' limit below which a hash is not to be used
_SIDE, _KEPT = 64, 16
_LEAST_SIDE = 5  # px
_UNIT = 2.0**20  # the weights are multiples of 1 / _UNIT
_GREY_UNIT = 2.0**14  # and the sampled grey levels and frequencies of 1 / _GREY_UNIT
_FREQUENCIES = np.arange(1, _KEPT + 1)
_COSINES = np.rint(
    np.sqrt(2 / _SIDE) * np.cos(np.pi / (2 * _SIDE) * np.outer(_FREQUENCIES, 2 * np.arange(_SIDE) + 1)) * _UNIT
)


def compute_pdq(grey: GreyImage) -> bytes | None:
    """Returns the hash of an upright grey image (height, width), the highest bit first; None where PDQ's quality (0 to
    100, the strength of the gradients) is below LEAST_QUALITY. The longer side should have 512 to 1024 pixels, if the
    image has as many: PDQ reduces larger ones first."""
    if min(grey.shape) < _LEAST_SIDE:
        return None
    sampled = _sample(grey)
    if _quality(sampled / _GREY_UNIT) < LEAST_QUALITY:
        return None
    rows = np.rint(_COSINES @ sampled / _UNIT)
    frequencies = np.rint(rows @ _COSINES.T / _UNIT).ravel()
    median = np.sort(frequencies)[PDQ_BITS // 2 - 1]
    return np.packbits((frequencies > median)[::-1]).tobytes()


def _sample(grey: GreyImage) -> FloatArray:
    """Returns 64 x 64 grey levels in units of 1 / _GREY_UNIT."""
    height, width = grey.shape
    sampled: FloatArray = np.rint(_weights(height) @ grey @ _weights(width).T * (_GREY_UNIT / _UNIT**2))
    return sampled


@lru_cache(maxsize=512)
def _weights(side: int) -> FloatArray:
    """Returns the weights (64, side) of the pixels in each sampled one."""
    window = -(-side // (2 * _SIDE))
    after = (window + 2) // 2
    places = np.arange(side)
    offsets = places - places[:, None]
    averaged = ((offsets >= after - window) & (offsets < after)).astype(np.float64)
    averaged /= averaged.sum(axis=1, keepdims=True)
    sampled: RowIndices = ((2 * np.arange(_SIDE) + 1) * side) // (2 * _SIDE)
    weights: FloatArray = np.rint((averaged @ averaged)[sampled] * _UNIT)
    return weights


def _quality(sampled: FloatArray) -> int:
    """Returns the sum of the gradients in whole percents of the range of grey levels, scaled to 0 to 100."""
    gradients = (np.abs(np.diff(sampled, axis=axis)) * 100 // 255 for axis in (0, 1))
    return min(100, int(sum(part.sum() for part in gradients)) // 90)
