"""The crawler's HTTP client: public addresses only, robots rules, limits. Model endpoints have another client.

Errors of hosts are results with a reason, not exceptions. All fetches of a process run in one event loop, in a thread
of its own; `start` and `fetch_with_retries` are the doors from other threads.
"""

import asyncio
import concurrent.futures
import hashlib
import io
import os
import ssl
import sys
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, BinaryIO, TypeVar

import aiohttp
from yarl import URL

from querytruth.backends.images.image_headers import sniff_format
from querytruth.backends.web import host_rules, pinned_connections
from querytruth.backends.web.page_store import PageStore, translate_write_errors
from querytruth.backends.web.timed_http import BodyUnpacker
from querytruth.backends.web.web_records import (
    STOPPED,
    BadUrl,
    FailedFetch,
    FetchedResource,
    FetchResult,
    RefusedFetch,
    WebLimits,
    WebRequest,
    WebUrl,
    parse_url,
    resolve_redirect,
)
from querytruth.errors import UserError

T = TypeVar("T")
Work = Coroutine[Any, Any, T]
ROBOTS_REASONS = ("forbidden_by_robots", "forbidden_by_robots_tag")
_REDIRECTS = (301, 302, 303, 307, 308)
_HEAD = 16  # bytes that show whether a body is an image
_ROBOTS_MAX_AGE = timedelta(hours=24)  # RFC 9309, 2.4
_HEADERS = ["content-type", "content-length", "content-encoding", "last-modified", "etag", "date", "x-robots-tag"]
_ACCEPT = {"picture": "image/*,*/*;q=0.5", "page": "application/json,text/html;q=0.5", "robots": "text/plain,*/*;q=0.5"}
_UNREACHABLE = ("no_such_host", "lookup_timed_out", "connection_failed", "timeout")
_GZIP = b"\x1f\x8b"  # the first bytes of gzip
_REFUSALS = {401: "forbidden", 403: "forbidden", 404: "not_found", 410: "not_found", 451: "forbidden"}


class CrawlerClient:
    """Fetches from many threads at a time. `contact` is an address for complaints of hosts. `robots_store` caches
    robots.txt for a day; `networks_for_tests` are not public, and no definition and no option sets them."""

    def __init__(
        self,
        limits: WebLimits | None = None,
        *,
        contact: str = "",
        respect_robots: bool = True,
        resolve: pinned_connections.HostLookup = pinned_connections.look_up_with_system,
        networks_for_tests: Sequence[pinned_connections.Network] = (),
        robots_store: PageStore | None = None,
    ) -> None:
        self.limits = limits or WebLimits()
        new_host = partial(host_rules.Host, self.limits.per_host, self.limits.interval)
        self.hosts: dict[str, host_rules.Host] = defaultdict(new_host)  # by authority
        self.stopped = threading.Event()
        self._robots_store = robots_store
        self.respects_robots = respect_robots
        if not (contact.isascii() and contact.isprintable()):
            raise UserError("fetch pages", "contact", "cannot be sent in a header", "give an address in plain ASCII")
        self._agent = f"{host_rules.ROBOTS_AGENT}/1.0 ({contact})" if contact else f"{host_rules.ROBOTS_AGENT}/1.0"
        self._resolver = pinned_connections.AddressResolver(resolve, networks_for_tests, self.limits.connect)
        self._tls = pinned_connections.make_tls_context()
        self._session: aiohttp.ClientSession | None = None
        self._robots: dict[str, asyncio.Task[host_rules.RobotRules | FailedFetch]] = {}
        self._running: set[asyncio.Task[Any]] = set()

    def fetch_with_retries(self, request: WebRequest) -> tuple[FetchResult, bytes]:
        """Fetch with retries within the seconds of a fetch. Return the result and the body, empty for a failure."""
        started = self.start(self._retry_fetch(request, time.monotonic() + self.limits.seconds))
        try:
            return started.result()
        except concurrent.futures.CancelledError:
            return FailedFetch(STOPPED, "transient"), b""
        except BaseException:  # Ctrl-C
            started.cancel()
            raise

    def start(self, work: Work[T]) -> "concurrent.futures.Future[T]":
        """Start a coroutine in the event loop, where `stop` cancels it."""
        return asyncio.run_coroutine_threadsafe(self._note(work), event_loop(os.getpid()))

    def stop(self) -> None:
        """End all running fetches and close the connections."""
        if not self.stopped.is_set():
            self.stopped.set()
            asyncio.run_coroutine_threadsafe(self._end(), event_loop(os.getpid())).result()

    async def try_fetch(self, request: WebRequest, out: BinaryIO, ends: float) -> FetchResult:
        """Make one try in the event loop until `ends` (monotonic clock); `out` is emptied and gets the decompressed
        body. Raises StoreWriteError where `out` cannot be written."""
        try:
            async with asyncio.timeout_at(ends):
                return await self._follow(request, out, ends)
        except BadUrl as error:
            return FailedFetch(error.reason, "final", error.detail)
        except RefusedFetch as refused:
            return refused.failure
        except TimeoutError:
            return FailedFetch("deadline", "transient", "the deadline passed, including the wait for the host's turn")

    def retry_delay(self, answer: FetchResult, attempt: int, ends: float) -> float | None:
        """Return the seconds before the next attempt, or None if there is none."""
        if isinstance(answer, FetchedResource) or answer.retry_in is None or attempt >= self.limits.tries:
            return None
        pause = max(answer.retry_in, self.limits.pause * 2.0 ** (attempt - 1))
        return pause if time.monotonic() + pause < ends else None

    async def _note(self, work: Work[T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            if self.stopped.is_set():
                work.close()
                raise asyncio.CancelledError
            return await work
        finally:
            self._running.discard(task)

    async def _end(self) -> None:
        for task in self._running:
            task.cancel()
        if self._session is not None:
            await self._session.close()

    async def _retry_fetch(self, request: WebRequest, ends: float) -> tuple[FetchResult, bytes]:
        out = io.BytesIO()
        for attempt in range(1, self.limits.tries + 1):
            answer = await self.try_fetch(request, out, ends)
            pause = self.retry_delay(answer, attempt, ends)
            if pause is None:
                break
            await asyncio.sleep(pause)
        return answer, out.getvalue() if isinstance(answer, FetchedResource) else b""

    async def _follow(self, request: WebRequest, out: BinaryIO, ends: float) -> FetchedResource:
        url = parse_url(request.url)
        for _ in range(self.limits.redirects + 1):
            await self._ask_robots(url, request, ends)
            async with self.hosts[url.authority].turn():
                answer = await self._hop(url, request, out)
            if isinstance(answer, FetchedResource):
                return answer
            url = answer
        raise RefusedFetch("too_many_redirects", "final", f"more than {self.limits.redirects} redirects")

    async def _hop(self, url: WebUrl, request: WebRequest, out: BinaryIO) -> FetchedResource | WebUrl:
        if self._session is None:
            self._connector = pinned_connections.PinnedConnector(self._resolver, self._tls)
            self._session = pinned_connections.open_session(self._connector, self.limits)
            weakref.finalize(self, _close_session, self._session, event_loop(os.getpid()))
        address, headers = URL(url.normalized, encoded=True), self._headers(url, request)
        try:
            async with self._session.get(address, headers=headers, allow_redirects=False) as response:
                self._note_refusal(url, response)
                if response.status in _REDIRECTS and response.headers.get("Location"):
                    return resolve_redirect(url, _plain_text(response.headers["Location"], "replace"))
                return await self._read_response(url, request, response, out)
        except BadUrl:
            raise
        except (RefusedFetch, aiohttp.ClientError, OSError, ValueError) as error:
            refused = error if isinstance(error, RefusedFetch) else _classify_error(error)
            if refused.failure.reason in _UNREACHABLE:
                self.hosts[url.authority].record_unreachable(refused.failure)
            raise refused from None

    def _headers(self, url: WebUrl, request: WebRequest) -> dict[str, str]:
        headers = {
            "User-Agent": self._agent,
            "Accept": _ACCEPT[request.kind],
            "Accept-Encoding": "identity" if request.kind == "picture" else "gzip, deflate",
            "Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8",
            "Host": url.authority,
        }
        with suppress(BadUrl):
            page = parse_url(request.referer)
            if page.scheme == "http" or url.scheme == "https":  # an https address is never sent over http
                headers["Referer"] = page.normalized
        return headers

    def _note_refusal(self, url: WebUrl, response: aiohttp.ClientResponse) -> None:
        if response.status not in (429, 503):
            self.hosts[url.authority].record_answer()
            return
        reason = "rate_limited" if response.status == 429 else "server_error"
        pause = host_rules.retry_after({"retry-after": response.headers.get("Retry-After") or ""})
        refused = RefusedFetch(reason, "transient", f"status {response.status}", retry_in=pause)
        self.hosts[url.authority].record_refusal(url.normalized, refused.failure, pause)
        raise refused

    async def _read_response(
        self, url: WebUrl, request: WebRequest, response: aiohttp.ClientResponse, out: BinaryIO
    ) -> FetchedResource:
        _check_status(response.status)
        is_robots = request.kind == "robots"
        tags = response.headers.getall("X-Robots-Tag", []) if self.respects_robots and not request.is_api else []
        if not is_robots and (directive := host_rules.find_forbidding_directive(tags)):
            raise RefusedFetch("forbidden_by_robots_tag", "final", directive)
        digest, head, size = hashlib.sha256(), b"", 0
        out.seek(0)
        out.truncate()
        most = sys.maxsize if is_robots else self.limits.max_bytes
        if (announced := response.content_length or 0) > most:
            raise RefusedFetch("too_many_bytes", "final", f"{announced} bytes announced")
        unpacker = BodyUnpacker(response.headers.get("Content-Encoding", ""), most)
        self._connector.watch(response)
        async for packed in response.content.iter_any():
            for piece in unpacker.unpack(packed):
                if len(head) < _HEAD and request.kind == "picture":
                    head += piece[:_HEAD]
                    if len(head) >= _HEAD and sniff_format(head) is None:  # before the rest is sent
                        raise RefusedFetch("not_an_image", "final")
                digest.update(piece)
                with translate_write_errors():  # a full disk is not the host's failure
                    out.write(piece)
                size += len(piece)
            if is_robots and size >= host_rules.MAX_ROBOTS_BYTES:  # the rest is ignored
                break
        else:
            unpacker.end()
        headers = {
            name.lower(): _plain_text(value, "backslashreplace")[:1000]
            for name, value in response.headers.items()
            if name.lower() in _HEADERS
        }
        return FetchedResource(url.normalized, response.status, headers, digest.hexdigest(), size)

    async def _ask_robots(self, url: WebUrl, request: WebRequest, ends: float) -> None:
        if not self.respects_robots or request.is_api or request.kind == "robots" or url.target == "/robots.txt":
            return
        asked = self._robots.get(url.origin)
        if asked is None:
            asked = self._robots[url.origin] = asyncio.create_task(self._note(self._learn_robots(url, ends)))
        rules = await asyncio.shield(asked)
        if isinstance(rules, FailedFetch):
            raise RefusedFetch(rules.reason, "transient", rules.detail)
        if not rules.is_allowed(url.target):
            raise RefusedFetch("forbidden_by_robots", "final", f"robots.txt of {url.authority}")

    async def _learn_robots(self, url: WebUrl, ends: float) -> host_rules.RobotRules | FailedFetch:
        had_time = ends - time.monotonic() > self.limits.seconds / 2
        rules = await self._read_robots(url, ends)
        if not had_time and isinstance(rules, FailedFetch):  # the host may not be the cause
            del self._robots[url.origin]
        return rules

    async def _read_robots(self, url: WebUrl, ends: float) -> host_rules.RobotRules | FailedFetch:
        """Return the rules of a host. RFC 9309, 2.3.1: a missing robots.txt forbids nothing; one that cannot be had or
        read forbids everything for now."""
        answer, body = await self._cached_robots(WebRequest(f"{url.origin}/robots.txt", "robots"), ends)
        if isinstance(answer, FetchedResource):
            if body.startswith(_GZIP) or b"\0" in body:
                return FailedFetch("robots_unreadable", "transient", "not text: compressed twice, or without a header")
            rules = host_rules.parse_robots(body[: host_rules.MAX_ROBOTS_BYTES].decode("utf-8", "replace"))
            host = self.hosts[url.authority]
            host.interval = max(host.interval, rules.delay)
            return rules
        if answer.reason == "bad_encoding" or answer.detail.startswith("status 2"):  # a part of it, or none
            return FailedFetch("robots_unreadable", "transient", answer.detail)
        if answer.kind == "final":
            return host_rules.RobotRules()
        if answer.reason in ("rate_limited", "server_error"):
            return FailedFetch("robots_unreachable", "transient", answer.detail)
        return answer

    async def _cached_robots(self, request: WebRequest, ends: float) -> tuple[FetchResult, bytes]:
        store = self._robots_store
        if store and (known := await asyncio.to_thread(_find_robots, store, request)):
            return known
        answer, body = await self._retry_fetch(request, ends)
        if store:
            await asyncio.to_thread(store.save, request, answer, body)
        return answer, body


def _find_robots(store: PageStore, request: WebRequest) -> tuple[FetchResult, bytes] | None:
    known = store.find([request]).get(request.key)
    if known and known.outcome in ("kept", "final"):
        age = datetime.now(UTC) - datetime.fromisoformat(known.fetched_at)
        if timedelta(0) <= age < _ROBOTS_MAX_AGE:
            return known.result, store.read_body(known.sha256) if known.outcome == "kept" else b""
    return None


def _plain_text(header: str, errors: str) -> str:
    """Return a header's value without the marks of bytes that are not UTF-8."""
    return header.encode("utf-8", "surrogateescape").decode("utf-8", errors)


def _classify_error(error: Exception) -> RefusedFetch:
    """Return the failure of an error; only a failed connection is worth another try at once."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLError):
        return RefusedFetch("tls_error", "transient", getattr(cause, "verify_message", "") or str(cause.reason))
    if isinstance(error, TimeoutError):
        return RefusedFetch("timeout", "transient", "no data received for too long")
    if isinstance(error, aiohttp.ClientPayloadError):
        return RefusedFetch("incomplete", "transient", "the body ends too early", retry_in=0.0)
    if isinstance(error, (OSError, aiohttp.ClientConnectionError)):
        return RefusedFetch("connection_failed", "transient", type(cause).__name__, retry_in=0.0)
    return RefusedFetch("bad_http", "transient", type(cause).__name__, retry_in=0.0)


@cache
def event_loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of all clients in this process (a forked one needs its own)."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="web", daemon=True).start()
    return loop


def _close_session(session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop) -> None:
    if not session.closed:
        asyncio.run_coroutine_threadsafe(session.close(), loop)


def _check_status(status: int) -> None:
    if status == 200:
        return
    if status >= 500:
        raise RefusedFetch("server_error", "transient", f"status {status}", retry_in=0.0)
    raise RefusedFetch(_REFUSALS.get(status, "unexpected_status"), "final", f"status {status}")
