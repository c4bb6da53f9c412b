"""The members of a tar from outside, as a stream, such as a WebDataset shard.

No header and no member makes the reader use much memory, and nothing is unpacked to a path that the tar names.
"""

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from querytruth.backends.files.safe_paths import open_regular
from querytruth.backends.images.image_reading import MAX_FILE_BYTES
from querytruth.errors import UserError

MAX_TEXT_BYTES = 4 << 20  # of a .txt or .json member
_BLOCK = 512  # bytes
_PADDING = 1 << 20  # bytes after the last member that are looked at; tar fills up to 10,240


class TarMember(NamedTuple):
    """A member: its name and its bytes, or the reason why they were not read (`unread`, `too_large`, `sparse`,
    `not_a_regular_file`) and its declared size in bytes."""

    name: str
    data: bytes = b""
    defect: str | None = None
    size: int = 0


class _BoundedReads(io.RawIOBase):
    """A file that returns no more than an image's bytes at once: a header cannot ask for gigabytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_FILE_BYTES:
            raise tarfile.ReadError(f"a header declares {size} bytes")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def iterate_members(
    path: Path, limit_of: Callable[[str], int | None], error: Callable[[object, str], UserError]
) -> Iterator[TarMember]:
    """Yield the members of an uncompressed tar except folders; `limit_of` returns the maximum bytes of a member by its
    name, None to skip it (`unread`). Raises `error(file, reason)` if the tar is truncated or damaged, or another is
    appended to it."""
    at = "its first member"
    try:
        with open_regular(path) as opened, tarfile.open(fileobj=_BoundedReads(opened), mode="r:") as tar:
            for member in tar:
                at = member.name.encode("utf-8", "backslashreplace").decode("utf-8")
                if not member.isdir():
                    yield _read_member(tar, member, at, limit_of(at))
                tar.members.clear()  # type: ignore[attr-defined]
            end = tar.offset
    except (tarfile.TarError, OSError, EOFError, ValueError) as reason:  # ValueError: numbers in headers
        raise error(path, f"is truncated or damaged at {at} ({reason})") from None
    with path.open("rb") as opened:
        opened.seek(end)
        padding = opened.read(_PADDING)
    if padding[:_BLOCK] != bytes(_BLOCK):  # tarfile ends silently at a cut or missing header
        raise error(path, f"is truncated or damaged after {at}")
    if padding.strip(b"\0"):  # and at the end of the first of two tars
        raise error(path, f"has data after its end, which follows {at}")


def _read_member(tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, limit: int | None) -> TarMember:
    if limit is None:
        return TarMember(name, defect="unread", size=member.size)
    if not member.isreg():
        return TarMember(name, defect="not_a_regular_file")
    if member.issparse():
        return TarMember(name, defect="sparse", size=member.size)
    if member.size > limit:
        return TarMember(name, defect="too_large", size=member.size)
    file = tar.extractfile(member)
    return TarMember(name, b"" if file is None else file.read(), size=member.size)
