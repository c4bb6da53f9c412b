"""Images that a judge is probed with: a mirrored copy of an image, and a grey area of the same size."""

import hashlib
import io
from pathlib import Path

from PIL import Image, ImageOps

from backends.durable_files import write_atomically
from backends.images.rendering import ThumbnailJob, run_thumbnail_job
from backends.images.thumbnails import THUMBNAIL_LIMITS
from backends.workers.worker_processes import map_in_workers

_SIDE, _GREY = 1280, (128, 128, 128)


def write_probe_images(location: str, sha256: str, folder: Path) -> tuple[tuple[Path, str], tuple[Path, str]] | None:
    """Writes a mirrored copy of an image and a grey area of its size into the folder; returns each file with its
    sha256, None where the image cannot be read."""
    (jpeg,) = map_in_workers(run_thumbnail_job, [ThumbnailJob(location, _SIDE, None, sha256)], THUMBNAIL_LIMITS)
    if not isinstance(jpeg, bytes):
        return None
    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        return _write(ImageOps.mirror(image), folder), _write(Image.new("RGB", image.size, _GREY), folder)


def _write(image: Image.Image, folder: Path) -> tuple[Path, str]:
    data = io.BytesIO()
    image.save(data, "JPEG", quality=95)
    digest = hashlib.sha256(data.getvalue()).hexdigest()
    path = folder / f"{digest}.jpg"
    write_atomically(path, data.getvalue())
    return path, digest
