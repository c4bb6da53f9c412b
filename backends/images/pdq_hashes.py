"""PDQ hashes of image files."""

from typing import NamedTuple

from backends.images.image_reading import ScannedImage, complete_image, decode_image, turn_upright
from builders.overlap.pdq_hash import compute_pdq

_LONGER = 1024  # px: the longer side that is hashed has at most this, and 512 where the file has as many


class PdqHash(NamedTuple):
    """The hash of an image and of it mirrored left-right, 32 bytes each; None where it has too little structure."""

    pdq: bytes | None = None
    pdq_mirrored: bytes | None = None


def hash_pdq(location: str) -> PdqHash:
    """Returns the hashes of an image; none of one that cannot be read."""
    file = decode_image(location, _LONGER)
    if isinstance(file, ScannedImage):
        return PdqHash()
    decoded = complete_image(file)
    grey = turn_upright(decoded.grey, decoded.hash_turn)
    return PdqHash(compute_pdq(grey), compute_pdq(grey[:, ::-1]))
