"""Publishing of a version: it is written beside the others, flushed, and put in place by one rename.

`.publish/` holds the versions being written, each in a folder of its own; the next publish removes what a killed build
left there. `.lock` makes publishes of one set wait for each other. Where a file system only pretends to lock, each of
two builds still publishes a whole version: the rename is exclusive.
"""

import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from querytruth.backends.files import durable_files
from querytruth.backends.files.bucket_urls import refuse_fetched_copy
from querytruth.backends.files.parquet_files import encode_readable
from querytruth.backends.files.safe_paths import contained_file, contained_path, read_regular
from querytruth.errors import UserError, translate_write_errors
from querytruth.sets.benchmark_set import Tables, canonical_json, content_digest, manifest_digest
from querytruth.sets.decision_log import LOG_NAMES
from querytruth.sets.manifest import ListedFile, Manifest, make_private, read_manifest
from querytruth.sets.published_files import CHECKSUMS, find_lost_versions, newest_version, read_latest
from querytruth.sets.set_files import read_intact_digests

_ROWS = 1 << 25  # per row group: each has a dictionary of its own, which takes a third of the room and most of the time
_WITHOUT_STATISTICS = {"image_id", "evidence"}  # ranges of shuffled ids are useless and take most of the time
_LEFT_OUT_IF_EMPTY = {"boxes", "query_aliases"}  # most sets have none
_NOTHING_PUBLISHED = "then run the same command; nothing was published"
_REPAIR = "run verify on the set, then restore the file or build the set again"
_OWN_NAMES = (".lock", ".publish", "latest")  # what is written beside the versions
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A set's version, and whether this publish wrote it or found it unchanged; `tables`: the tables of a new version,
    as read from it."""

    path: Path
    version: int
    is_new: bool
    tables: Tables | None = None


def publish_set(
    tables: Tables,
    manifest: Callable[[str, int, Manifest | None], Manifest],
    card: Callable[[Manifest], str],
    folder: Path,
    *,
    images: Path | None = None,
    log: Callable[[str], None] = lambda _text: None,
) -> PublishedVersion:
    """Write the next version, unless the newest has the same content digest.

    `manifest(digest, version, parent)` returns the manifest, whose files are listed here; `images` is a folder of
    rendered images by the images' `path`. Readers see the old version or the new one. Raises UserError for a name that
    no set may have and where the version cannot be written.
    """
    _check_set_folder(folder)
    arrow = tables.to_arrow_tables()
    kept = {name: table for name, table in arrow.items() if table.num_rows or name not in _LEFT_OUT_IF_EMPTY}
    other_core = ThreadPoolExecutor(max_workers=1)  # Arrow encodes without the interpreter
    encode = cache(lambda: {name: other_core.submit(_encode_table, table) for name, table in kept.items()})
    if differs_in_rows(folder, tables):
        encode()  # while the digest is computed
    digest = content_digest(arrow)

    def write(staging: Path, version: int, parent: Manifest | None) -> None:
        encoded, content = encode(), manifest(digest, version, parent)
        readme = card(content).encode()
        files = [_write_table(staging, name, data.result(), len(kept[name])) for name, data in encoded.items()]
        if images is not None:
            files.append(_link_images(staging, images, tables.images["path"].dropna().tolist()))
        files.append(_write(staging, "README.md", lambda file: file.write(readme)))
        content["files"] = sorted(files, key=lambda file: file["path"])
        content["manifest_digest"] = manifest_digest(content)
        _write(staging, "manifest.json", lambda file: file.write(canonical_json(content)))
        _sync_folders(staging)

    with translate_write_errors("publish", folder, _NOTHING_PUBLISHED):
        newest = newest_version(folder)
        if newest is not None and read_latest(folder) == newest and _has_digest(folder, newest, digest):
            return PublishedVersion(folder / f"v{newest}", newest, is_new=False)  # nothing is written: not even a lock
        with _lock(folder, log):
            durable_files.remove_abandoned_folders(folder / ".publish")
            try:
                published = _publish_next(folder, digest, write)
            finally:
                durable_files.remove_abandoned_folders(folder / ".publish")
            try:
                _point_to_newest(folder)
            except OSError as error:  # the version is whole; the next build writes the file
                log(f"{published.path} is published, but {folder / 'latest'} cannot be written ({error.strerror})")
    return replace(published, tables=Tables.from_arrow_tables(arrow)) if published.is_new else published


def install_version(copy: Path, folder: Path, log: Callable[[str], None] = lambda _text: None) -> PublishedVersion:
    """Put a whole copy of a version, and the decision logs beside it, into a set's folder. Raises UserError where that
    has another version of this number, or other decisions."""
    _check_set_folder(folder)
    target = folder / copy.name
    with translate_write_errors("fetch", folder, "then run the same command"), _lock(folder, log):
        durable_files.remove_abandoned_folders(folder / ".publish")
        if target.exists():
            here, there = target / "manifest.json", make_private(read_manifest(copy))
            if not here.is_file() or make_private(read_manifest(target)) != there:
                raise UserError("fetch", target, "already exists with other content", "give --to another folder")
            return PublishedVersion(target, int(copy.name[1:]), is_new=False)
        _install_logs(copy.parent, folder)
        staging = durable_files.make_staging_folder(folder / ".publish")
        try:
            for source in sorted(path for path in copy.rglob("*") if path.is_file()):
                place = contained_path(staging, source.relative_to(copy).as_posix(), "fetch")
                place.parent.mkdir(parents=True, exist_ok=True)
                durable_files.link_or_copy(source, place)
                durable_files.sync_file(place)
            _sync_folders(staging)
            staging.rename(target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        durable_files.sync_folder(folder)
        _point_to_newest(folder)
    return PublishedVersion(target, int(copy.name[1:]), is_new=True)


def _sync_folders(staging: Path) -> None:
    for directory, _, _ in os.walk(staging):
        durable_files.sync_folder(Path(directory))


def _install_logs(source: Path, folder: Path) -> None:
    """Copy the decision logs that go on from those in the folder. Raises UserError for one that does not."""
    for name in LOG_NAMES:
        if not (source / name).is_file():
            continue
        fetched, place = read_regular(source / name), contained_path(folder, name, "fetch")
        present = read_regular(place) if place.exists() else b""
        if not fetched.startswith(present) and not present.startswith(fetched):
            raise UserError("fetch", place, "has other decisions than the set", "give --to another folder")
        if len(fetched) > len(present):
            durable_files.write_atomically(place, fetched)
            durable_files.sync_folder(folder)


def _publish_next(folder: Path, digest: str, write: Callable[[Path, int, Manifest | None], None]) -> PublishedVersion:
    """Write the next version and put it in place. No build replaces another's version, even without a lock: a rename
    to a folder that holds files fails. Then this one follows the other."""
    while True:
        newest, lost = newest_version(folder), find_lost_versions(folder)
        if newest is not None and not lost and _has_digest(folder, newest, digest):
            return PublishedVersion(folder / f"v{newest}", newest, is_new=False)
        version = max([newest or 0, *lost]) + 1  # results and people know the lost ones by their numbers
        while (folder / f"v{version}").exists():  # an incomplete version or another folder: not replaced
            version += 1
        staging = durable_files.make_staging_folder(folder / ".publish")
        try:
            write(staging, version, read_manifest(folder / f"v{newest}") if newest is not None else None)
            is_in_place = _rename_exclusively(staging, folder / f"v{version}")
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        if is_in_place:
            durable_files.sync_folder(folder)
            return PublishedVersion(folder / f"v{version}", version, is_new=True)


def _rename_exclusively(staging: Path, target: Path) -> bool:
    """Rename a folder; return False where another build has made the target meanwhile."""
    try:
        staging.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _has_digest(folder: Path, version: int, digest: str) -> bool:
    return bool(read_manifest(folder / f"v{version}")["content_digest"] == digest)


def _check_set_folder(folder: Path) -> None:
    if not _NAME.fullmatch(folder.name):
        next_step = "use lower-case letters, digits, '.', '_' and '-'"
        raise UserError("publish", folder.name, "is not a valid set name", next_step)
    refuse_fetched_copy(folder, "publish")
    for name in _OWN_NAMES:
        contained_path(folder, name, "publish")


def _point_to_newest(folder: Path) -> None:
    while (newest := newest_version(folder)) != read_latest(folder):
        durable_files.write_atomically(folder / "latest", f"v{newest}\n".encode())
        durable_files.sync_folder(folder)


def differs_in_rows(folder: Path, tables: Tables) -> bool:
    """Return whether the numbers of rows alone show that no version is there yet, or another one than these tables."""
    if (newest := newest_version(folder)) is None:
        return True
    rows = {file["path"]: file["rows"] for file in read_manifest(folder / f"v{newest}")["files"]}
    return any(rows.get(f"{name}.parquet") != len(getattr(tables, name)) for name in ("queries", "images", "qrels"))


def _encode_table(table: pa.Table) -> pa.Buffer:
    ordered = [column for column in table.column_names if column not in _WITHOUT_STATISTICS]
    return encode_readable(table, compression="zstd", row_group_size=_ROWS, write_statistics=ordered)


def _write_table(staging: Path, name: str, data: pa.Buffer, rows: int) -> ListedFile:
    return _write(staging, f"{name}.parquet", lambda file: file.write(data), rows)


def _link_images(staging: Path, source: Path, names: list[str]) -> ListedFile:
    """Hard-link the rendered images (or copies them), and write their checksums. Raises UserError for an image that
    is not as it was rendered, or as the version of `source` lists it."""
    intact = read_intact_digests(source)
    rows = []
    for name in sorted(names):
        target = contained_path(staging, name, "publish")
        target.parent.mkdir(parents=True, exist_ok=True)
        file = contained_file(source, name, "publish")
        durable_files.link_or_copy(file, target)
        sha256, size = durable_files.file_sha256(target)
        if intact is not None and sha256 not in intact.get(name, ()):
            raise UserError("publish", file, "is damaged: its checksum does not match; nothing was published", _REPAIR)
        rows.append({"path": name, "bytes": size, "sha256": sha256})
    (staging / "images").mkdir(exist_ok=True)
    schema = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("sha256", pa.string())])
    table = pa.Table.from_pylist(rows, schema)
    return _write(staging, CHECKSUMS, lambda file: pq.write_table(table, file, compression="zstd"), len(rows))


def _write(staging: Path, name: str, write: Callable[[BinaryIO], object], rows: int | None = None) -> ListedFile:
    """Write a file to disk, and return its entry for the manifest."""
    path = staging / name
    with path.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    sha256, size = durable_files.file_sha256(path)
    return {"path": name, "rows": rows, "bytes": size, "sha256": sha256}


@contextmanager
def _lock(folder: Path, log: Callable[[str], None]) -> Iterator[None]:
    durable_files.make_durable_folder(folder)
    with (folder / ".lock").open("ab") as file:
        with _translate_lock_errors(folder):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log(f"waiting for another build that is publishing {folder.name}")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file releases the lock, and so does the end of the process


def check_locks(folder: Path) -> None:
    """Raise UserError where files on the file system of a set's folder cannot be locked. Leaves nothing there; a
    folder that cannot be written is ignored by this check."""
    existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())
    try:
        file = tempfile.TemporaryFile(dir=existing)  # noqa: SIM115 - its own errors are not those of the lock
    except OSError:
        return
    with file, _translate_lock_errors(folder):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def _translate_lock_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        next_step = "set out to a folder on another disk, or mount this one with locks"
        raise UserError("publish", folder, f"cannot be locked ({error.strerror})", next_step) from None
