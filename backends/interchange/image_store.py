"""Images from inside other files (base64, tar, Parquet), stored under the digest of their bytes."""

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from backends.contained_paths import contained_path
from backends.durable_files import link_or_copy, write_atomically
from backends.file_errors import translate_write_errors
from backends.images.image_headers import sniff_format
from backends.images.image_reading import MAX_FILE_BYTES

IMAGE_SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "GIF": ".gif", "BMP": ".bmp", "TIFF": ".tif"}
IMAGE_SUFFIXES |= {"AVIF": ".avif", "HEIF": ".heic"}


class ImageStore:
    """A folder of unpacked images. Images of an earlier import are not written again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Stores the bytes; returns their path relative to the folder."""
        digest = hashlib.sha256(data).hexdigest()
        name = f"{digest[:2]}/{digest}"
        path = contained_path(self.folder.parent, f"{self.folder.name}/{name}", "import")
        if not (path.is_file() and path.read_bytes() == data):
            with translate_write_errors("import", self.folder):
                write_atomically(path, data, sync=False)
        return name

    @property
    def named_folder(self) -> Path:
        """The folder in which `link` gives images their paths in a set."""
        return self.folder.with_name(f"{self.folder.name}-named")

    def link(self, images: Iterable[tuple[str, str]]) -> list[str]:
        """Links images (image_id, absolute path) to their paths in a set, and returns these when all bytes are on
        disk: versions hold links to them."""
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
    """Returns the path of an image in a set: a folder for the first two digits of the id."""
    return f"images/{image_id[4:6]}/{image_id}{suffix}"


def decode_base64_image(text: str) -> bytes | str:
    """Returns an image's bytes, or the reason why the text has none. Reads both base64 alphabets."""
    try:
        data = base64.b64decode(text.strip().translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError):
        return "not_base64"
    defect = find_image_defect(data)
    return data if defect is None else defect


def find_image_defect(data: bytes) -> str | None:
    """Returns why the bytes cannot be an image, by their length and first bytes; None where they may be one."""
    if not data:
        return "empty_file"
    if len(data) > MAX_FILE_BYTES:
        return "file_too_large"
    return None if sniff_format(data) else "not_an_image"


_STANDARD = str.maketrans("-_", "+/")
