"""Rendered images in a bucket: those of a part in one object, and a list of them in another.

    FOLDER/<sha256 of the pack>.pack            the bytes of the images, one after another
    FOLDER/<sha256 of the pack>/<sha256>.list   a line `<path in the set> <sha256> <bytes>` per image; stored last

Reading or writing a thousand images takes two requests. A pack without a list is that of a worker that was killed.
"""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from backends.durable_files import write_atomically
from backends.object_storage.kept_objects import KeptObject, KeptObjects, map_at_once
from builders.rendered_sizes import is_square_mode

_PACK, _LIST = "pack", "list"
_LINE = re.compile(r"(images/[!-~]{1,140}\.jpg) ([0-9a-f]{64}) ([1-9][0-9]{0,8})")
_MAX_LIST_BYTES = 4 << 20
_MAX_IMAGE_BYTES = 64 << 20


class PackedImage(NamedTuple):
    """An image in a pack: its path in the set, its digest, and where its bytes lie."""

    path: str
    sha256: str
    start: int
    size: int


class ImagePack(NamedTuple):
    """A pack by its name, and its images in the order of their bytes."""

    name: str
    images: tuple[PackedImage, ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.images[-1].start + self.images[-1].size if self.images else 0


def store_pack(objects: KeptObjects, folder: Path, paths: Sequence[str], place: Path) -> ImagePack:
    """Stores the images at these paths below a folder as one pack; its files are written in `place`. Raises UserError
    and OSError."""
    images, start = list[PackedImage](), 0
    with (place / _PACK).open("wb") as pack:
        for path in paths:
            data = (folder / path).read_bytes()
            pack.write(data)
            images.append(PackedImage(path, hashlib.sha256(data).hexdigest(), start, len(data)))
            start += len(data)
    stored = objects.store(place / _PACK, _PACK)
    (place / _LIST).write_text("".join(f"{one.path} {one.sha256} {one.size}\n" for one in images))
    objects.store(place / _LIST, _LIST, stored.sha256)
    return ImagePack(stored.name, tuple(images))


def read_packs(objects: KeptObjects) -> tuple[list[ImagePack], list[KeptObject]]:
    """Returns the packs that have a list, the newest first, except where it is damaged or does not fit; and the packs
    without a list. Raises UserError."""
    stored = objects.list()
    packs = {one.sha256: one for one in stored if one.name.endswith(f".{_PACK}")}
    lists = [one for one in stored if one.name.endswith(f".{_LIST}") and one.label in packs]
    abandoned = [packs[sha256] for sha256 in packs.keys() - {one.label for one in lists}]
    read = map_at_once(lambda one: objects.read(one, _MAX_LIST_BYTES), lists)
    parsed = (_parse_list(data, packs[one.label]) for one, data in zip(lists, read, strict=True) if data is not None)
    return [pack for pack in parsed if pack is not None], abandoned


def _parse_list(data: bytes, pack: KeptObject) -> ImagePack | None:
    images, start = list[PackedImage](), 0
    for line in data.decode("utf-8", "replace").splitlines():
        if not (found := _LINE.fullmatch(line)) or int(found[3]) > _MAX_IMAGE_BYTES:
            return None
        images.append(PackedImage(found[1], found[2], start, int(found[3])))
        start += int(found[3])
    return ImagePack(pack.name, tuple(images)) if start == pack.size and images else None


def choose_packs(packs: Iterable[ImagePack], paths: Iterable[str]) -> list[ImagePack]:
    """Returns for each path the first pack that has it, as packs of these images alone."""
    wanted, chosen = set(paths), []
    for pack in packs:
        if images := tuple(one for one in pack.images if one.path in wanted):
            wanted -= {one.path for one in images}
            chosen.append(ImagePack(pack.name, images))
    return chosen


def unpack_images(
    objects: KeptObjects, pack: ImagePack, folder: Path, size: int, mode: str
) -> Iterator[tuple[str, str]]:
    """Writes the images of a pack below a folder, and yields path and digest of each; not those whose bytes are damaged
    or no rendering of this size and mode. What lies between them is read, too. Raises UserError and OSError."""
    first = pack.images[0].start
    with tempfile.TemporaryFile(prefix="querytruth-") as file:
        if not objects.fetch_range(pack.name, file, first, pack.size - first):
            return
        for image in pack.images:
            file.seek(image.start - first)
            data = file.read(image.size)
            if hashlib.sha256(data).hexdigest() == image.sha256 and _is_rendering(data, size, mode):
                write_atomically(folder / image.path, data)
                yield image.path, image.sha256


def _is_rendering(data: bytes, size: int, mode: str) -> bool:
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
            sides = image.size
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False
    return sides == (size, size) if is_square_mode(mode) else max(sides) <= size
