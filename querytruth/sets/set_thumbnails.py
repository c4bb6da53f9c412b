"""Thumbnails of a set's images, made when a page needs them, and cached beside the versions."""

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache as cache_result
from pathlib import Path
from threading import BoundedSemaphore
from typing import NamedTuple

from querytruth.backends.files.durable_files import file_sha256, write_atomically
from querytruth.backends.files.safe_paths import contained_path
from querytruth.backends.images.image_colours import ImageSize
from querytruth.backends.images.rendering import THUMBNAIL_LIMITS, ThumbnailJob, make_thumbnails, run_thumbnail_job
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.records import RowsById, digest_start_of_image_id, image_id_of_bytes
from querytruth.sets.benchmark_set import list_squashed_sizes
from querytruth.sets.set_files import StoredSet, locate_set_images, locate_source_items, read_image_digests

ThumbnailReader = Callable[[str, int], bytes | None]
_JPEG_END = b"\xff\xd9"


class ThumbnailSource(NamedTuple):
    """A path or an fsspec URL, where the file is a squashed image the size of its original, and the sha256, or its
    first digits, that its bytes must have (None: any)."""

    location: str
    original_size: ImageSize | None = None
    sha256: str | None = None


class ThumbnailCache:
    """JPEGs in a folder of `<set>/.thumbnails`, if that can be written. Uses a worker process per core."""

    def __init__(self, stored: StoredSet, folder: str) -> None:
        self._set_folder, self._folder = stored.path.parent, f".thumbnails/{folder}"
        self._worker_slots = BoundedSemaphore(os.cpu_count() or 1)

    def read(self, name: str, side: int, locate: Callable[[], ThumbnailSource | None]) -> bytes | None:
        """Return the JPEG of an image, `side` pixels on its longer side, or None where it cannot be read. `name` is a
        unique file name; `locate` is called only where the JPEG is not cached yet."""
        file = contained_path(self._set_folder, f"{self._folder}/{side}/{name[4:6]}/{name}.jpg", "make thumbnails")
        with suppress(OSError):
            if (data := file.read_bytes()).endswith(_JPEG_END):
                return data
        source = locate()
        if source is None:
            return None
        job = ThumbnailJob(source.location, side, source.original_size, source.sha256)
        with self._worker_slots:
            (jpeg,) = map_in_workers(run_thumbnail_job, [job], THUMBNAIL_LIMITS)
        if not isinstance(jpeg, bytes):
            return None
        with suppress(OSError):
            write_atomically(file, jpeg, sync=False)  # a truncated file lacks the end of a JPEG, and is made again
        return jpeg


def make_set_thumbnails(stored: StoredSet, image_ids: Collection[str]) -> dict[str, bytes]:
    """Return a JPEG per image that can be read, in its original shape, as large as the limit for all of them
    allows."""
    squashed_sizes = list_squashed_sizes(stored.tables.images, stored.manifest)
    return make_thumbnails(locate_set_images(stored, image_ids), squashed_sizes)


def make_set_thumbnail_reader(stored: StoredSet) -> ThumbnailReader:
    """Return a function of image id and longer side that returns a JPEG in the image's original shape, or None where
    the image cannot be read or is damaged."""
    return make_source_thumbnail_reader(stored, {}, stored.path.name)


def make_source_thumbnail_reader(stored: StoredSet, items: Mapping[str, str], folder: str = "") -> ThumbnailReader:
    """Return the same for images of the set's source, in the set or not; `items` are their names there by image id.
    Where a file has changed or is missing, the set's own image is used."""
    images, cache = stored.tables.images, ThumbnailCache(stored, folder or f"{stored.path.name}-source")
    rows = RowsById(images["image_id"])
    read_digests = cache_result(lambda: read_image_digests(stored.path, stored.manifest))

    def locate(image_id: str) -> ThumbnailSource | None:
        unchanged = _locate_unchanged_source(stored, image_id, items[image_id]) if image_id in items else None
        if unchanged is not None:
            return ThumbnailSource(unchanged, sha256=digest_start_of_image_id(image_id))
        if (place := rows.get(image_id)) is None:
            return None
        row = images.iloc[place : place + 1]  # a slice: of a million images, to take a row costs 20 ms
        own = locate_set_images(replace(stored, tables=replace(stored.tables, images=row)), [image_id]).get(image_id)
        if own is None:
            return None
        size = list_squashed_sizes(row, stored.manifest).get(image_id)
        return ThumbnailSource(own, size, read_digests().get(row["path"].item()))

    return lambda image_id, side: cache.read(image_id, side, lambda: locate(image_id))


def _locate_unchanged_source(stored: StoredSet, image_id: str, item: str) -> str | None:
    """Return the location of a listed file whose bytes still have that image id; else None."""
    for location in locate_source_items(stored.own_definition.get("images"), [item]).values():
        with suppress(OSError, ValueError):
            if image_id_of_bytes(file_sha256(Path(location))[0]) == image_id:
                return location
    return None
