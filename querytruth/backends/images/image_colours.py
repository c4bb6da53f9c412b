"""Opaque 8-bit sRGB of any image, as models and screens expect, and its Lanczos resampling.

Transparent parts are shown on white, or on black if white would hide the drawing: white drawings on a transparent
background are made for dark pages, and on white all of them are the same blank image.

Resampling has Pillow's values within two levels, in a fifth of the time, by the library fast_image_resize. Its sums are
of whole numbers, so that the result is the same whatever instructions a processor has. It is called once per direction,
because the order decides where values are rounded: it always begins with columns, Pillow seldom does.
"""

import io
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageCms

WHITE, BLACK = "white", "black"
_VISIBLE = 32  # of 255: an alpha below is nothing that anybody sees
_NEARLY_WHITE = 239  # of 255, in every channel
_LOST = 0.95  # of the visible pixels
_LOOKED_AT = 1 << 20  # pixels that are looked at at a time, to bound memory
_PLAIN = ("L", "RGB", "CMYK")
_MAX_PROFILE = 4 << 20  # bytes; profiles of printing presses take up to 3 MB
_NO_DIFFERENCE = 2  # levels of 255 by which sRGB profiles differ from each other
_BAND = 1 << 20  # pixels converted at a time, to bound the memory for floats
_LEVELS = (1.0, 255.0, 65535.0, 4294967295.0)  # the usual values of white in floats and 32-bit integers
_BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339  # TIFF's tags
_MIN_IS_WHITE = 0


def choose_ground(image: Image.Image) -> str:
    """Return the background colour for a loaded image with transparency: black if at least 95% of its visible pixels
    are nearly white and some pixels are transparent; otherwise white, the usual colour of pages."""
    visible = lost = 0
    for band in _split_in_bands(image):
        mask = band.getchannel("A").point(lambda alpha: 255 if alpha >= _VISIBLE else 0)
        channels = [band.getchannel(name) for name in band.getbands()[:-1]]
        darkest = channels[0]
        for channel in channels[1:]:
            darkest = ImageChops.darker(darkest, channel)
        levels = darkest.histogram(mask)
        visible += sum(levels)
        lost += sum(levels[_NEARLY_WHITE:])
    is_lost = 0 < visible < image.width * image.height and lost >= _LOST * visible
    return BLACK if is_lost else WHITE


def flatten(band: Image.Image, ground: str) -> Image.Image:
    """Return an image with transparency, or a part of it, in mode L or RGB on that ground."""
    layer = _with_alpha(band)
    flat = Image.new("L" if layer.mode == "LA" else "RGB", layer.size, ground)
    flat.paste(layer, mask=layer)
    return flat


def _split_in_bands(image: Image.Image) -> Iterator[Image.Image]:
    rows = max(1, _LOOKED_AT // image.width)
    for top in range(0, image.height, rows):
        yield _with_alpha(image.crop((0, top, image.width, min(top + rows, image.height))))


def _with_alpha(image: Image.Image) -> Image.Image:
    return image.convert("LA" if image.mode in ("1", "L", "LA", "La") else "RGBA")


def flatten_to_8_bits(image: Image.Image) -> Image.Image:
    """Return the loaded image in mode L, RGB or CMYK, 8 bits per channel, transparent parts on the ground of
    `choose_ground`. It must precede resizing: otherwise colours of transparent pixels mix with their neighbours'."""
    mode = image.mode
    if mode[0] in "IF":
        return _eight_bits(image)
    if image.has_transparency_data:
        return flatten(image, choose_ground(image))
    if mode in _PLAIN:
        return image
    return image.convert("L" if mode == "1" else "RGB")


def convert_to_srgb(image: Image.Image, profile: object) -> Image.Image:
    """Convert an image (L, RGB or CMYK) to RGB by its ICC profile. A broken or unfitting profile is ignored."""
    if isinstance(profile, bytes) and len(profile) <= _MAX_PROFILE:
        transform = _transform(profile, image.mode)
        if transform:
            image = ImageCms.applyTransform(image, transform) or image
    return image if image.mode == "RGB" else image.convert("RGB")


@lru_cache(maxsize=8)  # an album comes from a few cameras
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Return the transform to sRGB; None where it changes nothing visible or cannot be built."""
    try:
        transform = ImageCms.buildTransform(io.BytesIO(profile), ImageCms.createProfile("sRGB"), mode, "RGB")
        return None if mode == "RGB" and _is_identity(transform) else transform
    except (ImageCms.PyCMSError, OSError, TypeError, ValueError):
        return None


def _is_identity(transform: ImageCms.ImageCmsTransform) -> bool:
    """Return whether the transform changes no colour of a sample; names of profiles are unreliable."""
    steps = np.arange(0, 256, 15, dtype=np.uint8)
    cube = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
    transformed = np.asarray(ImageCms.applyTransform(Image.fromarray(cube), transform), dtype=np.int16)
    return int(np.abs(transformed - cube).max()) <= _NO_DIFFERENCE


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale the values to 0..255, where Pillow's own conversion would clip them. NaN becomes black."""
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
    """Return the values of black and white: the full range for 16 bits; else the smallest usual range that holds the
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
    """Return the tags of a TIFF; an empty dict for other files."""
    return getattr(image, "tag_v2", {})


try:
    from cykooz_resizer import CropBox as LibraryBox
    from cykooz_resizer import FilterType, ResizeAlg, ResizeOptions, Resizer
except ImportError:  # Linux on ARM, for which there is no wheel
    Resizer = None

ImageSize = tuple[int, int]  # width, height
CropBox = tuple[float, float, float, float]  # left, top, right, bottom, in pixels


def resample(image: Image.Image, size: ImageSize, box: CropBox) -> Image.Image:
    """Return the box of an image (mode L, RGB or CMYK) at another size."""
    if size == image.size and box == (0, 0, *size):
        return image
    if Resizer is None:
        return image.resize(size, Image.Resampling.LANCZOS, box)
    (width, height), (left, top, right, bottom) = size, box
    resizer = Resizer()  # of this call alone: it may not be shared by threads
    if image.height - height > max(0, 2 * (image.width - width)):
        between = _resize(resizer, image, (image.width, height), (0, top, image.width, bottom))
        return _resize(resizer, between, size, (left, 0, right, height))
    between = _resize(resizer, image, (width, image.height), (left, 0, right, image.height))
    return _resize(resizer, between, size, (0, top, width, bottom))


def _resize(resizer: Resizer, image: Image.Image, size: ImageSize, box: CropBox) -> Image.Image:
    resized = Image.new(image.mode, size, None)  # not filled: every pixel is written
    part = LibraryBox(box[0], box[1], box[2] - box[0], box[3] - box[1])
    options = ResizeOptions(ResizeAlg.convolution(FilterType.lanczos3), crop_box=part)
    resizer.resize_pil(image, resized, options)
    return resized
