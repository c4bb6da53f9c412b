"""A bucket of any service that obstore supports (S3, Google Cloud, Azure), a folder, or memory of this process. Only
this module connects to buckets.

The endpoint, the region and the credentials come from the environment; for S3 also from Amazon's own files
(~/.aws, AWS_PROFILE). Every request has limits: seconds to connect and to wait, attempts, bytes.
"""

import hashlib
import os
import random
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from configparser import ConfigParser, Error
from contextlib import contextmanager
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import obstore
from obstore import exceptions
from obstore.store import LocalStore, MemoryStore, from_url

from querytruth.backends.files.bucket_urls import BucketFolder
from querytruth.backends.web.offline import is_offline
from querytruth.errors import Redaction, UserError, first_line, translate_write_errors

T = TypeVar("T")
R = TypeVar("R")
_STAGE = "object storage"
_ATTEMPTS = 5  # of a request, with growing pauses between them
_PAUSE_SECONDS = 0.1, 5.0  # before the second attempt, and at most
_AT_ONCE, _REQUESTS_AT_ONCE = 8, 16  # transfers of files, and of objects in memory
_PART_BYTES = 8 << 20  # of a large upload
_PIECE_BYTES = 16 << 20  # of a download: what one request asks for
_CLIENT = {"connect_timeout": "10s", "read_timeout": "60s", "timeout": "300s", "allow_http": True}
_NOT_THERE = (exceptions.NotFoundError, FileNotFoundError)
_TAKEN = (exceptions.AlreadyExistsError, exceptions.PreconditionError, FileExistsError, *_NOT_THERE)
_OF_MACHINES = ("169.254.169.254", "metadata.google")  # addresses at which a machine of a cloud asks for its role
_REFUSALS = ("InvalidAccessKeyId", "credential", "must be specified")
_REFUSED = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError)
_FAILED = (exceptions.BaseError, OSError, ValueError)  # ValueError: a store that cannot be made of the environment
_SECRETS = (
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET", "GOOGLE_SERVICE_ACCOUNT_KEY",
)  # fmt: skip
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY",
}
_OTHER_SOURCES = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                  "AWS_CONTAINER_CREDENTIALS_FULL_URI")  # fmt: skip
_IN_PROFILE = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region", "endpoint_url")
_UNKNOWN = "find out what else writes to the bucket; delete that object, or use another folder"
_NEXT_STEP = "check the network and the service, then run the same command: stored objects are not sent again"


class ObjectTooLargeError(UserError):
    """Raised for an object that has more bytes than it may have."""


class Stored(NamedTuple):
    """An object's bytes, and the tag of this content."""

    data: bytes
    tag: str


class BucketObjects:
    """Objects below a folder of a bucket, by their names there. Threads and machines may use them at a time."""

    def __init__(self, folder: BucketFolder) -> None:
        """Do not connect yet; later calls raise UserError if the environment has no usable settings, the run is
        offline, or the service fails."""
        self.folder = folder

    @cached_property
    def _stores(self) -> tuple[Any, Any]:
        """Return obstore's store with one attempt, and one that repeats the parts of an upload by itself."""
        if is_offline() and self.folder.is_remote:
            next_step = (
                "leave out --offline (rebuild: add --online), or work on files: a fetched set, a reply store on disk"
            )
            raise UserError(_STAGE, self.folder, "cannot be reached: --offline forbids connections", next_step)
        with self._translated(str(self.folder)):
            return _open_store(self.folder, 1), _open_store(self.folder, _ATTEMPTS)

    def close(self) -> None:
        """End the connections; the objects may be used again."""
        self.__dict__.pop("_stores", None)

    def url_of(self, name: str) -> str:
        """Return the URL of an object."""
        return f"{self.folder}/{name}" if name else str(self.folder)

    def list_objects(self, prefix: str = "") -> dict[str, tuple[int, float]]:
        """Return, by name, the bytes of each object below the prefix ("" or ending with a slash) and the time it was
        stored, in seconds since 1970 by the service's clock."""
        above, start = self._key(prefix), len(self._key(""))

        def list_all() -> dict[str, tuple[int, float]]:
            found = (one for page in obstore.list(self._stores[0], above or None) for one in page)
            return {one["path"][start:]: (one["size"], one["last_modified"].timestamp()) for one in found}

        return self._try(prefix, list_all)

    def list_below(self, prefix: str) -> list[str]:
        """Return the sorted names below the prefix, which must end with a slash."""
        return sorted(self.list_objects(prefix))

    def list_level(self) -> list[str]:
        """Return the names of the folders and objects right in the folder."""

        def list_all() -> Iterable[str]:
            found = obstore.list_with_delimiter(self._stores[0], self._key("") or None)
            return [*found["common_prefixes"], *(one["path"] for one in found["objects"])]

        return [place.rstrip("/").rpartition("/")[2] for place in self._try("", list_all)]

    def read(self, names: Sequence[str], max_bytes: int) -> dict[str, Stored]:
        """Return those of the objects that are there, as `read_one` does."""
        found = map_at_once(lambda name: self.read_one(name, max_bytes), names, _REQUESTS_AT_ONCE)
        return {name: one for name, one in zip(names, found, strict=True) if one is not None}

    def read_one(self, name: str, max_bytes: int) -> Stored | None:
        """Return an object, or None if it does not exist. Raises ObjectTooLargeError for more than `max_bytes`."""
        pieces: list[bytes] = []
        tag = self.stream(name, pieces.append, max_bytes, pieces.clear)
        return None if tag is None else Stored(b"".join(pieces), tag)

    def stream(
        self,
        name: str,
        write: Callable[[bytes], object],
        max_bytes: int,
        restart: Callable[[], object],
        start: int | None = None,
    ) -> str | None:
        """Write an object's bytes piece by piece and return the tag of its content, or None if it does not exist.
        `restart` is called before the first piece of each attempt, since a connection may break. With `start`, only the
        `max_bytes` from that byte on are requested. Raises ObjectTooLargeError for more than `max_bytes`."""

        def read_all() -> str | None:
            restart()
            try:
                return self._stream_once(name, write, max_bytes, start)
            except _NOT_THERE as error:
                if _names_bucket(error):
                    raise
                return None

        return self._try(name, read_all)

    def fetch_file(self, name: str, path: Path, sha256: str, max_bytes: int) -> tuple[bool, bool]:
        """Put an object's bytes into a file, in one step, and create its folder, where they have this digest. Return
        whether the object exists, and whether this call stored it. Raises ObjectTooLargeError, and OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary, digest = path.with_name(f".{path.name}.{secrets.token_hex(8)}"), hashlib.sha256()
        try:
            with temporary.open("w+b") as file:

                def restart() -> None:
                    nonlocal digest
                    digest = hashlib.sha256()
                    file.seek(0)
                    file.truncate()

                def write(piece: bytes) -> None:
                    digest.update(piece)
                    with translate_write_errors(_STAGE, path):  # else it would look like an error of the service
                        file.write(piece)

                is_there = self.stream(name, write, max_bytes, restart) is not None
            is_right = is_there and digest.hexdigest() == sha256
            if is_right:
                temporary.replace(path)  # not waited for: a file that a crash damages is fetched again
            return is_there, is_right
        finally:
            temporary.unlink(missing_ok=True)

    def _stream_once(self, name: str, write: Callable[[bytes], object], max_bytes: int, start: int | None) -> str:
        """Read what is larger than a piece in several requests, each with its own limit of time; the tag keeps them to
        one content."""
        store, key = self._stores[0], self._key(name)
        place, options = start or 0, dict[str, Any]()
        while True:
            is_part = start is not None or max_bytes > _PIECE_BYTES
            left = max_bytes - (place - (start or 0))
            if is_part:
                options["range"] = (place, place + max(1, min(left, _PIECE_BYTES)))
            try:
                found = obstore.get(store, key, options=cast(Any, options))
            except exceptions.GenericError:
                facts = obstore.head(store, key)
                if facts["size"] or not is_part:
                    raise
                return facts["e_tag"] or ""  # no service gives a part of an empty object
            size = found.meta["size"]
            if start is None and size > max_bytes:
                reason = f"is larger than the limit of {max_bytes:,} bytes"
                raise ObjectTooLargeError(_STAGE, self.url_of(name), reason, _UNKNOWN)
            data, tag = bytes(found.bytes()), found.meta["e_tag"] or ""
            write(data)
            place += len(data)
            if not is_part or not data or place >= min(size, (start or 0) + max_bytes):
                return tag
            options["if_match"] = tag

    def put_file(self, name: str, path: Path) -> None:
        """Store a file's bytes, in parts where it is large; a part is repeated by itself."""
        with self._translated(self.url_of(name)):
            obstore.put(self._stores[1], self._key(name), path, chunk_size=_PART_BYTES, max_concurrency=2)

    def put(self, objects: Mapping[str, bytes]) -> None:
        """Store objects, whatever has their names."""
        self._put_each(objects, "overwrite")

    def put_new(self, objects: Mapping[str, bytes]) -> set[str]:
        """Store those of the objects whose names are free, each in one step, and return these names; not those of an
        object that was stored by an attempt whose answer was lost."""
        return self._put_each(objects, "create")

    def put_changed(self, name: str, data: bytes, tag: str) -> bool:
        """Replace an object atomically if its tag is unchanged. Return False if the tag differs (perhaps after an
        attempt whose answer was lost) or the object does not exist."""
        return bool(self._put_each({name: data}, {"e_tag": tag}))

    def _put_each(self, objects: Mapping[str, bytes], mode: Any) -> set[str]:
        def put(name: str) -> bool:
            try:
                obstore.put(self._stores[0], self._key(name), objects[name], mode=mode, use_multipart=False)
            except _TAKEN as error:
                if _names_bucket(error) or mode == "overwrite":
                    raise
                return False
            return True

        names = list(objects)
        stored = map_at_once(lambda name: self._try(name, lambda: put(name)), names, _REQUESTS_AT_ONCE)
        return {name for name, is_stored in zip(names, stored, strict=True) if is_stored}

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects, and leaves out those that are gone."""

        def remove(keys: list[str]) -> None:
            try:
                obstore.delete(self._stores[0], keys)
            except _NOT_THERE as error:
                if _names_bucket(error) or len(keys) < 2:
                    return
                for key in keys:
                    remove([key])

        self._try(names[0], lambda: remove([self._key(name) for name in names]))

    def _key(self, name: str) -> str:
        return f"{self.folder.prefix}/{name}".lstrip("/")

    def _try(self, name: str, work: Callable[[], R]) -> R:
        """Do the work and retry if the service fails. A conditional write is retried too: its caller checks the stored
        object. Raises UserError."""
        with self._translated(self.url_of(name)):
            for attempt in range(1, _ATTEMPTS):
                try:
                    return work()
                except (exceptions.GenericError, exceptions.PreconditionError):  # PreconditionError: of a later piece
                    longest = min(_PAUSE_SECONDS[1], _PAUSE_SECONDS[0] * 2**attempt)
                    time.sleep(random.uniform(longest / 2, longest))
            return work()

    @contextmanager
    def _translated(self, item: str) -> Iterator[None]:
        try:
            yield
        except UserError:
            raise
        except (exceptions.NotSupportedError, NotImplementedError):
            reason = "its service does not support conditional writes"
            raise UserError(_STAGE, item, reason, "use a bucket (for replies also a file or database)") from None
        except _FAILED as error:
            if _names_bucket(error):
                reason = f"bucket {self.folder.bucket} does not exist"
                raise UserError(_STAGE, item, reason, "check the address") from None
            names = _CREDENTIALS.get(self.folder.scheme, "")
            if any(place in str(error) for place in _OF_MACHINES):  # asked last, where nothing else names any
                raise UserError(_STAGE, item, "no credentials found", f"set {names}") from None
            next_step = f"check {names} and their permissions" if names and _is_refused(error) else _NEXT_STEP
            next_step = _UNKNOWN if "object with invalid path" in str(error) else next_step  # such as a/../b
            raise UserError(_STAGE, item, f"the service failed ({_describe(error)})", next_step) from None


def _open_store(folder: BucketFolder, attempts: int) -> Any:
    """Return obstore's store of a bucket. Raises UserError for S3 without any credentials."""
    if folder.scheme == "memory":
        return _memory(folder.bucket)
    if folder.scheme == "file":
        return LocalStore("/")
    return from_url(f"{folder.scheme}://{folder.bucket}", **client_settings(folder.scheme, attempts))


_memory = cache(lambda _bucket: MemoryStore())


def client_settings(scheme: str, attempts: int = _ATTEMPTS) -> dict[str, Any]:
    """Return the settings of obstore's client for a service. Raises UserError for S3 without any credentials."""
    first, longest = (timedelta(seconds=seconds) for seconds in _PAUSE_SECONDS)
    backoff = {"init_backoff": first, "max_backoff": longest, "base": 2}
    retry = {"max_retries": attempts - 1, "backoff": backoff, "retry_timeout": timedelta(seconds=300)}
    config = _read_profile() if scheme in ("s3", "s3a") else {}
    return {"config": config, "client_options": _CLIENT, "retry_config": retry}


def _read_profile() -> dict[str, str]:
    """Return the settings of Amazon's files if the environment has no keys. Raises UserError if neither has keys."""
    given = os.environ
    config: dict[str, str] = {}
    if given.get("AWS_ACCESS_KEY_ID") or any(given.get(name) for name in _OTHER_SOURCES):
        return config
    name = given.get("AWS_PROFILE") or given.get("AWS_DEFAULT_PROFILE") or "default"
    for variable, usual, sections in (
        ("AWS_CONFIG_FILE", "~/.aws/config", (name, f"profile {name}")),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", (name,)),
    ):
        parser = ConfigParser(interpolation=None)
        try:
            parser.read(Path(given.get(variable) or usual).expanduser(), "utf-8")
        except (Error, OSError, ValueError):
            continue
        for section in sections:
            if parser.has_section(section):
                config |= {key: value for key, value in parser.items(section) if key in _IN_PROFILE}
    has_role = name == "default" and given.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true"  # of the machine
    if "aws_access_key_id" not in config and not has_role:
        raise UserError(_STAGE, f"AWS profile {name}", "has no access keys", f"check {_CREDENTIALS['s3']}")
    return config


def _names_bucket(error: BaseException) -> bool:
    """Return whether the service reports that the bucket itself does not exist."""
    return any(code in str(error) for code in ("NoSuchBucket", "ContainerNotFound", "bucket does not exist"))


def _is_refused(error: BaseException) -> bool:
    return isinstance(error, _REFUSED) or any(word in str(error) for word in _REFUSALS)


def _describe(error: Exception) -> str:
    """Return the error text of a service in one line without secrets; obstore appends lines for its developers."""
    return Redaction([os.environ.get(name, "") for name in _SECRETS])(re.sub(r"\?\S+", "", first_line(error)))[:300]


def map_at_once(work: Callable[[T], R], items: Sequence[T], at_once: int = _AT_ONCE) -> Iterator[R]:
    """Yield the results of concurrent transfers in the order of the items. Raise the first error and start no further
    transfer."""
    with ThreadPoolExecutor(max(1, min(at_once, len(items))), thread_name_prefix="objects") as pool:
        try:
            yield from pool.map(work, items)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
