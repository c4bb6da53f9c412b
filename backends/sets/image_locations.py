"""Locations and checksums of a set's images, in the set and in its source."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from backends.contained_paths import contained_path
from backends.sets.set_files import StoredSet, read_image_digests
from backends.sources import image_sources
from backends.sources.source_names import decode_item, is_url, is_web_url
from builders.errors import UserError


@dataclass(frozen=True, slots=True)
class ImageLocation:
    """A path or an fsspec URL, and the sha256 of its bytes (None: unknown). Without a location, `reason` is `no_image`,
    `on_the_web` or `outside_the_set`."""

    image_id: str
    location: str | None
    sha256: str | None
    reason: str = ""


def locate_images(stored: StoredSet) -> list[ImageLocation]:
    """Returns a location per image, in the order of the set's table. The files may be missing."""
    images, checksums = stored.tables.images, read_image_digests(stored.path, stored.manifest)
    root = stored.path.resolve()
    rows = zip(images["image_id"].tolist(), images["path"].tolist(), images["sha256"].tolist(), strict=True)
    return [_place(root, image_id, path, sha256, checksums) for image_id, path, sha256 in rows]


def _place(root: Path, image_id: str, path: Any, sha256: Any, checksums: dict[str, str]) -> ImageLocation:
    if not isinstance(path, str) or not path:
        return ImageLocation(image_id, None, None, "no_image")
    if is_web_url(path):
        return ImageLocation(image_id, None, None, "on_the_web")
    if is_url(path) or PurePosixPath(path).is_absolute():
        return ImageLocation(image_id, path, sha256 if isinstance(sha256, str) else None)
    try:
        return ImageLocation(image_id, str(contained_path(root, path, "read set")), checksums.get(path))
    except UserError:
        return ImageLocation(image_id, None, None, "outside_the_set")


def locate_set_images(stored: StoredSet, image_ids: Collection[str]) -> dict[str, str]:
    """Returns the path or URL of each of these images that can be read here, by image id, in the order of the ids."""
    rows = stored.tables.images[stored.tables.images["image_id"].isin(image_ids)]
    root = stored.path.resolve()
    places = {str(row.image_id): _place(root, str(row.image_id), row.path, None, {}) for row in rows.itertuples()}
    locations = {image_id: place.location for image_id, place in places.items() if place.location is not None}
    return {image_id: locations[image_id] for image_id in image_ids if _is_readable(locations.get(image_id))}


def _is_readable(location: str | None) -> bool:
    """Whether a location is a URL or an existing regular file."""
    try:
        return location is not None and (is_url(location) or Path(location).is_file())
    except (OSError, ValueError):  # too long for a file name, or with a null byte
        return False


def locate_source_items(images: object, items: Iterable[str]) -> dict[str, str]:
    """Returns the locations of items of a definition's `images`, by item. Leaves out items outside a source that is a
    folder, items on the web, and all items where the source is unknown or missing."""
    locations: dict[str, str] = {}
    if not isinstance(images, str):
        return locations
    try:
        source = image_sources.open_source(images)
    except UserError:
        return locations
    for item in items:
        with suppress(ValueError):  # not a possible file name
            if source.kind == "folder" and (is_url(item) or decode_item(item).startswith(b"/")):
                continue
            location = source.locate(item)
            if isinstance(location, str) and not is_web_url(location):
                locations[item] = location
    return locations
