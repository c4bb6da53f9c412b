"""Conversion of any image to opaque 8-bit sRGB, which models and screens assume."""

import io
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

from backends.images.transparency import choose_ground, flatten

_PLAIN = ("L", "RGB", "CMYK")
_MAX_PROFILE = 4 << 20  # bytes; profiles of printing presses take up to 3 MB
_NO_DIFFERENCE = 2  # levels of 255 by which sRGB profiles differ from each other
_BAND = 1 << 20  # pixels converted at a time, to bound the memory for floats
_LEVELS = (1.0, 255.0, 65535.0, 4294967295.0)  # the usual values of white in floats and 32-bit integers
_BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339  # TIFF's tags
_MIN_IS_WHITE = 0


def flatten_to_8_bits(image: Image.Image) -> Image.Image:
    """Returns the loaded image in mode L, RGB or CMYK, 8 bits per channel, transparent parts on the ground of
    `choose_ground`. It must precede resizing: otherwise colours of transparent pixels mix with their neighbours'."""
    mode = image.mode
    if mode[0] in "IF":
        return _eight_bits(image)
    if image.has_transparency_data:
        return flatten(image, choose_ground(image))
    if mode in _PLAIN:
        return image
    return image.convert("L" if mode == "1" else "RGB")


def convert_to_srgb(image: Image.Image, profile: Any) -> Image.Image:
    """Converts an image (L, RGB or CMYK) to RGB by its ICC profile. A broken or unfitting profile is ignored."""
    if isinstance(profile, bytes) and len(profile) <= _MAX_PROFILE:
        transform = _transform(profile, image.mode)
        if transform:
            image = ImageCms.applyTransform(image, transform) or image
    return image if image.mode == "RGB" else image.convert("RGB")


@lru_cache(maxsize=8)  # an album comes from a few cameras
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Returns the transform to sRGB; None where it changes nothing visible or cannot be built."""
    try:
        transform = ImageCms.buildTransform(io.BytesIO(profile), ImageCms.createProfile("sRGB"), mode, "RGB")
        return None if mode == "RGB" and _is_identity(transform) else transform
    except (ImageCms.PyCMSError, OSError, TypeError, ValueError):
        return None


def _is_identity(transform: ImageCms.ImageCmsTransform) -> bool:
    """Whether the transform changes no colour of a sample; names of profiles are unreliable."""
    steps = np.arange(0, 256, 15, dtype=np.uint8)
    cube = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
    transformed = np.asarray(ImageCms.applyTransform(Image.fromarray(cube), transform), dtype=np.int16)
    return int(np.abs(transformed - cube).max()) <= _NO_DIFFERENCE


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scales the values to 0..255, where Pillow's own conversion would clip them. NaN becomes black."""
    low, high = _span(image)
    clear = image.info.get("transparency")  # the transparent value of a PNG
    out = np.empty((image.height, image.width), np.uint8)
    for top, band in _bands(image):
        values = (np.nan_to_num(band.astype(np.float64), nan=low, posinf=high, neginf=low) - low) * (255 / (high - low))
        done = out[top : top + len(band)]
        done[:] = np.clip(np.rint(values), 0, 255)
        if isinstance(clear, int):
            done[band == clear] = 255
    return Image.fromarray(out)


def _span(image: Image.Image) -> tuple[float, float]:
    """Returns the values of black and white: the full range for 16 bits; else the smallest usual range that holds the
    image's values, or their own range."""
    tags = _tags(image)
    if image.mode.startswith("I;16"):
        low, high = 0.0, 2.0 ** int(tags.get(_BITS, (16,))[0]) - 1
    else:
        finite = (band[np.isfinite(band)] for _, band in _bands(image))
        ends = [float(end) for values in finite if values.size for end in (values.min(), values.max())] or [0.0]
        low, high = min(ends), max(ends)
        if low >= 0:
            low, high = 0.0, next((level for level in _LEVELS if high <= level), high)
        high = max(high, float(np.nextafter(low, np.inf)))
    return (high, low) if tags.get(_PHOTOMETRIC) == _MIN_IS_WHITE else (low, high)


def _bands(image: Image.Image) -> Iterator[tuple[int, NDArray[Any]]]:
    tags = _tags(image)
    is_unsigned = image.mode == "I" and tags.get(_BITS) == (32,) and tags.get(_SAMPLE_FORMAT, (1,)) == (1,)
    rows = max(1, _BAND // image.width)
    for top in range(0, image.height, rows):
        band = np.asarray(image.crop((0, top, image.width, min(top + rows, image.height))))
        yield top, band.view(np.uint32) if is_unsigned else band


def _tags(image: Image.Image) -> Any:
    """Returns the tags of a TIFF; an empty dict for other files."""
    return getattr(image, "tag_v2", {})
