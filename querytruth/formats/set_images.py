"""The images of a set as bytes, one at a time, for exports; images from inside other files, by digest, for imports."""

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pandas as pd

from querytruth.backends.files.durable_files import link_or_copy, write_atomically
from querytruth.backends.files.safe_paths import contained_path
from querytruth.backends.images import source_names
from querytruth.backends.images.image_decoding import read_bounded
from querytruth.backends.images.image_headers import sniff_format
from querytruth.backends.images.image_reading import MAX_FILE_BYTES
from querytruth.backends.images.private_metadata import remove_metadata
from querytruth.errors import UserError, translate_write_errors
from querytruth.sets.benchmark_set import RENDERED_SIZE_COLUMNS, find_rendered_sizes
from querytruth.sets.set_files import StoredSet, read_image_digests

IMAGE_SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "GIF": ".gif", "BMP": ".bmp", "TIFF": ".tif"}
_STAGE = "export"
_READ_COLUMNS = ("image_id", "path", "sha256")

IMAGE_SUFFIXES |= {"AVIF": ".avif", "HEIF": ".heic"}


class ImageStore:
    """A folder of unpacked images. Images of an earlier import are not written again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Store the bytes; return their path relative to the folder."""
        digest = hashlib.sha256(data).hexdigest()
        name = f"{digest[:2]}/{digest}"
        path = contained_path(self.folder.parent, f"{self.folder.name}/{name}", "import")
        if not (path.is_file() and path.read_bytes() == data):
            with translate_write_errors("import", self.folder):
                write_atomically(path, data, sync=False)
        return name

    @property
    def named_folder(self) -> Path:
        """Return the folder where `link` creates the images under their paths in a set."""
        return self.folder.with_name(f"{self.folder.name}-named")

    def link(self, images: Iterable[tuple[str, str]]) -> list[str]:
        """Link images (image_id, absolute path) to their paths in a set, and returns these when all bytes are on disk:
        versions hold links to them."""
        with translate_write_errors("import", self.named_folder):
            paths = [self._link_image(image_id, Path(place)) for image_id, place in images]
            os.sync()  # much faster than a wait per file
        return paths

    def _link_image(self, image_id: str, place: Path) -> str:
        with place.open("rb") as file:
            suffix = IMAGE_SUFFIXES[sniff_format(file.read(64)) or "JPEG"]
        path = set_image_path(image_id, suffix)
        target = contained_path(self.folder.parent, f"{self.named_folder.name}/{path}", "import")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.exists() and target.samefile(place)):
            target.unlink(missing_ok=True)
            link_or_copy(place, target)
        return path


def set_image_path(image_id: str, suffix: str) -> str:
    """Return the path of an image in a set: a folder for the first two digits of the id."""
    return f"images/{image_id[4:6]}/{image_id}{suffix}"


def decode_base64_image(text: str) -> bytes | str:
    """Return an image's bytes, or the reason why the text has none. Reads both base64 alphabets."""
    try:
        data = base64.b64decode(text.strip().translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError):
        return "not_base64"
    defect = find_image_defect(data)
    return data if defect is None else defect


def find_image_defect(data: bytes) -> str | None:
    """Return why the bytes cannot be an image, by their length and first bytes; None where they may be one."""
    if not data:
        return "empty_file"
    if len(data) > MAX_FILE_BYTES:
        return "file_too_large"
    return None if sniff_format(data) else "not_an_image"


_STANDARD = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class SetImage:
    """The bytes of an image, and the suffix of its format (`.jpg`)."""

    image_id: str
    data: bytes
    suffix: str


def list_images_with_sizes(stored: StoredSet) -> pd.DataFrame:
    """Return the images table with the rendered sizes of all images, also of squares of one size."""
    return stored.tables.images.assign(**find_rendered_sizes(stored.tables.images, stored.manifest))


def describe_sizes(stored: StoredSet) -> dict[str, dict[str, int]]:
    """Return by image id, in the table's order, `width` and `height` of the exported image and `original_width` and
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
    """Return whether the set holds or refers to any image."""
    return bool(stored.tables.images["path"].notna().any())


def require_images(stored: StoredSet) -> None:
    """Raise UserError where the set lacks images."""
    lacking = int(stored.tables.images["path"].isna().sum())
    if lacking or not len(stored.tables.images):
        reason = f"{lacking:,} of {len(stored.tables.images):,} images are not available, and this format needs them"
        next_step = "build the set with its images, give --images if they are stored elsewhere, or choose trec or beir"
        raise UserError(_STAGE, stored.path, reason, next_step)


def iterate_set_images(stored: StoredSet) -> Iterator[SetImage | None]:
    """Yield the images in the order of the set's table; None for one without a path.

    Raises UserError for an image that cannot be read, is damaged, or, outside the set, has changed since the set was
    built.
    """
    digests = read_image_digests(stored.path, stored.manifest)
    for image_id, path, sha256 in zip(*(stored.tables.images[name] for name in _READ_COLUMNS), strict=True):
        if not isinstance(path, str):
            yield None
            continue
        if source_names.is_url(path) or PurePosixPath(path).is_absolute():
            image = _read_outside(image_id, path, sha256)
        else:
            image = _read_inside(stored.path, image_id, path, digests.get(path))
        yield replace(image, data=remove_metadata(image.data)) if stored.is_private else image


def write_images(stored: StoredSet, out: Path) -> dict[str, str]:
    """Copy the available images into the folder, with their paths in a set; return these by image id."""
    paths = {}
    for image in iterate_set_images(stored):
        if image is not None:
            paths[image.image_id] = set_image_path(image.image_id, image.suffix)
            target = contained_path(out, paths[image.image_id], _STAGE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(image.data)
    return paths


def _read_inside(folder: Path, image_id: str, path: str, sha256: str | None) -> SetImage:
    item, next_step = f"{image_id} {path}", "run verify on the set, restore the image"
    data = _read(str(contained_path(folder, path, _STAGE)), item)
    if sha256 is None:
        raise UserError(_STAGE, item, "is not in the list of the set's checksums", next_step)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UserError(_STAGE, item, "is damaged: its checksum differs", next_step)
    return _identify(image_id, data, item)


def _read_outside(image_id: str, path: str, sha256: object) -> SetImage:
    item = f"{image_id} {path}"
    if source_names.is_web_url(path):
        raise UserError(_STAGE, path, "is a web address", "fetch the images first, then build the set from them")
    data = _read(path, item)
    if isinstance(sha256, str) and hashlib.sha256(data).hexdigest() != sha256:
        reason = "is no longer the image that the set was built from"
        raise UserError(_STAGE, item, reason, "restore the image, or build the set again")
    return _identify(image_id, data, item)


def _read(location: str, item: str) -> bytes:
    try:
        return read_bounded(location, MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(_STAGE, item, f"cannot be read ({why})", "restore the image") from None


def _identify(image_id: str, data: bytes, item: str) -> SetImage:
    kind = sniff_format(data)
    if kind is None:
        raise UserError(_STAGE, item, "is not an image", "run verify on the set, restore the image")
    return SetImage(image_id, data, IMAGE_SUFFIXES[kind])
