"""Small pictures for a page: found where they lie, decoded by worker processes, together of a size that mails well."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from backends.images.rendering import ThumbnailJob, run_thumbnail_job
from backends.images.worker_processes import WorkerLimits, map_in_workers
from backends.sets.set_files import StoredSet
from backends.sources import image_sources
from backends.sources.source_names import is_url, is_web_url
from builders.errors import UserError

ImageKey = TypeVar("ImageKey")
_SIDES = {150: 320, 300: 240, 600: 176}  # up to so many pictures: the longer side of each
_SMALLEST = (128, 96, 72)
_MAX_TOTAL_BYTES = 3_500_000  # bytes of all thumbnails; base64 and the text make it less than 5 MB
_LIMITS = WorkerLimits(seconds=30)  # a page is waited for
_MAX_PROCESSES = min(4, os.cpu_count() or 1)


def make_thumbnails(locations: Mapping[ImageKey, str]) -> dict[ImageKey, bytes]:
    """A JPEG per picture that is at hand, as large as all of them together may be; a file that crashes its decoder
    or takes it longer than half a minute has none."""
    thumbnails_by_key: dict[ImageKey, bytes] = {}
    first = [side for most, side in _SIDES.items() if len(locations) <= most]
    for side in (*first[:1], *_SMALLEST):
        jobs = [ThumbnailJob(location, side) for location in locations.values()]
        thumbnails_by_key = {
            key: data for key, data in zip(locations, _render_parallel(jobs), strict=True) if isinstance(data, bytes)
        }
        if sum(map(len, thumbnails_by_key.values())) <= _MAX_TOTAL_BYTES:
            break
        locations = {key: location for key, location in locations.items() if key in thumbnails_by_key}
    return thumbnails_by_key


def _render_parallel(jobs: list[ThumbnailJob]) -> list[Any]:
    """Each thread has a worker, and every so-manieth picture."""
    rendered: list[Any] = [None] * len(jobs)

    def work(first: int) -> None:
        rendered[first::_MAX_PROCESSES] = map_in_workers(run_thumbnail_job, jobs[first::_MAX_PROCESSES], _LIMITS)

    with ThreadPoolExecutor(_MAX_PROCESSES) as pool:
        list(pool.map(work, range(_MAX_PROCESSES)))
    return rendered


def locate_set_images(stored: StoredSet, image_ids: Collection[str]) -> dict[str, str]:
    """Where pictures of a set lie that are at hand: in the set, or where the set refers to."""
    rows = stored.tables.images[stored.tables.images["image_id"].isin(image_ids)]
    known_locations = {str(row.image_id): _location(stored.path, row.path) for row in rows.itertuples()}
    return {image_id: location for image_id in image_ids if (location := known_locations.get(image_id)) is not None}


def _location(folder: Path, path: object) -> str | None:
    if not isinstance(path, str):
        return None
    if is_url(path):
        return None if is_web_url(path) else path
    try:
        return next((str(file.absolute()) for file in (folder / path, Path(path)) if file.is_file()), None)
    except (OSError, ValueError):  # a name too long for any file, or with a null byte
        return None


def locate_source_items(manifest: Mapping[str, Any], items: Iterable[str]) -> dict[str, str]:
    """Where listed items lie, by the source that the set was built from; none where that is not known or gone."""
    definition = manifest["envelope"].get("definition") or {}
    locations: dict[str, str] = {}
    try:
        source = image_sources.open_source(definition["images"])
    except (KeyError, UserError):
        return locations
    for item in items:
        with suppress(ValueError):  # of a name that no file system could have given
            location = source.locate(item)
            if isinstance(location, str) and not is_web_url(location):
                locations[item] = location
    return locations
