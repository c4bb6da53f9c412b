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
    count, part = len(samples), SAMPLES // CELLS // 4
    parts = samples.reshape(count, CELLS, 4, part, CELLS, 4, part, 3).sum(axis=(3, 6), dtype=np.int32)
    parts = parts.transpose(0, 1, 3, 2, 4, 5).reshape(count, CELLS, CELLS, 16, 3)
    red, green, blue = (parts[..., channel] for channel in range(3))
    luma = 299 * red + 587 * green + 114 * blue  # integers, so that every machine finds the same
    scale = 1000 * part**2
    chroma = np.stack([(1000 * blue - luma) * 0.564, (1000 * red - luma) * 0.713], axis=-1) / scale
    means = chroma.mean(axis=3)
    furthest = ((chroma - means[:, :, :, None]) ** 2).sum(axis=-1).argmax(axis=3)
    extremes = np.take_along_axis(chroma, furthest[..., None, None], axis=3)[:, :, :, 0]
    colours: NDArray[np.int8] = np.rint(np.concatenate([means, extremes], axis=-1)).clip(-127, 127).astype(np.int8)
    return colours
