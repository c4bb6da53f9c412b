"""Sets in object storage: versions are published to a bucket, and fetched from it."""

from __future__ import annotations

from pathlib import Path

from backends.object_storage.set_download import fetch_version
from backends.object_storage.set_upload import StoredVersion, publish_version
from backends.object_storage.set_urls import BucketFolder
from backends.sets.set_publishing import PublishedVersion, install_version
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, find_version


def publish(set_: AnySet, to: str, *, out: str | Path = DATASETS_FOLDER) -> StoredVersion:
    """Store a version in a bucket, as `<to>/<name>/v<N>`; `to` is a URL such as s3://bucket/sets. Readers see the whole
    version or none. Return its URL, whether it `is_new` there, and the files and bytes that were sent. Raises
    UserError where another version has that number."""
    folder = BucketFolder.parse(to)
    return publish_version(find_version(set_, out), folder)


def fetch(url: str, to: str | Path = DATASETS_FOLDER) -> PublishedVersion:
    """Put a version from object storage, with its decision logs, into a folder of sets, as `<to>/<name>/v<N>`, where it
    can be reviewed and built on. Return its path and whether it `is_new` there. Raises UserError where an object is
    damaged, and where the folder has another version of that number or other decisions."""
    copy = fetch_version(url)
    return install_version(copy, Path(to) / copy.parent.name)
