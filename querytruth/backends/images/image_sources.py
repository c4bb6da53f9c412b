"""Sources of images: a folder tree, a folder at a URL, a list file or a table, local or anything that fsspec opens.

A source lists items as text and locates them; the state of a file shows cheaply whether it changed.
fsspec is imported only for URLs.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from querytruth.backends.images import source_names, source_readers
from querytruth.backends.images.image_decoding import HEAD_BYTES, fsspec_for, head_digest
from querytruth.errors import UserError

_LISTS = (".txt", ".lst")
_TABLES = (".csv", ".parquet")
_ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".7z", ".rar")
_VERSIONS = ("ETag", "etag", "e_tag", "md5Hash", "content_md5", "crc32c", "CRC", "checksum")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


class RefusedItem(NamedTuple):
    """The reason why an item cannot be read."""

    reason: str
    detail: str | None = None


class FileState(NamedTuple):
    """Whether a file has changed shows in its size in bytes, its time in nanoseconds and a digest of its first bytes.
    For a URL, `head` is a digest of the server's version. Where only the size is known, `modified` is None and `head`
    is ""."""

    size: int
    modified: int | None
    head: str


@dataclass(frozen=True, slots=True)
class ImageSource:
    """An existing source; small, because every part of a scan holds it."""

    given: str
    kind: str  # folder | list | table
    base: str  # the folder of relative items: a URL or an absolute path
    skip: str | None = None

    def list_items(self) -> source_readers.SourceListing:
        """List all items; listed files may be missing. Raises UserError where the source cannot be read."""
        remote = source_names.is_url(self.base)
        with _translate_read_errors(self.given):
            if self.kind == "folder":
                entries = (
                    source_readers.list_url(*_filesystem(self.base))
                    if remote
                    else source_readers.list_folder(self.base, self.skip)
                )
                return entries.build()
            with _opened(self.given) as file:
                if self.kind == "list":
                    return source_readers.list_lines(file, remote=remote).build()
                return source_readers.list_table(file, PurePosixPath(self.given).name, remote=remote).build()

    def locate(self, item: str) -> str | RefusedItem:
        """Return the absolute path (undecodable bytes as surrogates) or the URL of an item, or why it has none."""
        return self.locate_all([item])[0]

    def locate_all(self, items: Iterable[str]) -> list[str | RefusedItem]:
        """Locate several items; each folder is resolved once."""
        if source_names.is_url(self.base):
            return [
                item
                if source_names.is_url(item)
                else source_names.join_url(self.base, os.fsdecode(source_names.decode_item(item)))
                for item in items
            ]
        home, folders = os.path.realpath(os.fsencode(self.base)), dict[bytes, bool]()
        return [
            item if source_names.is_url(item) else _locate(source_names.decode_item(item), home, folders)
            for item in items
        ]


def open_source(images: str, skip: Path | None = None) -> ImageSource:
    """Open the source that `images` names. `skip` is a folder below it that is not listed: the build's output. Raises
    UserError if the source does not exist."""
    given = images
    if images.startswith(("file://", "local://")) and "::" not in images:
        images = images.partition("://")[2]
    suffix = PurePosixPath(images.partition("::")[0]).suffix.lower()
    kind = "list" if suffix in _LISTS else "table" if suffix in _TABLES else "folder"
    if source_names.is_url(images):
        return _open_url(images, kind)
    path = Path(images).absolute()
    with _translate_read_errors(given):
        mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return ImageSource(str(path), "folder", str(path), None if skip is None else str(skip.absolute()))
    if kind == "folder" or not stat.S_ISREG(mode):
        raise _unknown_kind(given)
    return ImageSource(str(path), kind, str(path.parent))


def _open_url(url: str, kind: str) -> ImageSource:
    if source_names.strip_password(url) != url:
        next_step = "pass it to fsspec in its configuration or the environment"
        raise UserError(source_readers.LISTING_STAGE, source_names.strip_password(url), "has a password", next_step)
    if source_names.is_web_url(url):
        raise UserError(
            source_readers.LISTING_STAGE, url, "is a web address", "fetch the images first, then give their folder"
        )
    with _translate_read_errors(url):
        filesystem, path = _filesystem(url)
        if kind == "folder" and not filesystem.isdir(path):
            raise _unknown_kind(url) if filesystem.exists(path) else FileNotFoundError()
        if kind != "folder" and not filesystem.isfile(path):
            raise FileNotFoundError
    return ImageSource(url, kind, url if kind == "folder" else source_names.parent_url(url))


def _unknown_kind(given: str) -> UserError:
    reason = f"is not a folder, a list or a table ({', '.join((*_LISTS, *_TABLES))})"
    is_archive = given.lower().endswith(_ARCHIVES)
    next_step = "unpack it and give the folder" if is_archive else "fix `images` in the definition"
    return UserError(source_readers.LISTING_STAGE, given, reason, next_step)


@contextmanager
def _translate_read_errors(given: str) -> Iterator[None]:
    """Raise UserError for a source that cannot be opened."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(source_readers.LISTING_STAGE, given, "is missing", "fix `images` in the definition") from None
    except ImportError as error:
        raise UserError(source_readers.LISTING_STAGE, given, f"needs a package ({error})", "install it") from None
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error})"
        raise UserError(
            source_readers.LISTING_STAGE, given, reason, "fix that, or `images` in the definition"
        ) from None
    except Exception as error:  # drivers of remote file systems raise any exception
        if not source_names.is_url(given):
            raise
        reason = f"cannot be read ({type(error).__name__}: {error})"[:300]
        raise UserError(
            source_readers.LISTING_STAGE, given, reason, "fix that, or `images` in the definition"
        ) from None


def _filesystem(url: str) -> tuple[Any, str]:
    if not source_names.is_allowed_url(url):
        raise OSError(None, "its URL scheme is not allowed")
    filesystem, path = fsspec_for(url).url_to_fs(url)
    return filesystem, path


def _opened(given: str) -> BinaryIO:
    if not source_names.is_url(given):
        return Path(given).open("rb")
    filesystem, path = _filesystem(given)
    file: BinaryIO = filesystem.open(path, "rb")
    return file


def _locate(name: bytes, home: bytes, folders: dict[bytes, bool]) -> str | RefusedItem:
    """Resolve links; the target of a relative name must be inside `home`. Opens nothing."""
    path = os.path.join(home, name)  # noqa: PTH118 - bytes; an absolute name stays as it is
    try:
        mode = os.lstat(path).st_mode
        if is_link := stat.S_ISLNK(mode):
            path = os.path.realpath(path)
            mode = os.stat(path).st_mode  # noqa: PTH116
        folder = os.path.dirname(path)  # noqa: PTH120
        if folder not in folders:
            folders[folder] = source_names.is_inside(os.path.realpath(folder), home)
    except (FileNotFoundError, NotADirectoryError) as error:
        return RefusedItem("missing", error.strerror)
    except OSError as error:
        return RefusedItem("unreadable", error.strerror)
    if is_link and stat.S_ISDIR(mode):
        return RefusedItem("link_to_folder")
    if not name.startswith(b"/") and not folders[folder]:
        return RefusedItem("link_out_of_folder")
    return os.fsdecode(path) if stat.S_ISREG(mode) else RefusedItem("not_a_regular_file")


def read_file_state(location: str) -> FileState | RefusedItem:
    """Read the state of a file by its path or URL; a local file takes about ten microseconds."""
    if source_names.is_url(location):
        return _remote_state(location)
    try:
        handle = os.open(location, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO must not block
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return RefusedItem("not_a_regular_file")
            return FileState(status.st_size, status.st_mtime_ns, head_digest(os.read(handle, HEAD_BYTES)))
        finally:
            os.close(handle)
    except FileNotFoundError as error:
        return RefusedItem("missing", error.strerror)
    except OSError as error:
        return RefusedItem("unreadable", error.strerror)


def _remote_state(url: str) -> FileState | RefusedItem:
    try:
        filesystem, path = _filesystem(url)
        facts = filesystem.info(path)
        if facts["type"] != "file":
            return RefusedItem("not_a_regular_file")
    except FileNotFoundError:
        return RefusedItem("missing")
    except Exception as error:  # drivers of remote file systems raise any exception
        return RefusedItem("unreadable", f"{type(error).__name__}: {source_names.strip_password(str(error))}"[:200])
    version = "|".join(f"{key}={facts[key]}" for key in _VERSIONS if facts.get(key) is not None)
    times = [moment for key in _TIMES if (moment := _nanoseconds(facts.get(key))) is not None]
    head = head_digest(version.encode()) if version else ""
    return FileState(facts["size"] or 0, times[0] if times else None, head)


def _nanoseconds(moment: object) -> int | None:
    if isinstance(moment, datetime):
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return round(moment * 1e9) if isinstance(moment, int | float) else None
