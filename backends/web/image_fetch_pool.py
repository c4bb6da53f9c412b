"""Concurrent image fetches: many threads fetch into files, a thread per core decodes and stores them.

A few files wait in between; those that are not stored when the process stops are fetched again.
"""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backends.images.image_reading import TRANSIENT_REASONS, ScannedImage
from backends.web.crawler_client import CrawlerClient
from backends.web.decoded_images import (
    DECODER_COUNT,
    READER_VERSION,
    FetchedImage,
    decode_images,
    fetched_image_of,
    image_facts_as_json,
)
from backends.web.fetch_queue import FetchQueue
from backends.web.page_store import FetchToStore, IncomingBody, PageStore
from backends.web.web_records import FailedFetch, FetchedResource, WebRequest
from backends.web.web_urls import parse_host

FILES_PER_BATCH = 4  # files decoded and stored together


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
