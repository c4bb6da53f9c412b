"""What builds keep in a bucket: objects that are named by the digest of their bytes.

Two builds never write different bytes to one key. Nothing is renamed or replaced, and a killed upload leaves nothing to
see. An object with other bytes than its name states counts as none: its content is computed again.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from backends.durable_files import file_sha256
from backends.object_storage.bucket import Bucket, ObjectTooLargeError
from backends.object_storage.set_urls import BucketFolder

T = TypeVar("T")
R = TypeVar("R")
_NAME = re.compile(r"(?:[A-Za-z0-9-]+/)?([0-9a-f]{64})\.[a-z]+")
_AT_ONCE = 8
_ABANDONED = 24 * 3600  # seconds after which no build that is under way needs an object that it superseded


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
        if kept.size > max_bytes:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with temporary.open("w+b") as file:
                is_there = self._stream(kept.name, file, max_bytes, None)
            if not is_there or file_sha256(temporary)[0] != kept.sha256:
                return False
            temporary.replace(path)  # not waited for: a file that a crash damages is fetched again
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def fetch_range(self, name: str, file: BinaryIO, start: int, size: int) -> bool:
        """Puts `size` bytes of an object, from byte `start` on, into a file; the caller checks them. False where the
        object is gone. Raises UserError and OSError."""
        return self._stream(name, file, size, start)

    def _stream(self, name: str, file: BinaryIO, max_bytes: int, start: int | None) -> bool:
        def restart() -> None:
            file.seek(0)
            file.truncate()

        try:
            return self._bucket.stream(self._key(name), file.write, max_bytes, restart, start) is not None
        except ObjectTooLargeError:
            return False

    def remove_superseded(self, objects: Sequence[KeptObject]) -> None:
        """Removes those of the objects that no build under way can need. Raises UserError."""
        old = [self._key(one.name) for one in objects if one.stored_at < time.time() - _ABANDONED]
        if old:
            self._bucket.delete(old)

    def _key(self, name: str) -> str:
        return f"{self._folder.prefix}/{name}".lstrip("/")


def map_at_once(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yields the results of transfers, several of which are under way at once, in the order of the items."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            yield from pool.map(work, items)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
