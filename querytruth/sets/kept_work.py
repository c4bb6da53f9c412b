"""Files that builds keep in a bucket, mainly rendered images: objects named by the digest of their bytes.

Two builds never write different bytes to one key. Nothing is renamed or replaced, and a killed upload leaves no visible
object. An object whose bytes do not match its name is ignored: its content is computed again.

    FOLDER/<sha256 of the pack>.pack            the rendered images of a part, one after another
    FOLDER/<sha256 of the pack>/<sha256>.list   a line `<path in the set> <sha256> <bytes>` per image; stored last

Reading or writing a thousand images takes two requests. A pack without a list comes from a killed worker.
"""

import hashlib
import io
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from querytruth.backends.files.bucket import BucketObjects, ObjectTooLargeError, map_at_once
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
        """Return the folder in its name; "" where there is none."""
        return self.name.rpartition("/")[0]

    @property
    def sha256(self) -> str:
        """Return the digest that its bytes must have."""
        return self.name.rpartition("/")[2].partition(".")[0]


class KeptObjects(BucketObjects):
    """The objects below a folder of a bucket that are named by their bytes."""

    def list_kept(self) -> list[KeptObject]:
        """Return all objects with a name of this form, the newest first. Raises UserError."""
        found = (KeptObject(name, *listed) for name, listed in self.list_objects().items() if _NAME.fullmatch(name))
        return sorted(found, key=lambda one: (-one.stored_at, one.name))

    def store(self, path: Path, kind: str, label: str = "") -> KeptObject:
        """Store a file. Raises UserError and OSError."""
        sha256, size = file_sha256(path)
        name = f"{label}/{sha256}.{kind}".lstrip("/")
        self.put_file(name, path)
        return KeptObject(name, size, time.time())

    def read_kept(self, kept: KeptObject, max_bytes: int) -> bytes | None:
        """Return an object's bytes; None where it is gone, is too large or has other bytes. Raises UserError."""
        try:
            stored = self.read_one(kept.name, max_bytes)
        except ObjectTooLargeError:
            return None
        return stored.data if stored and hashlib.sha256(stored.data).hexdigest() == kept.sha256 else None

    def fetch(self, kept: KeptObject, path: Path, max_bytes: int, is_sound: Callable[[Path], bool]) -> bool:
        """Put an object's bytes into a file, in one step, and create its folder; return False and leave no file where
        the object is missing, too large, damaged or has other bytes. Raises UserError and OSError."""
        try:
            is_whole = self.fetch_file(kept.name, path, kept.sha256, max_bytes)[1]
        except ObjectTooLargeError:
            return False
        if is_whole and not is_sound(path):
            path.unlink()
            return False
        return is_whole

    def remove_superseded(self, objects: Sequence[KeptObject]) -> None:
        """Remove those of the objects that no build under way can need. Raises UserError."""
        old = [one.name for one in objects if one.stored_at < time.time() - _ABANDONED]
        if old:
            self.remove(old)


class PackedImage(NamedTuple):
    """An image in a pack: its path in the set, its digest, and the position of its bytes."""

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
        """Return the number of bytes."""
        return self.images[-1].start + self.images[-1].size if self.images else 0


def store_pack(objects: KeptObjects, folder: Path, paths: Sequence[str], place: Path) -> ImagePack:
    """Store the images at these paths below a folder as one pack; its files are written in `place`. Raises UserError
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
    """Return the packs that have a list, the newest first, except where it is damaged or does not fit; and the packs
    without a list. Raises UserError."""
    stored = objects.list_kept()
    packs = {one.sha256: one for one in stored if one.name.endswith(f".{_PACK}")}
    lists = [one for one in stored if one.name.endswith(f".{_LIST}") and one.label in packs]
    abandoned = [packs[sha256] for sha256 in packs.keys() - {one.label for one in lists}]
    read = map_at_once(lambda one: objects.read_kept(one, _MAX_LIST_BYTES), lists)
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
    """Return for each path the first pack that has it, as packs of these images alone."""
    wanted, chosen = set(paths), []
    for pack in packs:
        if images := tuple(one for one in pack.images if one.path in wanted):
            wanted -= {one.path for one in images}
            chosen.append(ImagePack(pack.name, images))
    return chosen


def unpack_images(
    objects: KeptObjects, pack: ImagePack, folder: Path, size: int, mode: str
) -> Iterator[tuple[str, str]]:
    """Write the images of a pack into a folder, and yield path and digest of each; not those whose bytes are damaged
    or not a rendering of this size and mode. Bytes between them are read, too. Raises UserError and OSError."""
    first = pack.images[0].start
    with tempfile.TemporaryFile(prefix="querytruth-") as file:

        def restart() -> None:
            file.seek(0)
            file.truncate()

        if objects.stream(pack.name, file.write, pack.size - first, restart, first) is None:
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
