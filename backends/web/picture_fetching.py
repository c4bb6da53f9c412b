"""Many pictures fetched at a time. Threads fetch into files; a thread per core has what came decoded, and keeps it.

A few files wait in between: what is fetched and not yet kept when the machine stops is fetched again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backends.pictures.picture_reading import Picture
from backends.web.decoded_pictures import DECODERS, READER, FetchedPicture, decoded, facts_of, kept_picture
from backends.web.fetch_queue import FetchQueue
from backends.web.guarded_web import GuardedWeb
from backends.web.page_store import Arrival, Incoming, PageStore, stored
from backends.web.web_records import Failed, Fetched, WebRequest
from backends.web.web_urls import BadUrl, read_url

TOGETHER = 4  # files that are decoded and kept in one go
_TRANSIENT = frozenset({"took_too_long", "worker_crashed", "out_of_memory", "unreadable"})


@dataclass(slots=True)
class Job:
    """An address to fetch; `ends` (monotonic clock) is set with the first try."""

    request: WebRequest
    ends: float = 0.0
    attempt: int = 1


@dataclass(slots=True)
class _Came:
    request: WebRequest
    answer: Fetched | Failed
    body: Incoming


class PictureFetching:
    """One run, with its threads."""

    def __init__(self, store: PageStore, web: GuardedWeb) -> None:
        self._store, self._web = store, web
        self._queue: FetchQueue[Job] = FetchQueue(web.limits.per_host, web.turns.opens_at)
        self._came: queue.Queue[_Came | None] = queue.Queue(TOGETHER)
        self._results: queue.SimpleQueue[tuple[str, FetchedPicture] | BaseException] = queue.SimpleQueue()

    def run(self, requests: Sequence[WebRequest]) -> Iterator[tuple[str, FetchedPicture]]:
        """Key and picture of every request, as they come. CannotKeep where the disk is full. When the caller goes
        away, be it by an exception, everything ends at once."""
        for request in requests:
            self._queue.put(_host(request.url), Job(request))
        count = min(self._web.limits.concurrency, len(requests))
        fetchers = [threading.Thread(target=self._fetch, name=f"fetch-{n}", daemon=True) for n in range(count)]
        keepers = [threading.Thread(target=self._keep, name=f"keep-{n}", daemon=True) for n in range(DECODERS)]
        for thread in (*fetchers, *keepers):
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
            for _ in keepers:
                self._came.put(None)
            for thread in keepers:
                thread.join()

    def _fetch(self) -> None:
        while (taken := self._queue.take()) is not None:
            host, job = taken
            body: Incoming | None = None
            try:
                job.ends = job.ends or time.monotonic() + self._web.limits.seconds
                body = self._store.incoming()
                answer = self._web.fetch(job.request, body.file, job.ends)
                pause = self._web.pause_before_next(answer, job.attempt, job.ends)
                if pause is not None and not self._web.stopped.is_set():
                    body.close()
                    job.attempt += 1
                    self._queue.again(host, job, pause)
                    continue
                self._came.put(_Came(job.request, answer, body))
            except BaseException as error:  # a full disk, or a defect: for the caller
                if body is not None:
                    body.close()
                self._results.put(error)
            self._queue.done(host)

    def _keep(self) -> None:
        """Until there is no more: everything that came is closed, whatever happens."""
        while (came := self._came.get()) is not None:
            batch = [came, *self._more()]
            try:
                for result in self._kept(batch):
                    self._results.put(result)
            except BaseException as error:  # a full disk, a decoder that does not start: for the caller
                self._results.put(error)
            finally:
                for one in batch:
                    one.body.close()

    def _more(self) -> Iterator[_Came]:
        for _ in range(TOGETHER - 1):
            try:
                came = self._came.get_nowait()
            except queue.Empty:
                return
            if came is None:
                self._came.put(None)  # for this thread or another
                return
            yield came

    def _kept(self, batch: Sequence[_Came]) -> list[tuple[str, FetchedPicture]]:
        fetched = [one for one in batch if isinstance(one.answer, Fetched)]
        for one in fetched:
            one.body.file.flush()
        pictures = decoded([one.body.path for one in fetched])
        seen = {one.request.key: picture for one, picture in zip(fetched, pictures, strict=True)}
        arrivals = [_arrival(one, seen.get(one.request.key)) for one in batch]
        looks = {arrival.request.key: arrival.looks[1] for arrival in arrivals if arrival.looks}
        kept = self._store.keep_all([arrival for arrival in arrivals if not _was_stopped(arrival)])
        kept += [stored(arrival.request, arrival.result) for arrival in arrivals if _was_stopped(arrival)]
        return [(one.key, kept_picture(self._store, one, looks.get(one.key, {}))) for one in kept]


def _arrival(came: _Came, picture: Picture | None) -> Arrival:
    """The fetch as it is to be kept: only what is a picture has a body."""
    if picture is None:
        return Arrival(came.request, came.answer)
    if not picture.reason:
        return Arrival(came.request, came.answer, came.body, (READER, facts_of(picture)))
    passes = picture.reason in _TRANSIENT
    return Arrival(came.request, Failed(picture.reason, "transient" if passes else "final", picture.detail or ""))


def _was_stopped(arrival: Arrival) -> bool:
    return isinstance(arrival.result, Failed) and arrival.result.reason == "stopped"


def _host(url: str) -> str:
    try:
        return read_url(url).place
    except BadUrl:
        return ""
