"""The colours of an image in 8 x 8 cells, and what decides whether its details are kept: see `hash_checks`."""

import numpy as np
from numpy.typing import NDArray

CELLS = 8  # to a side
SAMPLES = 64  # px: the side of the image that colours are taken from
COLOUR_BYTES = 4 * CELLS**2
DETAIL_SIDE = 32  # px
LEAST_FLATNESS, FLAT = 0.12, 0.25  # of images whose details are kept, and of those that are pages or screens


def compute_colours(samples: NDArray[np.uint8]) -> NDArray[np.int8]:
    """Returns the colours (n, 8, 8, 4) of RGB images (n, 64, 64, 3), upright."""
    count, side = len(samples), SAMPLES // 2
    parts = np.zeros((count, side, side, 3), np.int32)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        parts += samples[:, down::2, right::2]
    luma = parts @ np.array([299, 587, 114], np.int32)  # integers, so that every machine finds the same
    chroma = np.empty((count, side, side, 2), np.float32)
    chroma[..., 0] = (1000 * parts[..., 2] - luma) * (0.564 / 4000)
    chroma[..., 1] = (1000 * parts[..., 0] - luma) * (0.713 / 4000)
    chroma = (
        chroma.reshape(count, CELLS, 4, CELLS, 4, 2).transpose(0, 1, 3, 2, 4, 5).reshape(count, CELLS, CELLS, 16, 2)
    )
    means = chroma.mean(axis=3)
    furthest = ((chroma - means[:, :, :, None]) ** 2).sum(axis=-1).argmax(axis=3)
    extremes = np.take_along_axis(chroma, furthest[..., None, None], axis=3)[:, :, :, 0]
    colours: NDArray[np.int8] = np.rint(np.concatenate([means, extremes], axis=-1)).clip(-127, 127).astype(np.int8)
    return colours
