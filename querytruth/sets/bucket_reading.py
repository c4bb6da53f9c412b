"""Versions in a bucket, read through a cache on this machine: nothing of a bucket is used before its digest is checked.

<cache>/objects/<2 hex>/<sha256>         files by their bytes
<cache>/sets/<digest>/<name>/v<N>/…      the version whose manifest has this digest; its files are links to objects
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from querytruth.backends.files.bucket import BucketObjects, map_at_once
from querytruth.backends.files.bucket_urls import SetUrl, cache_folder, list_versions, object_name, object_path
from querytruth.backends.files.durable_files import file_sha256, link_or_copy
from querytruth.backends.files.safe_paths import MAX_DOCUMENT_BYTES, contained_path
from querytruth.backends.steps import open_transfer_bar
from querytruth.errors import UserError, translate_write_errors
from querytruth.sets.decision_log import LOG_NAMES
from querytruth.sets.manifest import MAX_MANIFEST_BYTES, Manifest, is_undamaged_manifest, parse_manifest
from querytruth.sets.published_files import CHECKSUMS, PublishedFile, list_published_files, read_published_images

_STAGE = "read set"
_REPAIR = "run verify on the URL; if an object is damaged, delete it and publish the version again"


@dataclass(frozen=True, slots=True)
class RemoteVersion:
    """A version whose manifest was read: its bucket, its address and the manifest, as bytes and parsed."""

    bucket: BucketObjects
    url: SetUrl
    raw: bytes
    manifest: Manifest

    @property
    def folder(self) -> Path:
        """Return the folder of the version in the cache."""
        digest = hashlib.sha256(self.raw).hexdigest()
        return cache_folder() / "sets" / digest / self.url.name / f"v{self.url.version}"


def fetch_version(url: str, *, with_images: bool = True) -> Path:
    """Return the folder in the cache that holds the version at a URL, the newest one unless the URL names it. Cached
    files are not read again; without images, the folder holds only the tables. Raises UserError where there is no
    version, or an object differs from the manifest."""
    return place_version(find_remote_version(url), with_images=with_images)


def find_remote_version(url: str) -> RemoteVersion:
    """Return the version at a URL, the newest one unless the URL names it. Raises UserError where there is none or its
    manifest is damaged."""
    asked = SetUrl.parse(url)
    if (found := find_newest_version(asked)) is None:
        raise UserError("find set", asked, "has no published version", "check the URL: s3://bucket/folder/name")
    return found


def find_newest_version(asked: SetUrl) -> RemoteVersion | None:
    """Return the newest version of a set, or the requested one; None where there is none. Raises UserError
    where its manifest is damaged."""
    bucket = BucketObjects(asked.folder)
    names = [] if asked.version is not None else bucket.list_level()
    for number in list_versions(names) if asked.version is None else [asked.version]:
        version = asked.at_version(number)
        if stored := bucket.read_one(version.manifest_name, MAX_MANIFEST_BYTES):
            return RemoteVersion(bucket, version, stored.data, _parse(stored.data, version))
    return None


def _parse(raw: bytes, version: SetUrl) -> Manifest:
    manifest = parse_manifest(raw, (Path(str(version)) / "manifest.json"))
    if not is_undamaged_manifest(raw):
        raise UserError(_STAGE, f"{version}/manifest.json", "is damaged: its checksum does not match", _REPAIR)
    if manifest["version"] != version.version:
        reason = f"contains the manifest of version {manifest['version']}"
        raise UserError(_STAGE, f"{version}/manifest.json", reason, _REPAIR)
    return manifest


def place_version(remote: RemoteVersion, *, with_images: bool = True) -> Path:
    """Return the folder in the cache with the files of the version, as `fetch_version`."""
    folder = remote.folder
    with translate_write_errors(_STAGE, cache_folder()):
        files = list_published_files(remote.manifest)
        if CHECKSUMS in {file.path for file in files} and with_images:
            _place_files(remote, folder, [file for file in files if file.path == CHECKSUMS])
            files += read_published_images(folder / CHECKSUMS)
        _place_files(remote, folder, files)
        _place_logs(remote, folder.parent)
        _put_bytes(folder / "manifest.json", remote.raw)
    return folder


def _place_files(remote: RemoteVersion, folder: Path, files: list[PublishedFile]) -> None:
    missing = [file for file in files if not _is_placed(folder, file)]
    with open_transfer_bar("read", sum(file.size for file in missing)) as advance:
        for problem in run_all(missing, lambda file: _place(remote, folder, file, advance)):
            raise problem


def run_all(files: Sequence[PublishedFile], work: Callable[[PublishedFile], Any]) -> Iterator[UserError]:
    """Run the work for all files, several at once, and yield the errors in the order of the files."""

    def attempt(file: PublishedFile) -> UserError | None:
        try:
            work(file)
        except UserError as error:
            return error
        return None

    return (error for error in map_at_once(attempt, files) if error is not None)


def _is_placed(folder: Path, file: PublishedFile) -> bool:
    """Return whether the file is in the cache's folder; of a table, whether it has the right bytes. Readers of images
    compare digests themselves."""
    place = contained_path(folder, file.path, _STAGE)
    with suppress(OSError):
        if place.is_file() and place.stat().st_size == file.size:
            return file.path.startswith("images/") or file_sha256(place)[0] == file.sha256
    return False


def _place(remote: RemoteVersion, folder: Path, file: PublishedFile, advance: Callable[[int], Any]) -> None:
    place, kept = contained_path(folder, file.path, _STAGE), object_path(file.sha256)
    if not kept.is_file() or file_sha256(kept) != (file.sha256, file.size):
        download_object(remote, file)
    _put_in_place(place, lambda temporary: link_or_copy(kept, temporary))
    advance(file.size)


def _put_in_place(place: Path, make: Callable[[Path], object]) -> None:
    """Replace a file of a copy in one step. A killed process leaves its files elsewhere: `verify` would report them."""
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = cache_folder() / "objects" / f".{secrets.token_hex(8)}"
    temporary.parent.mkdir(parents=True, exist_ok=True)
    try:
        make(temporary)
        temporary.replace(place)  # does nothing to a second link of the same file
    finally:
        temporary.unlink(missing_ok=True)


def _put_bytes(place: Path, data: bytes) -> None:
    _put_in_place(place, lambda temporary: temporary.write_bytes(data))


def download_object(remote: RemoteVersion, file: PublishedFile) -> None:
    """Read the object of a file into the cache. Raises UserError where it is missing, or has other bytes."""
    name = object_name(file.sha256)
    is_there, is_right = remote.bucket.fetch_file(name, object_path(file.sha256), file.sha256, file.size)
    if not is_right:
        reason = "differs from the manifest: its checksum does not match" if is_there else "is missing"
        raise UserError(_STAGE, f"{remote.url}/{file.path}", f"{reason} ({remote.bucket.url_of(name)})", _REPAIR)


def _place_logs(remote: RemoteVersion, folder: Path) -> None:
    """Put the decision logs that were published with the version next to it: they explain its decisions."""
    digest = hashlib.sha256(remote.raw).hexdigest()
    for name in set(LOG_NAMES) & set(remote.manifest.get("decision_logs", {})):
        if stored := remote.bucket.read_one(remote.url.log_name(digest, name), MAX_DOCUMENT_BYTES):
            _put_bytes(contained_path(folder, name, _STAGE), stored.data)
