"""Small pictures for a page: found where they lie, decoded by worker processes, together of a size that mails well."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from backends.pictures.isolated import Limits, each_isolated
from backends.pictures.rendering import ThumbnailJob, thumbnail_job
from backends.sets.set_files import StoredSet
from backends.sources import picture_sources
from backends.sources.source_names import is_url, is_web
from builders.errors import UserError

K = TypeVar("K")
_SIDES = {150: 320, 300: 240, 600: 176}  # up to so many pictures: the longer side of each
_SMALLEST = (128, 96, 72)
_ROOM = 3_500_000  # bytes of all thumbnails; base64 and the text make it less than 5 MB
_LIMITS = Limits(seconds=30)  # a page is waited for
_AT_ONCE = min(4, os.cpu_count() or 1)


def thumbnails(locations: Mapping[K, str]) -> dict[K, bytes]:
    """A JPEG per picture that is at hand, as large as all of them together may be; a file that crashes its decoder
    or takes it longer than half a minute has none."""
    made: dict[K, bytes] = {}
    first = [side for most, side in _SIDES.items() if len(locations) <= most]
    for side in (*first[:1], *_SMALLEST):
        jobs = [ThumbnailJob(location, side) for location in locations.values()]
        made = {key: data for key, data in zip(locations, _made(jobs), strict=True) if isinstance(data, bytes)}
        if sum(map(len, made.values())) <= _ROOM:
            break
        locations = {key: location for key, location in locations.items() if key in made}
    return made


def _made(jobs: list[ThumbnailJob]) -> list[Any]:
    """Each thread has a worker, and every so-manieth picture."""
    found: list[Any] = [None] * len(jobs)

    def work(first: int) -> None:
        found[first::_AT_ONCE] = each_isolated(thumbnail_job, jobs[first::_AT_ONCE], _LIMITS)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(work, range(_AT_ONCE)))
    return found


def locations_of_pictures(stored: StoredSet, image_ids: Collection[str]) -> dict[str, str]:
    """Where pictures of a set lie that are at hand: in the set, or where the set refers to."""
    rows = stored.tables.images[stored.tables.images["image_id"].isin(image_ids)]
    found = {str(row.image_id): _location(stored.path, row.path) for row in rows.itertuples()}
    return {image_id: location for image_id in image_ids if (location := found.get(image_id)) is not None}


def _location(folder: Path, path: object) -> str | None:
    if not isinstance(path, str):
        return None
    if is_url(path):
        return None if is_web(path) else path
    try:
        return next((str(file.absolute()) for file in (folder / path, Path(path)) if file.is_file()), None)
    except (OSError, ValueError):  # a name too long for any file, or with a null byte
        return None


def locations_of_items(manifest: Mapping[str, Any], items: Iterable[str]) -> dict[str, str]:
    """Where listed items lie, by the source that the set was built from; none where that is not known or gone."""
    definition = manifest["envelope"].get("definition") or {}
    found: dict[str, str] = {}
    try:
        source = picture_sources.open_source(definition["images"])
    except (KeyError, UserError):
        return found
    for item in items:
        with suppress(ValueError):  # of a name that no file system could have given
            location = source.location(item)
            if isinstance(location, str) and not is_web(location):
                found[item] = location
    return found
