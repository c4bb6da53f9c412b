"""Thumbnails of a set's images, made one at a time when a page needs them, and cached beside the versions."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore

from backends.durable_files import file_sha256
from backends.images.rendering import ThumbnailJob, run_thumbnail_job
from backends.images.thumbnails import THUMBNAIL_LIMITS
from backends.sets.image_locations import locate_set_images, locate_source_items
from backends.sets.set_files import StoredSet
from backends.workers.worker_processes import map_in_workers
from builders.records import image_id_of_bytes

ThumbnailReader = Callable[[str, int], bytes | None]
_JPEG_END = b"\xff\xd9"


class ThumbnailCache:
    """JPEGs in a folder of `<set>/.thumbnails`, where that can be written. As many worker processes decode as there
    are cores."""

    def __init__(self, stored: StoredSet, folder: str) -> None:
        self._folder = stored.path.parent / ".thumbnails" / folder
        self._worker_slots = BoundedSemaphore(os.cpu_count() or 1)

    def read(self, name: str, side: int, locate: Callable[[], str | None]) -> bytes | None:
        """Return the JPEG of an image, `side` pixels on its longer side, or None where it cannot be read. `name` is a
        file name that no other image has; `locate` is called only where the JPEG is not cached yet."""
        file = self._folder / str(side) / name[4:6] / f"{name}.jpg"
        with suppress(OSError):
            if (data := file.read_bytes()).endswith(_JPEG_END):
                return data
        location = locate()
        if location is None or ".." in Path(location).parts:  # no set of ours has one: it leads out of the set
            return None
        with self._worker_slots:
            (jpeg,) = map_in_workers(run_thumbnail_job, [ThumbnailJob(location, side)], THUMBNAIL_LIMITS)
        if not isinstance(jpeg, bytes):
            return None
        with suppress(OSError):
            _write_without_sync(file, jpeg)
        return jpeg


def make_set_thumbnail_reader(stored: StoredSet) -> ThumbnailReader:
    """Return a function of image_id and longer side that gives a JPEG, or None where the image is not at hand."""
    cache = ThumbnailCache(stored, stored.path.name)
    return lambda image_id, side: cache.read(
        image_id, side, lambda: locate_set_images(stored, [image_id]).get(image_id)
    )


def make_source_thumbnail_reader(stored: StoredSet, items: Mapping[str, str]) -> ThumbnailReader:
    """The same for images as they lie in the set's source, whether they are in the set or not. `items` are their names
    there, by image_id. Where a file's bytes have changed since, the set's own image is taken if it has one."""
    cache = ThumbnailCache(stored, f"{stored.path.name}-source")

    def locate(image_id: str) -> str | None:
        unchanged = _locate_unchanged_source(stored, image_id, items[image_id]) if image_id in items else None
        return unchanged or locate_set_images(stored, [image_id]).get(image_id)

    return lambda image_id, side: cache.read(image_id, side, lambda: locate(image_id))


def _locate_unchanged_source(stored: StoredSet, image_id: str, item: str) -> str | None:
    """Where a listed file lies that still is the image of that id: the id is a digest of its bytes."""
    for location in locate_source_items(stored.definition.get("images"), [item]).values():
        with suppress(OSError, ValueError):
            if image_id_of_bytes(file_sha256(Path(location))[0]) == image_id:
                return location
    return None


def _write_without_sync(file: Path, data: bytes) -> None:
    """A file that a crash leaves incomplete lacks the end of a JPEG, and is made again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{secrets.token_hex(8)}")
    beside.write_bytes(data)
    beside.replace(file)
