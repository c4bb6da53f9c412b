"""Concurrent image fetches: many at a time into files, a thread per core decodes and stores them with their facts.

A few files wait in between; those that are not stored when the process stops are fetched again. The next fetch goes to
the host that has waited longest among those that are open.
"""

import asyncio
import os
import queue
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from querytruth.backends.images import image_reading
from querytruth.backends.images.image_reading import TRANSIENT_REASONS, ScannedImage, read_image
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.images.worker_starts import WorkerFailure
from querytruth.backends.web.crawler_client import CrawlerClient
from querytruth.backends.web.page_store import FetchToStore, PageStore, StoredFetch
from querytruth.backends.web.web_records import FailedFetch, FetchedResource, WebRequest, parse_host

# The leading number goes up when the same bytes give other facts.
READER_VERSION = f"4 pillow {version('pillow')} {image_reading.MAX_PIXELS}"
DECODER_COUNT = os.cpu_count() or 1
_BINARY_FIELDS = ("views", "thumbnail", "details")
_FACT_FIELDS = ("width", "height", "format", "pixels", *_BINARY_FIELDS)
_decoding = threading.BoundedSemaphore(DECODER_COUNT)  # limits the processes, whatever the number of threads
FILES_PER_BATCH = 4  # files decoded and stored together


@dataclass(frozen=True, slots=True)
class FetchedImage:
    """An image with its facts, or the reason for its absence; `width` and `height` belong to the upright image."""

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
    views: bytes | None = None
    thumbnail: bytes | None = None
    details: bytes | None = None


def decode_images(paths: Sequence[Path]) -> list[ScannedImage]:
    """Return the facts of each file, or the reason why it cannot be used."""
    if not paths:
        return []
    with _decoding:
        scanned = list(map_in_workers(read_image, map(str, paths)))
    return [
        ScannedImage(reason=one.reason, detail=one.detail) if isinstance(one, WorkerFailure) else one for one in scanned
    ]


def image_facts_as_json(image: ScannedImage) -> dict[str, Any]:
    """Return the facts as plain JSON data."""
    facts = {name: getattr(image, name) for name in _FACT_FIELDS}
    return facts | {name: facts[name].hex() for name in _BINARY_FIELDS if facts[name] is not None}


def read_local_image(path: Path) -> FetchedImage:
    """Return the image of a local file."""
    [image] = decode_images([path])
    if image.reason:
        return FetchedImage("", image.reason, "final", image.detail or "", str(path))
    size, sha256 = image.size or 0, image.sha256 or ""
    return FetchedImage("", path=str(path), sha256=sha256, size=size, **_from_json(image_facts_as_json(image)))


def fetched_image_of(store: PageStore, one: StoredFetch, facts: dict[str, Any]) -> FetchedImage:
    """Return the image of a stored fetch, `facts` as from image_facts_as_json, or why it failed."""
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


class ImageFetchPool:
    """One run. A slow host, or one that asks for a pause, delays only its own fetches: they take no slot meanwhile."""

    def __init__(self, store: PageStore, web: CrawlerClient) -> None:
        self._store, self._web = store, web
        self._jobs: dict[str, deque[FetchJob]] = defaultdict(deque)  # by host
        self._workers: Counter[str] = Counter()  # at a host
        self._slots = asyncio.Semaphore(web.limits.concurrency)
        self._group = asyncio.TaskGroup()
        self._to_store: asyncio.Queue[FetchToStore] = asyncio.Queue(FILES_PER_BATCH)
        self._results: queue.SimpleQueue[tuple[str, FetchedImage] | BaseException | None] = queue.SimpleQueue()

    def run(self, requests: Sequence[WebRequest]) -> Iterator[tuple[str, FetchedImage]]:
        """Yield key and image of every request as they arrive. Raises StoreWriteError where the disk is full. All
        fetches end at once when the caller stops iterating."""
        self._web.start(self._run(requests)).add_done_callback(lambda _run: self._results.put(None))
        result: tuple[str, FetchedImage] | BaseException | None = None
        try:
            while (result := self._results.get()) is not None:
                if isinstance(result, BaseException):
                    raise result
                yield result
        except BaseException:
            self._web.stop()
            while self._results.get() is not None:
                pass
            raise

    async def _run(self, requests: Sequence[WebRequest]) -> None:
        for request in requests:
            self._jobs[parse_host(request.url)].append(FetchJob(request))
        writers = [asyncio.create_task(self._write()) for _ in range(DECODER_COUNT)]
        try:
            async with self._group:
                for host, jobs in self._jobs.items():
                    for _ in range(min(self._web.limits.per_host, len(jobs))):
                        self._start_worker(host)
        except BaseExceptionGroup as faults:  # raised again in the caller's thread
            self._results.put(faults.exceptions[0])
        finally:
            await self._to_store.join()
            for writer in writers:
                writer.cancel()

    def _start_worker(self, host: str) -> None:
        if self._workers[host] < self._web.limits.per_host:
            self._workers[host] += 1
            self._group.create_task(self._work(host))

    async def _work(self, host: str) -> None:
        jobs = self._jobs[host]
        while jobs:
            await self._web.hosts[host].wait_until_open()
            async with self._slots:
                if jobs:
                    await self._try(host, jobs.popleft())
        self._workers[host] -= 1

    async def _try(self, host: str, job: FetchJob) -> None:
        job.ends = job.ends or time.monotonic() + self._web.limits.seconds
        body = self._store.open_incoming_body()
        try:
            answer = await self._web.try_fetch(job.request, body.file, job.ends)
            pause = self._web.retry_delay(answer, job.attempt, job.ends)
            if pause is None:
                await self._to_store.put(FetchToStore(job.request, answer, body))
                return
        except BaseException:
            body.close()
            raise
        body.close()
        job.attempt += 1
        self._group.create_task(self._try_again(host, job, pause))

    async def _try_again(self, host: str, job: FetchJob, pause: float) -> None:
        """Put a job back, before the other jobs of its host, after a pause in seconds."""
        await asyncio.sleep(pause)
        self._jobs[host].appendleft(job)
        self._start_worker(host)

    async def _write(self) -> None:
        while True:
            batch = [await self._to_store.get()]
            while len(batch) < FILES_PER_BATCH and not self._to_store.empty():
                batch.append(self._to_store.get_nowait())
            await asyncio.to_thread(self._keep, batch)
            for _ in batch:
                self._to_store.task_done()

    def _keep(self, batch: Sequence[FetchToStore]) -> None:
        """Decode, store and close the files."""
        try:
            for result in self._decode_and_save(batch):
                self._results.put(result)
        except BaseException as error:  # raised again in the caller's thread
            self._results.put(error)
        finally:
            for one in batch:
                if one.body is not None:
                    one.body.close()

    def _decode_and_save(self, batch: Sequence[FetchToStore]) -> list[tuple[str, FetchedImage]]:
        files = {one.request.key: one.body for one in batch if one.body and isinstance(one.result, FetchedResource)}
        for body in files.values():
            body.file.flush()
        scanned = dict(zip(files, decode_images([body.path for body in files.values()]), strict=True))
        arrivals = [_arrival(one, scanned.get(one.request.key)) for one in batch]
        facts_by_key = {arrival.request.key: arrival.image_facts[1] for arrival in arrivals if arrival.image_facts}
        stored = self._store.save_all(arrivals)
        return [(one.key, fetched_image_of(self._store, one, facts_by_key.get(one.key, {}))) for one in stored]


def _arrival(fetched: FetchToStore, image: ScannedImage | None) -> FetchToStore:
    """Return the fetch to store: only a readable image has a body."""
    if image is not None and not image.reason:
        return fetched._replace(image_facts=(READER_VERSION, image_facts_as_json(image)))
    if image is None:
        return fetched._replace(body=None)
    passes = image.reason in TRANSIENT_REASONS
    failed = FailedFetch(str(image.reason), "transient" if passes else "final", image.detail or "")
    return FetchToStore(fetched.request, failed)
