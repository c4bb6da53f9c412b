"""Addresses of sets in object storage, and the names of the objects of a version.

    s3://bucket/prefix/<name>/v<N>/manifest.json           written last, only if it does not exist
    s3://bucket/prefix/<name>/v<N>/logs-<digest>/<log>     the decision logs as they were when it was published
    s3://bucket/prefix/<name>/objects/<2 hex>/<sha256>     every file of every version, by its bytes

A file's name is the digest of its bytes: two publishers never write different bytes to one name, the next publisher
reuses what a killed one left, and an image of several versions is stored once.

The cache holds what this machine read from object storage. It may be deleted at any time: all of its content is also in
a bucket.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from querytruth.errors import UserError

_STAGE = "object storage"
# pathlib makes one slash of two, or of three
_SCHEME = re.compile(r"(?:(s3|gs|az|memory)a?:/{1,2}|(file):/{1,3})(?=[^/])", re.IGNORECASE)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,62}")
_PART = re.compile(r"[A-Za-z0-9._=+ -]{1,255}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION = re.compile(r"v([1-9][0-9]{0,8})")
_FORM = "write s3://bucket/folder (gs://, az://); the endpoint and the credentials come from the environment (AWS_…)"


def is_object_url(text: str) -> bool:
    """Return whether the text is an address in object storage, and no path or name."""
    return _SCHEME.match(text) is not None


def join_set_url(spec: str, out: str) -> str | None:
    """Return the URL of a set that is given by its URL, or by its name and a URL as `out`; None for a set on disk."""
    if is_object_url(spec):
        return spec
    return f"{out}/{spec}" if is_object_url(out) else None


@dataclass(frozen=True, slots=True)
class BucketFolder:
    """A folder of a bucket; `prefix` is "" or ends without a slash. `scheme`: s3, gs, az, memory, or file, whose bucket
    has no name and is the whole file system."""

    bucket: str
    prefix: str
    scheme: str = "s3"

    @classmethod
    def parse(cls, url: str) -> BucketFolder:
        """Return the folder of a URL. Raises UserError for any other form, with a password not even named."""
        found = _SCHEME.match(url)
        scheme = (found[1] or found[2]).lower() if found else ""
        rest = url[found.end() :] if found else url
        if "@" in rest:
            raise UserError(_STAGE, f"{scheme}://…@…", "contains a user name or a password", _FORM)
        bucket, *parts = (f"/{rest}" if scheme == "file" else rest).rstrip("/").split("/")
        is_name = all(_PART.fullmatch(part) and part.strip(".") for part in parts)
        if not found or not (_BUCKET.fullmatch(bucket) or scheme == "file") or not is_name:
            raise UserError(_STAGE, url, "is not the address of a folder in a bucket", _FORM)
        return cls(bucket, "/".join(parts), scheme)

    def __str__(self) -> str:
        """Return the URL."""
        return self.url_of(self.prefix).rstrip("/")

    def url_of(self, key: str) -> str:
        """Return the URL of an object in the bucket."""
        return f"{self.scheme}://{self.bucket}/{key}"

    @property
    def is_remote(self) -> bool:
        """Return whether it is on another machine."""
        return self.scheme not in ("file", "memory")

    def below(self, name: str) -> BucketFolder:
        """Return a folder below this one."""
        return replace(self, prefix=f"{self.prefix}/{name}".lstrip("/"))

    def set_url(self, name: str, version: int | None = None) -> SetUrl:
        """Return the address of a set in the folder."""
        return SetUrl(self.below(name), name, version)


@dataclass(frozen=True, slots=True)
class SetUrl:
    """The folder of a set in a bucket, its name, and the version (None: the newest)."""

    folder: BucketFolder
    name: str
    version: int | None

    @classmethod
    def parse(cls, url: str) -> SetUrl:
        """Return the set of `s3://bucket/…/name` or `s3://bucket/…/name/v3`. Raises UserError for another form."""
        folder = BucketFolder.parse(url)
        parent, _, last = folder.prefix.rpartition("/")
        version = int(match[1]) if parent and (match := _VERSION.fullmatch(last)) else None
        whole = parent if version is not None else folder.prefix
        name = whole.rpartition("/")[2]
        if not _NAME.fullmatch(name):
            raise UserError(_STAGE, url, "has no set name", "write s3://bucket/folder/name, or add a version: /v3")
        return cls(replace(folder, prefix=whole), name, version)

    def __str__(self) -> str:
        """Return the URL."""
        return str(self.folder) if self.version is None else f"{self.folder}/v{self.version}"

    def at_version(self, version: int) -> SetUrl:
        """Return the address of a version of the same set."""
        return SetUrl(self.folder, self.name, version)

    @property
    def manifest_name(self) -> str:
        """Return the name of the version's manifest in the folder."""
        return f"v{self.version}/manifest.json"

    def log_name(self, manifest_sha256: str, name: str) -> str:
        """Return the name of a decision log that the publisher of this manifest had."""
        return f"v{self.version}/logs-{manifest_sha256[:32]}/{name}"


def object_name(sha256: str) -> str:
    """Return the name of the file with these bytes, in the folder of a set as in the cache."""
    return f"objects/{sha256[:2]}/{sha256}"


def list_versions(names: list[str]) -> list[int]:
    """Return the numbers of the versions among the names in a set's folder, the newest first."""
    return sorted((int(match[1]) for name in names if (match := _VERSION.fullmatch(name))), reverse=True)


def cache_folder() -> Path:
    """Return the folder: below XDG_CACHE_HOME, or ~/.cache."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return cache / "querytruth" / "object-storage"


def object_path(sha256: str) -> Path:
    """Return where the file with these bytes is kept."""
    return cache_folder() / object_name(sha256)


def is_fetched_copy(path: Path) -> bool:
    """Return whether a folder or file is a copy of what is in a bucket."""
    return path.is_absolute() and path.is_relative_to(cache_folder())


def refuse_fetched_copy(path: Path, stage: str) -> None:
    """Raise UserError where something is to be written beside a copy: it would be lost with the cache."""
    if is_fetched_copy(path):
        reason = "is a set in object storage, which is read-only for this command"
        raise UserError(stage, path.name if path.suffix else path, reason, FETCH_FIRST)


FETCH_FIRST = "run querytruth fetch s3://… --to datasets, work on that set, and publish it again"
