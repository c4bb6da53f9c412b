"""A bucket of an S3 service: the only code that connects to one.

The endpoint, the region and the credentials are those of the environment, as Amazon's own tools read them. Every
request has limits: seconds to connect and to wait, attempts, bytes.

Progress of transfers: what shows it is chosen once, by the command line, and reached from any depth.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from querytruth.backends.files.bucket_urls import BucketFolder
from querytruth.backends.web.offline import is_offline
from querytruth.errors import Redaction, UserError, first_line

R = TypeVar("R")
_STAGE = "object storage"
_ATTEMPTS = 5  # of a request, with growing pauses between them
_CONNECT_SECONDS, _WAIT_SECONDS = 10, 60
_DEADLINE_SECONDS, _LEAST_BYTES_PER_SECOND = 120, 100_000  # of a whole object
_PART_BYTES = 8 << 20  # of a large upload
_PIECE_BYTES = 1 << 20
_LISTED_AT_ONCE = 1000  # objects in one answer, at most
_DELETED_AT_ONCE = 1000
_TAKEN = {409, 412}  # a condition that does not hold; two writers at once
_UNKNOWN = "find out what else writes to the bucket; delete that object, or use another folder"
_NEXT_STEP = "check the network and the service, then run the same command: what is stored is not sent again"
# Takes a title, the number of bytes in all, and "bytes"; what it opens takes those of each file.
BarFactory = Callable[[str, int, str], AbstractContextManager[Callable[[int], Any]]]


class _CutBodyError(OSError):
    """An object's body that ended too early."""


class ObjectTooLargeError(UserError):
    """Raised for an object that has more bytes than it may have."""


class ListedObject(NamedTuple):
    """An object's bytes, and when it was stored, in seconds since 1970 by the service's clock."""

    size: int
    stored_at: float


class Bucket:
    """Objects of one bucket by key. May be used by several threads."""

    def __init__(self, folder: BucketFolder) -> None:
        """Connects to nothing yet. Raises UserError where the library is not installed or the run is offline."""
        if is_offline():
            next_step = (
                "leave out --offline (rebuild: --online), or work on files: a fetched set, a reply store on disk"
            )
            raise UserError(_STAGE, folder, "cannot be reached: --offline connects to nothing", next_step)
        try:
            import s3fs
        except ModuleNotFoundError as error:
            reason = f"needs the library {error.name}, which is not installed"
            raise UserError(_STAGE, folder, reason, 'pip install "querytruth[s3]"') from None
        self._name = folder.bucket
        self._files = s3fs.S3FileSystem(
            skip_instance_cache=True,
            use_listings_cache=False,
            config_kwargs={
                "retries": {"mode": "standard", "total_max_attempts": _ATTEMPTS},
                "connect_timeout": _CONNECT_SECONDS,
                "read_timeout": _WAIT_SECONDS,
            },
        )
        self._files.retries = 1  # botocore repeats a request already

    def url_of(self, key: str) -> str:
        """Returns the URL of an object."""
        return f"s3://{self._name}/{key}"

    def list_sizes(self, prefix: str) -> dict[str, int]:
        """Returns the bytes of each object below the prefix, by key. Raises UserError."""
        return {key: listed.size for key, listed in self.list_objects(prefix).items()}

    def list_objects(self, prefix: str) -> dict[str, ListedObject]:
        """Returns what the service states of each object below the prefix, by key. Raises UserError."""
        return self._try(prefix, lambda: self._list_pages(prefix))

    def _list_pages(self, prefix: str) -> dict[str, ListedObject]:
        """What s3fs finds, too, which asks twice more where there is nothing."""
        listed: dict[str, ListedObject] = {}
        request: dict[str, Any] = {"Bucket": self._name, "Prefix": prefix, "MaxKeys": _LISTED_AT_ONCE}
        while True:
            answer = self._files.call_s3("list_objects_v2", **request)
            for entry in answer.get("Contents", ()):
                listed[entry["Key"]] = ListedObject(int(entry["Size"]), _seconds(entry.get("LastModified")))
            if not answer.get("IsTruncated"):
                return listed
            request["ContinuationToken"] = answer["NextContinuationToken"]

    def list_names(self, prefix: str) -> list[str]:
        """Returns the names of the folders and objects right below the prefix, which ends with a slash. Raises
        UserError."""

        def list_or_none() -> list[str]:
            try:
                found: list[str] = self._files.ls(f"{self._name}/{prefix}", detail=False, refresh=True)
                return found
            except FileNotFoundError as error:
                if _error_code(error) == "NoSuchBucket":
                    raise
                return []

        return [place.rstrip("/").rpartition("/")[2] for place in self._try(prefix, list_or_none)]

    def read(self, key: str, max_bytes: int) -> bytes | None:
        """Returns an object's bytes, None where there is none. Raises UserError, also for more than `max_bytes`."""
        tagged = self.read_tagged(key, max_bytes)
        return None if tagged is None else tagged[0]

    def read_tagged(self, key: str, max_bytes: int) -> tuple[bytes, str] | None:
        """Returns an object's bytes and the tag of its present content, as `read` does."""
        pieces: list[bytes] = []
        tag = self.stream(key, pieces.append, max_bytes, pieces.clear)
        return None if tag is None else (b"".join(pieces), tag)

    def stream(
        self,
        key: str,
        write: Callable[[bytes], object],
        max_bytes: int,
        restart: Callable[[], object],
        start: int | None = None,
    ) -> str | None:
        """Writes an object's bytes piece by piece, and returns the tag of its content; None where there is none.
        `restart` is called before the first piece of each attempt: a connection may end in the middle. With `start`,
        the `max_bytes` from that byte on are all that is asked for. Raises UserError, ObjectTooLargeError for more
        than `max_bytes`."""
        deadline = _DEADLINE_SECONDS + max_bytes / _LEAST_BYTES_PER_SECOND

        def read_all() -> str | None:
            restart()
            try:
                return self._stream_once(key, write, max_bytes, start, deadline)
            except FileNotFoundError as error:
                if _error_code(error) == "NoSuchBucket":
                    raise
                return None

        return self._try(key, read_all)

    def _stream_once(
        self, key: str, write: Callable[[bytes], object], max_bytes: int, start: int | None, seconds: float
    ) -> str:
        from fsspec.asyn import sync

        ends = time.monotonic() + seconds
        part = {} if start is None else {"Range": f"bytes={start}-{start + max_bytes - 1}"}
        response = self._files.call_s3("get_object", Bucket=self._name, Key=key, timeout=seconds, **part)

        async def write_body() -> None:
            count = 0
            async with response["Body"] as body:
                while piece := await _read_piece(body):
                    count += len(piece)
                    if count > max_bytes:
                        reason = f"has more than the {max_bytes:,} bytes that it may have"
                        raise ObjectTooLargeError(_STAGE, self.url_of(key), reason, _UNKNOWN)
                    write(piece)

        sync(self._files.loop, write_body, timeout=max(0.001, ends - time.monotonic()))
        return str(response["ETag"])

    def put_file(self, key: str, path: Path) -> None:
        """Stores a file's bytes, in parts where it is large. Raises UserError."""
        place, options = f"{self._name}/{key}", {"chunksize": _PART_BYTES, "max_concurrency": 2}
        self._try(key, lambda: self._files.put_file(str(path), place, **options))

    def put(self, key: str, data: bytes) -> None:
        """Stores an object. Raises UserError."""
        self._try(key, lambda: self._files.call_s3("put_object", Bucket=self._name, Key=key, Body=data))

    def delete(self, keys: list[str]) -> None:
        """Removes objects, and leaves out those that are gone. Raises UserError."""
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            self._delete_together(keys[start : start + _DELETED_AT_ONCE])

    def _delete_together(self, keys: list[str]) -> None:
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        self._try(keys[0], lambda: self._files.call_s3("delete_objects", Bucket=self._name, Delete=wanted))

    def put_new(self, key: str, data: bytes) -> bool:
        """Stores an object where none is, in one step; False where one is there, which may be that of an attempt whose
        answer was lost. Raises UserError."""

        return self._put_if(key, data, IfNoneMatch="*")

    def put_changed(self, key: str, data: bytes, tag: str) -> bool:
        """Replaces an object whose tag is still this one, in one step; False where it is another, which may be that of
        an attempt whose answer was lost, and where there is none. Raises UserError."""
        return self._put_if(key, data, IfMatch=tag)

    def _put_if(self, key: str, data: bytes, **condition: str) -> bool:
        def put_or_leave() -> bool:
            try:
                self._files.call_s3("put_object", Bucket=self._name, Key=key, Body=data, **condition)
            except OSError as error:
                if _http_status(error) in _TAKEN or _error_code(error) == "NoSuchKey":
                    return False
                raise
            return True

        return self._try(key, put_or_leave)

    def _try(self, key: str, work: Callable[[], R]) -> R:
        """Does the work, again where its answer was cut off. Raises UserError."""
        with self._translated(self.url_of(key)):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return work()
                except _cut_answers():
                    if attempt == _ATTEMPTS:
                        raise
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _translated(self, item: str) -> Iterator[None]:
        try:
            yield
        except UserError:
            raise
        except FileNotFoundError:
            raise UserError(_STAGE, item, f"bucket {self._name} is not there", "check the address") from None
        except _service_errors() as error:
            secrets = [os.environ.get(name, "") for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")]
            reason = Redaction(secrets)(first_line(error))
            next_step = _NEXT_STEP
            if isinstance(error, PermissionError) or type(error).__name__ == "NoCredentialsError":
                next_step = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what they may do"
            raise UserError(_STAGE, item, f"the service failed ({reason})", next_step) from None


async def _read_piece(body: Any) -> bytes:
    try:
        piece: bytes = await body.read(_PIECE_BYTES)
        return piece
    except _service_errors() as error:
        raise _CutBodyError(first_line(error)) from None


def _cut_answers() -> tuple[type[Exception], ...]:
    """The errors of answers that end too early: botocore repeats only requests without an answer."""
    import aiohttp

    return _CutBodyError, aiohttp.ClientPayloadError


def _service_errors() -> tuple[type[Exception], ...]:
    import aiohttp
    from botocore.exceptions import BotoCoreError, ClientError

    return OSError, BotoCoreError, ClientError, aiohttp.ClientError


def _seconds(moment: Any) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else 0.0


def _response_of(error: BaseException) -> dict[str, Any]:
    """Returns the service's answer that an error is made of; empty where there is none."""
    response: dict[str, Any] = getattr(error.__cause__, "response", None) or {}
    return response


def _http_status(error: BaseException) -> int:
    return int(_response_of(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _error_code(error: BaseException) -> str:
    return str(_response_of(error).get("Error", {}).get("Code", ""))


@contextmanager
def _open_silent_bar(_title: str, _total: int, _unit: str) -> Iterator[Callable[[int], Any]]:
    yield lambda _bytes: None


transfer_bars: ContextVar[BarFactory] = ContextVar("transfer_bars", default=_open_silent_bar)


def open_transfer_bar(title: str, total: int) -> AbstractContextManager[Callable[[int], Any]]:
    """Opens the bar of a transfer of `total` bytes."""
    return transfer_bars.get()(title, total, "bytes")
