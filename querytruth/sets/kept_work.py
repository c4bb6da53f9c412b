"""What builds keep in a bucket, rendered images above all: objects that are named by the digest of their bytes.

Two builds never write different bytes to one key. Nothing is renamed or replaced, and a killed upload leaves nothing to
see. An object with other bytes than its name states counts as none: its content is computed again.

    FOLDER/<sha256 of the pack>.pack            the rendered images of a part, one after another
    FOLDER/<sha256 of the pack>/<sha256>.list   a line `<path in the set> <sha256> <bytes>` per image; stored last

Reading or writing a thousand images takes two requests. A pack without a list is that of a worker that was killed.
"""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from PIL import Image

from querytruth.backends.files.bucket import Bucket, ObjectTooLargeError, map_at_once
from querytruth.backends.files.bucket_urls import BucketFolder
from querytruth.backends.files.durable_files import file_sha256, write_atomically
from querytruth.sets.benchmark_set import is_square_mode

_NAME = re.compile(r"(?:[A-Za-z0-9-]+/)?([0-9a-f]{64})\.[a-z]+")
_ABANDONED = 24 * 3600  # seconds after which no build that is under way needs an object that it superseded
_PACK, _LIST = "pack", "list"
_LINE = re.compile(r"(images/[!-~]{1,140}\.jpg) ([0-9a-f]{64}) ([1-9][0-9]{0,8})")
_MAX_LIST_BYTES = 4 << 20
_MAX_IMAGE_BYTES = 64 << 20


class KeptObject(NamedTuple):
    """An object by its name below the folder, `[LABEL/]<sha256>.<kind>`, its bytes, and when it was stored."""

    name: str
    size: int
    stored_at: float = 0.0

    @property
    def label(self) -> str:
        """The folder in its name; "" where there is none."""
        return self.name.rpartition("/")[0]

    @property
    def sha256(self) -> str:
        """The digest that its bytes must have."""
        return self.name.rpartition("/")[2].partition(".")[0]


class KeptObjects:
    """The objects below a folder of a bucket. May be used by several threads."""

    def __init__(self, folder: BucketFolder) -> None:
        """Connects to nothing yet. Raises UserError as Bucket does."""
        self._bucket, self._folder = Bucket(folder), folder

    def list(self) -> list[KeptObject]:
        """Returns all objects with a name of this form, the newest first. Raises UserError."""
        start = f"{self._folder.prefix}/".lstrip("/")
        found = [
            KeptObject(key.removeprefix(start), *listed) for key, listed in self._bucket.list_objects(start).items()
        ]
        named = [one for one in found if _NAME.fullmatch(one.name)]
        return sorted(named, key=lambda one: (-one.stored_at, one.name))

    def url_of(self, name: str) -> str:
        """Returns the URL of an object."""
        return f"{self._folder}/{name}"

    def store(self, path: Path, kind: str, label: str = "") -> KeptObject:
        """Stores a file. Raises UserError and OSError."""
        sha256, size = file_sha256(path)
        name = f"{label}/{sha256}.{kind}".lstrip("/")
        self._bucket.put_file(self._key(name), path)
        return KeptObject(name, size, time.time())

    def read(self, kept: KeptObject, max_bytes: int) -> bytes | None:
        """Returns an object's bytes; None where it is gone, is too large or has other bytes. Raises UserError."""
        try:
            data = self._bucket.read(self._key(kept.name), max_bytes)
        except ObjectTooLargeError:
            return None
        return data if data is not None and hashlib.sha256(data).hexdigest() == kept.sha256 else None

    def fetch(self, kept: KeptObject, path: Path, max_bytes: int) -> bool:
        """Puts an object's bytes into a file, in one step, and creates its folder; False, and no change, where the
        object is gone, is too large or has other bytes. Raises UserError and OSError."""
        try:
            return self._bucket.fetch_file(self._key(kept.name), path, kept.sha256, max_bytes)[1]
        except ObjectTooLargeError:
            return False

    def fetch_range(self, name: str, file: BinaryIO, start: int, size: int) -> bool:
        """Puts `size` bytes of an object, from byte `start` on, into a file; the caller checks them. False where the
        object is gone. Raises UserError and OSError."""

        def restart() -> None:
            file.seek(0)
            file.truncate()

        return self._bucket.stream(self._key(name), file.write, size, restart, start) is not None

    def remove_superseded(self, objects: Sequence[KeptObject]) -> None:
        """Removes those of the objects that no build under way can need. Raises UserError."""
        old = [self._key(one.name) for one in objects if one.stored_at < time.time() - _ABANDONED]
        if old:
            self._bucket.delete(old)

    def _key(self, name: str) -> str:
        return f"{self._folder.prefix}/{name}".lstrip("/")


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
