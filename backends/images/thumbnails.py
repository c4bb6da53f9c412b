"""JPEG thumbnails for a page, made in worker processes, in all small enough to be mailed; contact sheets of them."""

import io
import math
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from PIL import Image

from backends.images.rendering import ThumbnailJob, run_thumbnail_job
from backends.images.resampling import ImageSize
from backends.workers.worker_processes import WorkerLimits, map_in_parallel

ImageKey = TypeVar("ImageKey")
THUMBNAIL_LIMITS = WorkerLimits(seconds=30)  # a person waits for the page
_SIDES = {150: 320, 300: 240, 600: 176}  # largest number of images: the longer side of each
_SMALLEST = (128, 96, 72)
_MAX_TOTAL_BYTES = 3_500_000  # of all thumbnails; base64 and the text keep the page below 5 MB
_COLUMNS, _GAP = 8, 4  # of a contact sheet; the gap in pixels
_GREY = (128, 128, 128)
_MAX_PROCESSES = min(4, os.cpu_count() or 1)


def make_thumbnails(
    locations: Mapping[ImageKey, str], squashed_sizes: Mapping[ImageKey, ImageSize] = MappingProxyType({})
) -> dict[ImageKey, bytes]:
    """Returns a JPEG per readable file, as large as the limit for all of them allows. Files that crash the decoder or
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
    """Returns a JPEG with at most eight thumbnails in a row. Each thumbnail is a JPEG of at most `side` x `side` pixels
    and stands in the middle of its square."""
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
