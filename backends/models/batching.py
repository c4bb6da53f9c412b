"""Encoding of images and texts in batches."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.array_types import Vectors

T = TypeVar("T")


def encode_in_batches(items: Iterable[T], size: int, encode: Callable[[list[T]], Vectors], dimensions: int) -> Vectors:
    """Returns the vectors of all items, (n, dimensions). `size` items are read and encoded at a time."""
    rest, parts = iter(items), [np.empty((0, dimensions), np.float32)]
    while part := list(islice(rest, size)):
        parts.append(encode(part))
    return np.concatenate(parts)


def to_rgb(image: Image.Image | NDArray[np.uint8]) -> Image.Image:
    """Returns a Pillow image in RGB; an array has the shape (height, width, 3)."""
    return image.convert("RGB") if isinstance(image, Image.Image) else Image.fromarray(image)
