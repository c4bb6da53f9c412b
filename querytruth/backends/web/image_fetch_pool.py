"""Concurrent image fetches: many threads fetch into files, a thread per core decodes and stores them.

A few files wait in between; those that are not stored when the process stops are fetched again.

The queue of fetches: the next one goes to the host that has waited longest among those that are open.

A slow host, or one that asks for a pause, delays only its own fetches: no thread waits for it while another is open.

Fetched images and their facts, decoded in worker processes.
"""

import heapq
import os
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

from querytruth.backends.images import image_reading
from querytruth.backends.images.image_reading import TRANSIENT_REASONS, ScannedImage, read_image
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.images.worker_starts import WorkerFailure
from querytruth.backends.web.crawler_client import CrawlerClient
from querytruth.backends.web.page_store import FetchToStore, IncomingBody, PageStore, StoredFetch
from querytruth.backends.web.web_records import FailedFetch, FetchedResource, WebRequest, parse_host

T = TypeVar("T")
# The leading number goes up when the same bytes give other facts.
READER_VERSION = f"3 pillow {version('pillow')} {image_reading.MAX_PIXELS}"
DECODER_COUNT = os.cpu_count() or 1
_BINARY_FIELDS = ("outline", "patches", "thumbnail", "colours", "details")
_FACT_FIELDS = ("width", "height", "format", "pixels", "phash", "turned", *_BINARY_FIELDS)
_decoding = threading.BoundedSemaphore(DECODER_COUNT)  # limits the processes, whatever the number of threads
FILES_PER_BATCH = 4  # files decoded and stored together


@dataclass(slots=True)
class _Waiting(Generic[T]):
    jobs: deque[T] = field(default_factory=deque)
    under_way: int = 0
    is_listed: bool = False


class FetchQueue(Generic[T]):
    """Jobs by host. `opens_at` returns the time (monotonic clock) from which a host accepts the next request."""

    def __init__(self, per_host: int, opens_at: Callable[[str], float]) -> None:
        self._per_host, self._opens_at = per_host, opens_at
        self._hosts: dict[str, _Waiting[T]] = defaultdict(_Waiting)
        self._listed: list[tuple[float, int, str]] = []  # hosts with a job and a free slot, by opening time
        self._later: list[tuple[float, int, str, T]] = []  # jobs to retry, by time
        self._numbers, self._unfinished, self._stopped = count(), 0, False
        self._changed = threading.Condition()

    def put(self, host: str, job: T) -> None:
        """Adds a job after the other jobs of its host."""
        with self._changed:
            self._unfinished += 1
            self._hosts[host].jobs.append(job)
            self._list(host)
            self._changed.notify()

    def take(self) -> tuple[str, T] | None:
        """Waits for the next job and returns it with its host; None when all are done or the queue is stopped."""
        with self._changed:
            while self._unfinished and not self._stopped:
                now = time.monotonic()
                self._bring_forward(now)
                if self._listed and self._listed[0][0] <= now:
                    host = heapq.heappop(self._listed)[2]
                    waiting = self._hosts[host]
                    waiting.is_listed = False
                    waiting.under_way += 1
                    job = waiting.jobs.popleft()
                    self._list(host)
                    return host, job
                moments = [host[0] for host in self._listed[:1]] + [job[0] for job in self._later[:1]]
                self._changed.wait(min(moments) - now if moments else None)
            return None

    def done(self, host: str) -> None:
        """Marks a taken job as finished."""
        with self._changed:
            self._unfinished -= 1
            self._release(host)

    def retry_later(self, host: str, job: T, pause: float) -> None:
        """Puts a taken job back, before the other jobs of its host, after a pause in seconds."""
        with self._changed:
            heapq.heappush(self._later, (time.monotonic() + pause, next(self._numbers), host, job))
            self._release(host)

    def stop(self) -> None:
        """Stops handing out jobs."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _release(self, host: str) -> None:
        self._hosts[host].under_way -= 1
        self._list(host)
        self._changed.notify_all()

    def _bring_forward(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            _, _, host, job = heapq.heappop(self._later)
            self._hosts[host].jobs.appendleft(job)
            self._list(host)

    def _list(self, host: str) -> None:
        waiting = self._hosts[host]
        if waiting.jobs and not waiting.is_listed and waiting.under_way < self._per_host:
            waiting.is_listed = True
            heapq.heappush(self._listed, (self._opens_at(host), next(self._numbers), host))


@dataclass(frozen=True, slots=True)
class FetchedImage:
    """An image with its facts, or the reason why there is none; `width` and `height` are of the upright image."""

    url: str
    reason: str = ""
    kind: str = ""  # of the failure: transient, final
    detail: str = ""
    path: str = ""
    final_url: str = ""
    fetched_at: str = ""
    sha256: str = ""
    size: int = 0
    width: int = 0
    height: int = 0
    format: str = ""
    pixels: str = ""
    phash: int | None = None
    turned: list[int] | None = None
    outline: bytes | None = None
    patches: bytes | None = None
    thumbnail: bytes | None = None
    colours: bytes | None = None
    details: bytes | None = None


def decode_images(paths: Sequence[Path]) -> list[ScannedImage]:
    """Returns the facts of each file, or the reason why it cannot be used."""
    if not paths:
        return []
    with _decoding:
        scanned = list(map_in_workers(read_image, map(str, paths)))
    return [
        ScannedImage(reason=one.reason, detail=one.detail) if isinstance(one, WorkerFailure) else one for one in scanned
    ]


def image_facts_as_json(image: ScannedImage) -> dict[str, Any]:
    """Returns the facts as plain JSON data."""
    facts = {name: getattr(image, name) for name in _FACT_FIELDS}
    return facts | {name: facts[name].hex() for name in _BINARY_FIELDS if facts[name] is not None}


def read_local_image(path: Path) -> FetchedImage:
    """Returns the image of a local file."""
    [image] = decode_images([path])
    if image.reason:
        return FetchedImage("", image.reason, "final", image.detail or "", str(path))
    size, sha256 = image.size or 0, image.sha256 or ""
    return FetchedImage("", path=str(path), sha256=sha256, size=size, **_from_json(image_facts_as_json(image)))


def fetched_image_of(store: PageStore, one: StoredFetch, facts: dict[str, Any]) -> FetchedImage:
    """Returns the image of a stored fetch, `facts` as from image_facts_as_json, or why it failed."""
    if one.outcome != "kept":
        return FetchedImage(one.url, one.reason, one.outcome, one.detail, fetched_at=one.fetched_at)
    place = str(store.body_path(one.sha256))
    fetch_fields = (one.final_url, one.fetched_at, one.sha256, one.size)
    return FetchedImage(one.url, "", "", "", place, *fetch_fields, **_from_json(facts))


def _from_json(facts: dict[str, Any]) -> dict[str, Any]:
    return facts | {name: bytes.fromhex(facts[name]) for name in _BINARY_FIELDS if facts[name] is not None}


@dataclass(slots=True)
class FetchJob:
    """A request to fetch; `ends` (monotonic clock) is set by the first try."""

    request: WebRequest
    ends: float = 0.0
    attempt: int = 1


@dataclass(slots=True)
class _FetchedFile:
    request: WebRequest
    answer: FetchedResource | FailedFetch
    body: IncomingBody


class ImageFetchPool:
    """One run with its threads."""

    def __init__(self, store: PageStore, web: CrawlerClient) -> None:
        self._store, self._web = store, web
        self._queue: FetchQueue[FetchJob] = FetchQueue(web.limits.per_host, web.throttle.opens_at)
        self._to_store: queue.Queue[_FetchedFile | None] = queue.Queue(FILES_PER_BATCH)
        self._results: queue.SimpleQueue[tuple[str, FetchedImage] | BaseException] = queue.SimpleQueue()

    def run(self, requests: Sequence[WebRequest]) -> Iterator[tuple[str, FetchedImage]]:
        """Yields key and image of every request as they arrive. Raises StoreWriteError where the disk is full. All
        threads end at once when the caller stops iterating."""
        for request in requests:
            self._queue.put(parse_host(request.url), FetchJob(request))
        count = min(self._web.limits.concurrency, len(requests))
        fetchers = [threading.Thread(target=self._fetch, name=f"fetch-{n}", daemon=True) for n in range(count)]
        writers = [threading.Thread(target=self._write, name=f"store-{n}", daemon=True) for n in range(DECODER_COUNT)]
        for thread in (*fetchers, *writers):
            thread.start()
        try:
            for _ in requests:
                result = self._results.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        except BaseException:
            self._web.stop()
            raise
        finally:
            self._queue.stop()
            for thread in fetchers:
                thread.join()
            for _ in writers:
                self._to_store.put(None)
            for thread in writers:
                thread.join()

    def _fetch(self) -> None:
        while (taken := self._queue.take()) is not None:
            host, job = taken
            body: IncomingBody | None = None
            try:
                job.ends = job.ends or time.monotonic() + self._web.limits.seconds
                body = self._store.open_incoming_body()
                answer = self._web.fetch(job.request, body.file, job.ends)
                pause = self._web.retry_delay(answer, job.attempt, job.ends)
                if pause is not None and not self._web.stopped.is_set():
                    body.close()
                    job.attempt += 1
                    self._queue.retry_later(host, job, pause)
                    continue
                self._to_store.put(_FetchedFile(job.request, answer, body))
            except BaseException as error:  # raised again in the caller's thread
                if body is not None:
                    body.close()
                self._results.put(error)
            self._queue.done(host)

    def _write(self) -> None:
        """Decodes and stores until no more files arrive, and closes every file."""
        while (file := self._to_store.get()) is not None:
            batch = [file, *self._waiting_files()]
            try:
                for result in self._decode_and_save(batch):
                    self._results.put(result)
            except BaseException as error:  # raised again in the caller's thread
                self._results.put(error)
            finally:
                for one in batch:
                    one.body.close()

    def _waiting_files(self) -> Iterator[_FetchedFile]:
        for _ in range(FILES_PER_BATCH - 1):
            try:
                file = self._to_store.get_nowait()
            except queue.Empty:
                return
            if file is None:
                self._to_store.put(None)  # for this thread or another
                return
            yield file

    def _decode_and_save(self, batch: Sequence[_FetchedFile]) -> list[tuple[str, FetchedImage]]:
        fetched = [one for one in batch if isinstance(one.answer, FetchedResource)]
        for one in fetched:
            one.body.file.flush()
        images = decode_images([one.body.path for one in fetched])
        scanned = {one.request.key: image for one, image in zip(fetched, images, strict=True)}
        arrivals = [_arrival(one, scanned.get(one.request.key)) for one in batch]
        facts_by_key = {arrival.request.key: arrival.image_facts[1] for arrival in arrivals if arrival.image_facts}
        stored = self._store.save_all(arrivals)
        return [(one.key, fetched_image_of(self._store, one, facts_by_key.get(one.key, {}))) for one in stored]


def _arrival(file: _FetchedFile, image: ScannedImage | None) -> FetchToStore:
    """Returns the fetch to store: only a readable image has a body."""
    if image is None:
        return FetchToStore(file.request, file.answer)
    if not image.reason:
        return FetchToStore(file.request, file.answer, file.body, (READER_VERSION, image_facts_as_json(image)))
    passes = image.reason in TRANSIENT_REASONS
    return FetchToStore(file.request, FailedFetch(image.reason, "transient" if passes else "final", image.detail or ""))
