"""Perceptual hashes of an image with edges cut off, by which cropped copies of it are found."""

from itertools import product

import numpy as np

from backends.images.image_reading import ScannedImage, complete_image, decode_image, turn_upright
from builders.gallery.perceptual_hash import (
    FREQUENCY_COUNT,
    PerceptualHash,
    compute_perceptual_hashes,
    dct_coefficients,
)

# Shares cut off at the left, right, top and bottom: one or several edges by 5%, and all of them by half of that.
CROPS = [*list(product((0, 0.05), repeat=4))[1:], (0.025,) * 4]


def hash_crops(location: str) -> list[PerceptualHash]:
    """Returns the hashes of CROPS of an image that have enough structure; none of one that cannot be read."""
    file = decode_image(location)
    if isinstance(file, ScannedImage):
        return []
    decoded = complete_image(file)
    upright = turn_upright(decoded.grey, decoded.hash_turn)
    height, width = upright.shape
    low = [
        dct_coefficients(
            upright[round(top * height) : height - round(bottom * height)][
                :, round(left * width) : width - round(right * width)
            ]
        )
        for left, right, top, bottom in CROPS
    ]
    hashes = compute_perceptual_hashes(np.array(low).reshape(-1, FREQUENCY_COUNT))
    return [one for one in hashes if one.phash is not None]
