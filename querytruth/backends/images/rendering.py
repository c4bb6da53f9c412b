"""Rendered images of sets (JPEG, upright, in sRGB on white, without metadata), thumbnails, and contact sheets of them.

The result is that of a full decode and Pillow's LANCZOS. A JPEG far larger than the result is decoded at 1/2, 1/4 or
1/8 of its size, where the difference is not visible (SSIM over 0.99; see `_SCALES`). All thumbnails of a page together
are small enough to be mailed.
"""

import hashlib
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.images import exif, image_headers, worker_starts
from querytruth.backends.images.image_colours import CropBox, ImageSize, convert_to_srgb, flatten_to_8_bits, resample
from querytruth.backends.images.image_decoding import check_decoder, exif_block, open_limited, read_bounded
from querytruth.backends.images.image_reading import MAX_FILE_BYTES, MAX_PIXELS, TRANSPOSE_BY_ORIENTATION
from querytruth.backends.images.worker_processes import map_in_parallel

# From an image's width and height: the size of the result, and the part of the image that it shows.
_Layout = Callable[[float, float], tuple[ImageSize, CropBox]]

_GREY = (128, 128, 128)
_QUALITY, _THUMBNAIL_QUALITY = 90, 82
# Divisors of libjpeg, and how many times larger than the result the decoded image must still be: near that limit
# libjpeg's small transforms are worse than LANCZOS.
_SCALES = ((8, 4.0), (4, 3.0), (2, 2.2))
_UNEVEN = 1.2  # by how much one direction may fall short if the other compensates
ImageKey = TypeVar("ImageKey")
THUMBNAIL_LIMITS = worker_starts.WorkerLimits(seconds=30)  # a person waits for the page
_SIDES = {150: 320, 300: 240, 600: 176}  # largest number of images: the longer side of each
_SMALLEST = (128, 96, 72)
_MAX_TOTAL_BYTES = 3_500_000  # of all thumbnails; base64 and the text keep the page below 5 MB
_COLUMNS, _GAP = 8, 4  # of a contact sheet; the gap in pixels
_MAX_PROCESSES = min(4, os.cpu_count() or 1)


class RenderingError(Exception):
    """Raised for a file that cannot be rendered, with the reason."""


class ChangedFileError(RenderingError):
    """Raised for a file whose bytes are not those that were asked for."""


class RenderJob(NamedTuple):
    """An image to render: a path or an fsspec URL, the file to write, its side in pixels, the mode, and the sha256 that
    the image's bytes must have (None: any)."""

    location: str
    target: str
    size: int
    mode: str
    sha256: str | None


class ThumbnailJob(NamedTuple):
    """An image to make a thumbnail of: a path or an fsspec URL, the longer side in pixels, where the file is a squashed
    image the size of its original, and the sha256, or its first digits, that its bytes must have (None: any)."""

    location: str
    side: int
    original_size: ImageSize | None = None
    sha256: str | None = None


def run_render_job(job: RenderJob) -> str | tuple[str, str]:
    """Write the file atomically in a worker process and return the sha256 of the result, or reason and detail if it
    cannot be rendered. Raises OSError for other faults, such as a full disk."""
    try:
        rendered = render_image(_read(job.location, job.sha256), job.size, job.mode)
    except ChangedFileError as error:
        return "changed_since_scan", str(error)
    except RenderingError as error:
        return "cannot_be_rendered", str(error)
    write_atomically(Path(job.target), rendered)
    return hashlib.sha256(rendered).hexdigest()


class PixelsJob(NamedTuple):
    """An image to decode: a path or an fsspec URL, the longer side in pixels at most, and the sha256 that its bytes
    must have (None: any)."""

    location: str
    side: int
    sha256: str | None


def run_pixels_job(job: PixelsJob) -> NDArray[np.uint8] | tuple[str, str]:
    """Work for a worker process. Return the image upright, in sRGB on white, as (height, width, 3), or reason and
    detail."""
    try:
        data = _read(job.location, job.sha256)
        return np.asarray(_decode_and_resize(data, partial(_fit_within, job.side)).convert("RGB"))
    except ChangedFileError:
        return "changed", "is no longer the image that the set was built from"
    except RenderingError as error:
        return "cannot_be_read", str(error)
    except OSError as error:
        return "cannot_be_read", error.strerror or type(error).__name__


def run_thumbnail_job(job: ThumbnailJob) -> bytes | None:
    """Work for a worker process. Return a JPEG, or None where the image cannot be read or has other bytes."""
    try:
        return make_thumbnail(_read(job.location, job.sha256), job.side, job.original_size)
    except (RenderingError, OSError):
        return None


def render_image(data: bytes, size: int, mode: str) -> bytes:
    """Return a JPEG with the image's proportions, its longer side at most `size` pixels (mode longer_side), or of
    `size` x `size` pixels: squashed, fitted with grey bars, or cropped in the middle. Raises RenderingError."""
    image = _decode_and_resize(data, partial(_LAYOUTS[mode], size))
    if mode == "fit" and image.size != (size, size):
        square = Image.new("RGB", (size, size), _GREY)
        square.paste(image, (round((size - image.width) / 2), round((size - image.height) / 2)))
        image = square
    return _jpeg(image, _QUALITY)


def read_rendered_size(path: Path) -> ImageSize:
    """Return width and height of a rendered image. Raises OSError."""
    with Image.open(path, formats=("JPEG",)) as image:
        return image.size


def make_thumbnail(data: bytes, side: int, original_size: ImageSize | None = None) -> bytes:
    """Return a JPEG with the image's proportions, or with those of `original_size`, its longer side at most `side`
    pixels. Raises RenderingError."""
    layout = partial(_fit_within, side) if original_size is None else partial(_restore_shape, side, original_size)
    return _jpeg(_decode_and_resize(data, layout), _THUMBNAIL_QUALITY)


def _squash(size: int, width: float, height: float) -> tuple[ImageSize, CropBox]:
    return (size, size), (0, 0, width, height)


def _crop(size: int, width: float, height: float) -> tuple[ImageSize, CropBox]:
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return (size, size), (left, top, left + side, top + side)


def _fit(size: int, width: float, height: float) -> tuple[ImageSize, CropBox]:
    ratio = size / max(width, height)
    return (max(1, round(width * ratio)), max(1, round(height * ratio))), (0, 0, width, height)


def _fit_within(side: int, width: float, height: float) -> tuple[ImageSize, CropBox]:
    return _fit(min(side, round(max(width, height))), width, height)


def _restore_shape(side: int, original: ImageSize, width: float, height: float) -> tuple[ImageSize, CropBox]:
    """Stretch a squashed image to the shape of its original, as far as that loses none of its pixels."""
    longer = min(side, max(original), round(max(width, height) * max(original) / min(original)))
    size, _ = _fit(longer, *original)
    return size, (0, 0, width, height)


_LAYOUTS = {"longer_side": _fit_within, "squash": _squash, "fit": _fit, "crop": _crop}


def _decode_and_resize(data: bytes, layout: _Layout) -> Image.Image:
    """Return the resized image, upright, in RGB. It is turned last, when it is small: layouts are symmetric."""
    kind = image_headers.sniff_format(data)
    if kind is None:
        raise RenderingError("not an image")
    try:
        image, _ = open_limited(kind, data, MAX_PIXELS)
        drafted = _draft(image, layout, len(data)) if kind == "JPEG" else None
        image.load()
        size, box = layout(*(drafted or image.size))
        small = convert_to_srgb(resample(flatten_to_8_bits(image), size, box), image.info.get("icc_profile"))
        # Pillow turns a TIFF on loading.
        turn = 1 if kind == "TIFF" else exif.read_exif(exif_block(kind, data, image)).orientation
        return small.transpose(TRANSPOSE_BY_ORIENTATION[turn]) if turn > 1 else small
    except (RenderingError, MemoryError):
        raise
    except Exception as error:  # Pillow's decoders raise any exception on hostile files
        check_decoder(kind, error, lambda own: open_limited(kind, own, MAX_PIXELS)[0].load())
        raise RenderingError(f"{type(error).__name__}: {error}"[:200]) from error


def _draft(image: ImageFile.ImageFile, layout: _Layout, length: int) -> tuple[float, float] | None:
    """Set the reduced size at which a JPEG is decoded. Return its width and height, in fractions of a pixel."""
    (width, height), (left, top, right, bottom) = layout(*image.size)
    across, down = (right - left) / width, (bottom - top) / height
    larger = min(math.sqrt(across * down), _UNEVEN * min(across, down))
    scale = next((scale for scale, least in _SCALES if larger >= scale * least), 1)
    drafted = image.draft(None, (image.width // scale, image.height // scale))
    image.decodermaxblock = length  # in one piece: a little faster
    return drafted and drafted[1][2:]


def _read(location: str, sha256: str | None) -> bytes:
    """Return the file's bytes; exactly these are decoded, and the file is not opened again. Raises ChangedFileError if
    their sha256 does not begin with `sha256`, RenderingError if the file is missing, too large or not a file, else
    OSError."""
    try:
        data = read_bounded(location, MAX_FILE_BYTES)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise RenderingError(error.strerror or type(error).__name__) from None
    except OSError as error:  # a read that fails names no file
        error.filename = error.filename or location
        raise
    if len(data) > MAX_FILE_BYTES:
        raise RenderingError(f"more than {MAX_FILE_BYTES} bytes")
    if sha256 is not None and not hashlib.sha256(data).hexdigest().startswith(sha256):
        raise ChangedFileError("its bytes differ from those that were scanned: build again with --rescan")
    return data


def _jpeg(image: Image.Image, quality: int) -> bytes:
    if isinstance(image, ImageFile.ImageFile):  # Pillow asks for the current folder, which may be gone, for its name
        image = image.copy()
    image.info.clear()  # otherwise Pillow writes the source's comment
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


def make_thumbnails(
    locations: Mapping[ImageKey, str], squashed_sizes: Mapping[ImageKey, ImageSize] = MappingProxyType({})
) -> dict[ImageKey, bytes]:
    """Return a JPEG per readable file, as large as the limit for all of them allows. Files that crash the decoder or
    take over 30 seconds are left out. `squashed_sizes`: the original size of each squashed image, whose shape its
    thumbnail has."""
    thumbnails: dict[ImageKey, bytes] = {}
    first = [side for most, side in _SIDES.items() if len(locations) <= most]
    for side in (*first[:1], *_SMALLEST):
        jobs = [ThumbnailJob(location, side, squashed_sizes.get(key)) for key, location in locations.items()]
        rendered = map_in_parallel(run_thumbnail_job, jobs, _MAX_PROCESSES, THUMBNAIL_LIMITS)
        thumbnails = {key: jpeg for key, jpeg in zip(locations, rendered, strict=True) if isinstance(jpeg, bytes)}
        if sum(map(len, thumbnails.values())) <= _MAX_TOTAL_BYTES:
            break
        locations = {key: location for key, location in locations.items() if key in thumbnails}
    return thumbnails


def make_contact_sheet(thumbnails: Sequence[bytes], side: int) -> bytes:
    """Return a JPEG with at most eight thumbnails in a row. Each thumbnail is a JPEG of at most `side` x `side` pixels,
    centred in its square."""
    columns = min(len(thumbnails), _COLUMNS)
    rows = math.ceil(len(thumbnails) / _COLUMNS)
    cell = side + _GAP
    sheet = Image.new("RGB", (columns * cell + _GAP, rows * cell + _GAP), _GREY)
    for number, data in enumerate(thumbnails):
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as small:
            left = _GAP + number % _COLUMNS * cell + (side - small.width) // 2
            top = _GAP + number // _COLUMNS * cell + (side - small.height) // 2
            sheet.paste(small, (left, top))
    out = io.BytesIO()
    sheet.save(out, "JPEG", quality=75)
    return out.getvalue()
