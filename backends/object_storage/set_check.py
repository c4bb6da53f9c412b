"""Verification of a version in a bucket: every object is read again, whatever the cache holds."""

from __future__ import annotations

from pathlib import Path

from backends.object_storage.object_cache import object_path
from backends.object_storage.set_download import (
    RemoteVersion,
    download_object,
    find_remote_version,
    place_version,
    run_all,
)
from backends.object_storage.transfer_bars import open_transfer_bar
from backends.sets.published_files import CHECKSUMS, PublishedFile, list_published_files, read_published_images


def check_objects(url: str) -> tuple[Path | None, list[str]]:
    """Returns the cache's folder of the version at a URL, and a line per object that is missing or differs from the
    manifest; with any, there is no folder. Raises UserError where there is no version or its manifest is damaged."""
    remote = find_remote_version(url)
    files = list_published_files(remote.manifest)
    problems = _check_all(remote, files)
    lists = [file for file in files if file.path == CHECKSUMS and not problems]
    for checksums in lists:
        problems += _check_all(remote, list(read_published_images(object_path(checksums.sha256))))
    return (None if problems else place_version(remote)), problems


def _check_all(remote: RemoteVersion, files: list[PublishedFile]) -> list[str]:
    start = f"{remote.url}/"
    with open_transfer_bar("verify", sum(file.size for file in files)) as advance:

        def check(file: PublishedFile) -> None:
            download_object(remote, file)
            advance(file.size)

        return [f"{error.item.removeprefix(start)}: {error.reason}" for error in run_all(files, check)]
