"""The device on which a torch model runs, and the encoding of images and texts in batches on it."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from querytruth.array_types import Vectors
from querytruth.backends.environment import library_of
from querytruth.backends.plugins import missing_library_error
from querytruth.errors import UserError, first_line

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


def choose_device(device: str | None, stage: str, next_step: str = "give the device cpu") -> Any:
    """Returns the torch device of that name; for None a GPU if there is one. Raises UserError where it cannot be
    used, or torch is not installed."""
    try:
        import torch
    except ImportError as error:
        raise missing_library_error(stage, "a local model", error) from None

    name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
        reason = f"cannot be used ({first_line(error)}; {library_of(error, torch)})"
        raise UserError(stage, name, reason, next_step) from None
    return torch.device(name)
