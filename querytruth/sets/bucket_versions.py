"""Publishing of a version to a bucket, its files first, then its manifest if none is there; and its verification.

A reader sees no version before the manifest is stored, and a whole one after it. Nothing is renamed or replaced.
Verification reads every object again, whatever the cache holds.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from querytruth.backends.files.bucket import BucketObjects, map_at_once
from querytruth.backends.files.bucket_urls import BucketFolder, SetUrl, object_name, object_path
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.safe_paths import contained_file, read_regular
from querytruth.backends.images.private_metadata import remove_metadata
from querytruth.backends.steps import open_transfer_bar
from querytruth.errors import UserError, translate_read_errors
from querytruth.sets.bucket_reading import RemoteVersion, download_object, find_remote_version, place_version, run_all
from querytruth.sets.decision_log import LOG_NAMES, check_no_decision_is_lost
from querytruth.sets.manifest import (
    MAX_MANIFEST_BYTES,
    Manifest,
    make_private,
    parse_manifest,
    read_manifest,
    read_manifest_bytes,
)
from querytruth.sets.published_files import CHECKSUMS, PublishedFile, list_published_files, read_published_images

_STAGE = "publish"
_ANSWERS_TO_A_RACE = 5
_REPAIR = "run verify on the set, restore the file, then run the same command"


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version in a bucket: its URL, whether this publish made it visible, and the files and bytes that were sent."""

    url: str
    is_new: bool
    sent_files: int
    sent_bytes: int


def publish_version(path: Path, folder: BucketFolder, *, is_private: bool = False) -> StoredVersion:
    """Store the version at `path` below the folder of a bucket, as `<folder>/<name>/v<N>`. `is_private`: without
    decision logs, and without host and folders in the manifest.

    Files that are there already are not sent again. Raises UserError where another version has that number, where a
    file is damaged, and where the service fails."""
    manifest, raw = read_manifest(path), read_manifest_bytes(path)
    manifest, raw = make_private(manifest) if is_private else (manifest, raw)
    check_no_decision_is_lost(path, _STAGE, accept_loss=None)
    target = folder.set_url(manifest["name"], manifest["version"])
    bucket = BucketObjects(target.folder)
    stored = bucket.read_one(target.manifest_name, MAX_MANIFEST_BYTES)
    if stored is not None and stored.data != raw:
        _check_same_content(stored.data, manifest, target)
        return StoredVersion(str(target), False, 0, 0)
    files = _list_files(path, manifest)
    missing = _find_missing(bucket, files)
    if is_private:
        _refuse_metadata(path, missing)
    sent_bytes = sum(file.size for file in missing)
    with open_transfer_bar("publish", sent_bytes) as advance:
        for _ in map_at_once(lambda file: _send(bucket, path, file, advance), missing):
            pass
    if lacking := _find_missing(bucket, missing) if missing else []:
        item = bucket.url_of(object_name(lacking[0].sha256))
        raise UserError(_STAGE, item, "was stored, but is missing; nothing was published", "run the same command")
    is_new = False
    if stored is None:
        if not is_private:
            _put_logs(bucket, target, path.parent, raw)
        _check_conditions(bucket, target, path, files)
        is_new = _put_manifest(bucket, target, raw, manifest)
    return StoredVersion(str(target), is_new, len(missing), sent_bytes)


def _list_files(path: Path, manifest: Manifest) -> list[PublishedFile]:
    """Return the files of a version; of several with the same bytes only one."""
    files = list_published_files(manifest)
    if any(file.path == CHECKSUMS for file in files):
        files += read_published_images(contained_file(path, CHECKSUMS, _STAGE))
    return list({file.sha256: file for file in files}.values())


def _refuse_metadata(path: Path, files: list[PublishedFile]) -> None:
    """Raise UserError for image files of cameras and editors: their bytes are listed, and cannot change any more."""
    found = 0
    for file in files:
        if file.path.startswith("images/"):
            data = read_regular(contained_file(path, file.path, _STAGE))
            found += remove_metadata(data) != data
    if found:
        reason = f"contains {found:,} image files with metadata of cameras, editors or owners"
        next_step = "build the set with `render` and export it, or give --no-private if readers may have the metadata"
        raise UserError(_STAGE, path, reason, next_step)


def _find_missing(bucket: BucketObjects, files: list[PublishedFile]) -> list[PublishedFile]:
    """Return the files that are not stored, or with another size."""
    sizes = {name: size for name, (size, _) in bucket.list_objects("objects/").items()}
    return [file for file in files if sizes.get(object_name(file.sha256)) != file.size]


def _send(bucket: BucketObjects, path: Path, file: PublishedFile, advance: Callable[[int], None]) -> None:
    source = contained_file(path, file.path, _STAGE)
    with translate_read_errors(_STAGE, source, _REPAIR):
        if file_sha256(source) != (file.sha256, file.size):
            raise UserError(_STAGE, source, "is damaged: its checksum does not match; nothing was published", _REPAIR)
    bucket.put_file(object_name(file.sha256), source)
    advance(file.size)


def _put_manifest(bucket: BucketObjects, target: SetUrl, raw: bytes, manifest: Manifest) -> bool:
    """Make the version visible. False where another publisher stored the same content meanwhile."""
    for _ in range(_ANSWERS_TO_A_RACE):
        if bucket.put_new({target.manifest_name: raw}):
            return True
        if stored := bucket.read_one(target.manifest_name, MAX_MANIFEST_BYTES):
            if stored.data == raw:
                return True  # ours: the answer to an earlier attempt was lost
            _check_same_content(stored.data, manifest, target)
            return False
    raise UserError(_STAGE, target, "other publishers keep interfering; nothing was published", "run the same command")


def _put_logs(bucket: BucketObjects, target: SetUrl, folder: Path, raw: bytes) -> None:
    """Store the decision logs beside the version, for the next one to be built from it."""
    for name in LOG_NAMES:
        if (folder / name).is_file():
            file = contained_file(folder, name, _STAGE)
            with translate_read_errors(_STAGE, file):
                data = read_regular(file)
            bucket.put({target.log_name(hashlib.sha256(raw).hexdigest(), name): data})


def _check_conditions(bucket: BucketObjects, target: SetUrl, path: Path, files: list[PublishedFile]) -> None:
    """Raise UserError for a service that ignores conditions: there two publishers could both believe to be first."""
    smallest = min(files, key=lambda file: file.size)
    source = contained_file(path, smallest.path, _STAGE)
    with translate_read_errors(_STAGE, source, _REPAIR):
        data = read_regular(source)
    if bucket.put_new({object_name(smallest.sha256): data}):
        reason = "ignores the condition If-None-Match, so two publishers could overwrite each other"
        raise UserError(_STAGE, target, f"the service {reason}; nothing was published", "choose another service")


def _check_same_content(stored: bytes, manifest: Manifest, target: SetUrl) -> None:
    """Raise UserError where the stored manifest belongs to other content."""
    known = parse_manifest(stored, Path(f"{target}/manifest.json"))["content_digest"]
    if known != manifest["content_digest"]:
        reason = f"already exists with another content digest ({known[:12]}…, not {manifest['content_digest'][:12]}…)"
        next_step = f"fetch {target.folder}, build on it and publish the next version, or give --to another folder"
        raise UserError(_STAGE, target, f"{reason}; nothing was published", next_step)


def check_objects(url: str) -> tuple[Path | None, list[str]]:
    """Return the cache's folder of the version at a URL, and a line per object that is missing or differs from the
    manifest; with any, the folder is None. Raises UserError for no version or a damaged manifest."""
    remote = find_remote_version(url)
    files = list_published_files(remote.manifest)
    problems = _check_all(remote, files)
    lists = [file for file in files if file.path == CHECKSUMS and not problems]
    for checksums in lists:
        problems += _check_all(remote, list(read_published_images(object_path(checksums.sha256))))
    return None if problems else place_version(remote), problems


def _check_all(remote: RemoteVersion, files: list[PublishedFile]) -> list[str]:
    start = f"{remote.url}/"
    with open_transfer_bar("verify", sum(file.size for file in files)) as advance:

        def check(file: PublishedFile) -> None:
            download_object(remote, file)
            advance(file.size)

        return [f"{error.item.removeprefix(start)}: {error.reason}" for error in run_all(files, check)]
