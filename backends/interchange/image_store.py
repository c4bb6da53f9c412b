"""Pictures that come inside other files (base64, tar, Parquet), unpacked under the digest of their bytes."""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from backends.images.image_headers import sniff_format
from backends.images.image_reading import MAX_FILE_BYTES

IMAGE_SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "GIF": ".gif", "BMP": ".bmp", "TIFF": ".tif"}


class ImageStore:
    """A folder of unpacked pictures. What is there already, from an import before, is not written again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Keep the bytes; returns their place relative to the folder."""
        digest = hashlib.sha256(data).hexdigest()
        name = f"{digest[:2]}/{digest}"
        path = self.folder / name
        if not (path.is_file() and path.read_bytes() == data):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
            try:
                temporary.write_bytes(data)
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        return name

    @property
    def named_folder(self) -> Path:
        """The folder in which `link` puts pictures under the names that they have in a set."""
        return self.folder.with_name(f"{self.folder.name}-named")

    def link(self, images: Iterable[tuple[str, str]]) -> list[str]:
        """Give unpacked pictures (image_id, absolute path) the paths that they have in a set, without copying."""
        paths = []
        for image_id, place in images:
            with Path(place).open("rb") as file:
                suffix = IMAGE_SUFFIXES[sniff_format(file.read(64)) or "JPEG"]
            paths.append(set_image_path(image_id, suffix))
            target = self.named_folder / paths[-1]
            target.parent.mkdir(parents=True, exist_ok=True)
            if not (target.exists() and target.samefile(place)):
                target.unlink(missing_ok=True)
                link_or_copy(Path(place), target)
        return paths


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link, or a copy where the file system has none."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        shutil.copyfile(source, target)


def set_image_path(image_id: str, suffix: str) -> str:
    """Where a set holds an image: a folder for each first two digits of an id."""
    return f"images/{image_id[4:6]}/{image_id}{suffix}"


def decode_base64_image(text: str) -> bytes | str:
    """The picture's bytes, or the reason why the text holds none. Both alphabets are read: publishers use either."""
    try:
        data = base64.b64decode(text.strip().translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError):
        return "not_base64"
    defect = find_image_defect(data)
    return data if defect is None else defect


def find_image_defect(data: bytes) -> str | None:
    """Why bytes are no picture that would be read, by their length and first bytes alone; None where they may be."""
    if not data:
        return "empty_file"
    if len(data) > MAX_FILE_BYTES:
        return "file_too_large"
    return None if sniff_format(data) else "not_an_image"


_STANDARD = str.maketrans("-_", "+/")
