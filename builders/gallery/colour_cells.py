"""The colours of an image in 8 x 8 cells, and what decides whether its details are kept: see `hash_checks`."""

import numpy as np
from numpy.typing import NDArray

CELLS = 8  # to a side
SAMPLES = 64  # px: the side of the image that colours are taken from
COLOUR_BYTES = 4 * CELLS**2
DETAIL_SIDE = 32  # px
# Blue and red less the luma of Rec. 601, in thousandths; then as Cb and Cr of the mean of four pixels.
_CHROMA = np.array([[-299, 701], [-587, -587], [886, -114]], np.float32)
_CHROMA_UNITS = np.array([0.564, 0.713]) / 4000
LEAST_FLATNESS, FLAT = 0.12, 0.25  # of images whose details are kept, and of those that are pages or screens


def compute_colours(samples: NDArray[np.uint8]) -> NDArray[np.int8]:
    """Returns the colours (n, 8, 8, 4) of RGB images (n, 64, 64, 3), upright."""
    count, side = len(samples), SAMPLES // 2
    pairs = samples.reshape(count, side, 2, side, 6)
    rows = pairs[:, :, 0].astype(np.int16)
    rows += pairs[:, :, 1]
    parts = (rows[..., :3] + rows[..., 3:]).astype(np.float32)  # of 2 x 2 pixels
    # Sums of integers below 2^24, which float32 holds, so that every machine finds the same.
    chroma = ((parts.reshape(-1, 3) @ _CHROMA) * _CHROMA_UNITS).astype(np.float32)
    cells = chroma.reshape(count, CELLS, 4, CELLS, 4, 2).transpose(0, 1, 3, 5, 2, 4).reshape(count, CELLS, CELLS, 2, 16)
    means = cells.mean(axis=-1)
    distances = np.square(cells - means[..., None])
    furthest = (distances[..., 0, :] + distances[..., 1, :]).argmax(axis=-1)
    extremes = np.take_along_axis(cells, furthest[..., None, None], axis=-1)[..., 0]
    colours: NDArray[np.int8] = np.rint(np.concatenate([means, extremes], axis=-1)).clip(-127, 127).astype(np.int8)
    return colours
