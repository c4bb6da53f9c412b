"""Small pictures of a set, one at a time as a page asks for them, each made once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from backends.durable_files import file_sha256
from backends.images.rendering import ThumbnailJob, run_thumbnail_job
from backends.images.worker_processes import WorkerLimits, map_in_workers
from backends.sets.set_files import StoredSet
from builders.records import image_id_of_bytes
from flows.pages.thumbnails import locate_set_images, locate_source_items

ThumbnailReader = Callable[[str, int], bytes | None]
_LIMITS = WorkerLimits(seconds=30)  # somebody waits
_JPEG_END = b"\xff\xd9"  # of a whole JPEG


def make_set_thumbnail_reader(stored: StoredSet) -> ThumbnailReader:
    """A JPEG by image_id and longer side, or None where the picture is not at hand. They are kept beside the version,
    where that can be written, and decoded by as many worker processes as there are cores."""

    def locate(image_id: str) -> str | None:
        return locate_set_images(stored, [image_id]).get(image_id)

    return make_cached_thumbnail_reader(stored, stored.path.name, locate)


def make_source_thumbnail_reader(stored: StoredSet, items: Mapping[str, str]) -> ThumbnailReader:
    """The same of pictures as they lie in the set's source, whether they are in the set or not; `items` are their names
    there, by image_id. Of a file whose bytes are others by now the set's own picture is taken, if it has one."""

    def locate(image_id: str) -> str | None:
        source_location = (
            _locate_unchanged_source(stored.manifest, image_id, items[image_id]) if image_id in items else None
        )
        return source_location or locate_set_images(stored, [image_id]).get(image_id)

    return make_cached_thumbnail_reader(stored, f"{stored.path.name}-source", locate)


def make_cached_thumbnail_reader(
    stored: StoredSet, folder: str, locate: Callable[[str], str | None]
) -> ThumbnailReader:
    """A JPEG by the name of a picture, which `locate` finds, and longer side; kept in that folder of the set's. A name
    must be one of a file, and of another picture another one."""
    cache_folder = stored.path.parent / ".thumbnails" / folder
    worker_slots = BoundedSemaphore(os.cpu_count() or 1)

    def read_thumbnail(image_id: str, side: int) -> bytes | None:
        file = cache_folder / str(side) / image_id[4:6] / f"{image_id}.jpg"
        with suppress(OSError):
            if (data := file.read_bytes()).endswith(_JPEG_END):
                return data
        location = locate(image_id)
        if location is None or ".." in Path(location).parts:  # no set of ours says so: it leads out of it
            return None
        with worker_slots:
            (jpeg,) = map_in_workers(run_thumbnail_job, [ThumbnailJob(location, side)], _LIMITS)
        if not isinstance(jpeg, bytes):
            return None
        with suppress(OSError):
            _write_cache_file(file, jpeg)
        return jpeg

    return read_thumbnail


def _locate_unchanged_source(manifest: Mapping[str, Any], image_id: str, item: str) -> str | None:
    """The place of a listed file that still is the picture of that id: the id is a digest of its bytes. A folder lists
    only what is below it."""
    images = (manifest["envelope"].get("definition") or {}).get("images")
    if isinstance(images, str) and Path(images).is_dir() and Path(item).is_absolute():
        return None
    for location in locate_source_items(manifest, [item]).values():
        with suppress(OSError, ValueError):
            if image_id_of_bytes(file_sha256(Path(location))[0]) == image_id:
                return location
    return None


def _write_cache_file(file: Path, data: bytes) -> None:
    """Without waiting for the disk: what a crash leaves half written has no end, and is made again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{secrets.token_hex(8)}")
    beside.write_bytes(data)
    beside.replace(file)
