"""The images of a set as bytes, one at a time, for exports."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from backends.contained_paths import contained_path
from backends.images.bounded_reading import read_bounded
from backends.images.image_headers import sniff_format
from backends.images.image_reading import MAX_FILE_BYTES
from backends.interchange.image_store import IMAGE_SUFFIXES, set_image_path
from backends.sets.set_files import StoredSet, read_image_digests
from backends.sources.source_names import is_url, is_web_url
from builders.errors import UserError
from builders.rendered_sizes import RENDERED_SIZE_COLUMNS, find_rendered_sizes

_STAGE = "export"
_READ_COLUMNS = ("image_id", "path", "sha256")


@dataclass(frozen=True, slots=True)
class SetImage:
    """The bytes of an image, and the suffix of its format (`.jpg`)."""

    image_id: str
    data: bytes
    suffix: str


def list_images_with_sizes(stored: StoredSet) -> pd.DataFrame:
    """Returns the images table with the rendered sizes of all images, also of squares of one size."""
    return stored.tables.images.assign(**find_rendered_sizes(stored.tables.images, stored.manifest))


def describe_sizes(stored: StoredSet) -> dict[str, dict[str, int]]:
    """Returns by image id, in the table's order, `width` and `height` of the exported image and `original_width` and
    `original_height`, in pixels; those that are unknown are left out."""
    images = list_images_with_sizes(stored)
    described = {}
    for image_id, *sizes in images[["image_id", *RENDERED_SIZE_COLUMNS, "width", "height"]].to_numpy(dtype=object):
        rendered, original = sizes[:2], sizes[2:]
        exported = rendered if pd.notna(rendered[0]) else original
        names = ("width", "height", "original_width", "original_height")
        numbers = zip(names, [*exported, *original], strict=True)
        described[image_id] = {name: int(number) for name, number in numbers if number > 0}
    return described


def has_images(stored: StoredSet) -> bool:
    """Whether the set holds or refers to any image."""
    return bool(stored.tables.images["path"].notna().any())


def require_images(stored: StoredSet) -> None:
    """Raises UserError where the set lacks images."""
    lacking = int(stored.tables.images["path"].isna().sum())
    if lacking or not len(stored.tables.images):
        reason = f"{lacking:,} of {len(stored.tables.images):,} pictures are not at hand, and this format holds them"
        next_step = "build the set with its pictures, give --images where they lie outside it, or choose trec or beir"
        raise UserError(_STAGE, stored.path, reason, next_step)


def iterate_set_images(stored: StoredSet) -> Iterator[SetImage | None]:
    """Yields the images in the order of the set's table; None for one without a path.

    Raises UserError for an image that cannot be read, is damaged, or, outside the set, has changed since the set was
    built.
    """
    digests = read_image_digests(stored.path, stored.manifest)
    for image_id, path, sha256 in zip(*(stored.tables.images[name] for name in _READ_COLUMNS), strict=True):
        if not isinstance(path, str):
            yield None
        elif is_url(path) or PurePosixPath(path).is_absolute():
            yield _read_outside(image_id, path, sha256)
        else:
            yield _read_inside(stored.path, image_id, path, digests.get(path))


def write_images(stored: StoredSet, out: Path) -> dict[str, str]:
    """Copies the available images into the folder, with their paths in a set; returns these by image id."""
    paths = {}
    for image in iterate_set_images(stored):
        if image is not None:
            paths[image.image_id] = set_image_path(image.image_id, image.suffix)
            target = contained_path(out, paths[image.image_id], _STAGE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(image.data)
    return paths


def _read_inside(folder: Path, image_id: str, path: str, sha256: str | None) -> SetImage:
    item, next_step = f"{image_id} {path}", "run verify on the set, restore the picture"
    data = _read(str(contained_path(folder, path, _STAGE)), item)
    if sha256 is None:
        raise UserError(_STAGE, item, "is not in the list of the set's checksums", next_step)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UserError(_STAGE, item, "is damaged: its checksum differs", next_step)
    return _identify(image_id, data, item)


def _read_outside(image_id: str, path: str, sha256: Any) -> SetImage:
    item = f"{image_id} {path}"
    if is_web_url(path):
        raise UserError(_STAGE, path, "is on the web", "fetch the pictures first, then build the set from them")
    data = _read(path, item)
    if isinstance(sha256, str) and hashlib.sha256(data).hexdigest() != sha256:
        reason = "is not the picture any more that the set was built from"
        raise UserError(_STAGE, item, reason, "restore the picture, or build the set again")
    return _identify(image_id, data, item)


def _read(location: str, item: str) -> bytes:
    try:
        return read_bounded(location, MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(_STAGE, item, f"cannot be read ({why})", "restore the picture") from None


def _identify(image_id: str, data: bytes, item: str) -> SetImage:
    kind = sniff_format(data)
    if kind is None:
        raise UserError(_STAGE, item, "is no picture", "run verify on the set, restore the picture")
    return SetImage(image_id, data, IMAGE_SUFFIXES[kind])
