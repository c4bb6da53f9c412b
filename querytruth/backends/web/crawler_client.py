"""The crawler's HTTP client: public addresses only, robots rules, limits. Model endpoints have another client.

Errors of hosts are results with a reason, not exceptions.
"""

import hashlib
import http.client
import io
import ssl
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from querytruth.backends.images.image_headers import sniff_format
from querytruth.backends.web import host_rules, pinned_connections
from querytruth.backends.web.page_store import PageStore, translate_write_errors
from querytruth.backends.web.timed_http import read_body_pieces
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
        self.throttle = host_rules.HostThrottle(self.limits.per_host, self.limits.interval)
        self.stopped = threading.Event()
        self._robots_store = robots_store
        self.respects_robots = respect_robots
        if not (contact.isascii() and contact.isprintable()):
            raise UserError("fetch pages", "contact", "cannot be sent in a header", "give an address in plain ASCII")
        self._agent = f"{host_rules.ROBOTS_AGENT}/1.0 ({contact})" if contact else f"{host_rules.ROBOTS_AGENT}/1.0"
        self._connections = pinned_connections.PinnedConnectionPool(
            pinned_connections.AddressResolver(resolve, networks_for_tests), self.limits
        )
        self._robots: dict[str, host_rules.RobotRules | FailedFetch] = {}
        self._robots_locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def fetch(self, request: WebRequest, out: BinaryIO, ends: float) -> FetchResult:
        """Makes one try until `ends` (monotonic clock); `out` is emptied and gets the decompressed body. Raises
        StoreWriteError where `out` cannot be written."""
        try:
            url = parse_url(request.url)
            for _ in range(self.limits.redirects + 1):
                self._ask_robots(url, request, ends)
                with self.throttle.acquire(url.authority, ends):
                    answer = self._hop(url, request, out, ends)
                if isinstance(answer, FetchedResource):
                    return answer
                url = answer
            raise RefusedFetch("too_many_redirects", "final", f"more than {self.limits.redirects}")
        except BadUrl as error:
            return FailedFetch(error.reason, "final", error.detail)
        except RefusedFetch as refused:
            return refused.failure

    def fetch_with_retries(self, request: WebRequest, ends: float | None = None) -> tuple[FetchResult, bytes]:
        """Fetches with retries until `ends`, or within the seconds of a fetch. Returns the result and the body, empty
        for a failure."""
        ends = time.monotonic() + self.limits.seconds if ends is None else ends
        out = io.BytesIO()
        for attempt in range(1, self.limits.tries + 1):
            answer = self.fetch(request, out, ends)
            pause = self.retry_delay(answer, attempt, ends)
            if pause is None or self.stopped.wait(pause):
                break
        return answer, out.getvalue() if isinstance(answer, FetchedResource) else b""

    def retry_delay(self, answer: FetchResult, attempt: int, ends: float) -> float | None:
        """Returns the seconds before the next try; None where there is none."""
        if isinstance(answer, FetchedResource) or answer.retry_in is None or attempt >= self.limits.tries:
            return None
        pause = max(answer.retry_in, self.limits.pause * 2.0 ** (attempt - 1))
        return pause if time.monotonic() + pause < ends else None

    def stop(self) -> None:
        """Ends all running fetches."""
        self.stopped.set()
        self.throttle.stop()
        self._connections.close()

    def _hop(self, url: WebUrl, request: WebRequest, out: BinaryIO, ends: float) -> FetchedResource | WebUrl:
        try:
            with self._connections.open_response(url, self._headers(url, request), ends) as response:
                self._note_refusal(url, response)
                if response.status in _REDIRECTS and response.headers.get("Location"):
                    # http.client decodes headers as Latin-1; servers send UTF-8.
                    location = response.headers["Location"].encode("latin-1", "replace").decode("utf-8", "replace")
                    return resolve_redirect(url, location)
                return self._read_response(url, request, response, out)
        except BadUrl:
            raise
        except (RefusedFetch, OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            refused = error if isinstance(error, RefusedFetch) else self._classify_error(error, ends)
            if refused.failure.reason in _UNREACHABLE:
                self.throttle.record_unreachable(url.authority, refused.failure)
            raise refused from None

    def _headers(self, url: WebUrl, request: WebRequest) -> dict[str, str]:
        headers = {
            "User-Agent": self._agent,
            "Accept": _ACCEPT[request.kind],
            "Accept-Encoding": "identity" if request.kind == "picture" else "gzip, deflate",
            "Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8",
            "Connection": "keep-alive",
        }
        with suppress(BadUrl):
            page = parse_url(request.referer)
            if page.scheme == "http" or url.scheme == "https":  # an https address is never sent over http
                headers["Referer"] = page.normalized
        return headers

    def _note_refusal(self, url: WebUrl, response: http.client.HTTPResponse) -> None:
        if response.status not in (429, 503):
            self.throttle.record_answer(url.authority)
            return
        reason = "rate_limited" if response.status == 429 else "server_error"
        pause = host_rules.retry_after({"retry-after": response.headers.get("Retry-After") or ""})
        refused = RefusedFetch(reason, "transient", f"status {response.status}", retry_in=pause)
        self.throttle.record_refusal(url.authority, url.normalized, refused.failure, pause)
        raise refused

    def _read_response(
        self, url: WebUrl, request: WebRequest, response: http.client.HTTPResponse, out: BinaryIO
    ) -> FetchedResource:
        _check_status(response.status)
        is_robots = request.kind == "robots"
        tags = response.headers.get_all("X-Robots-Tag") if self.respects_robots and not request.is_api else None
        if not is_robots and (directive := host_rules.find_forbidding_directive(map(str, tags or []))):
            raise RefusedFetch("forbidden_by_robots_tag", "final", directive)
        digest, head, size = hashlib.sha256(), b"", 0
        out.seek(0)
        out.truncate()
        for piece in read_body_pieces(response, sys.maxsize if is_robots else self.limits.max_bytes):
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
        headers = {
            name.lower(): value.encode("utf-8", "backslashreplace").decode()[:1000]
            for name, value in response.headers.items()
            if name.lower() in _HEADERS
        }
        return FetchedResource(url.normalized, response.status, headers, digest.hexdigest(), size)

    def _ask_robots(self, url: WebUrl, request: WebRequest, ends: float) -> None:
        if not self.respects_robots or request.is_api or request.kind == "robots" or url.target == "/robots.txt":
            return
        with self._lock:
            lock = self._robots_locks.setdefault(url.origin, threading.Lock())
        if not lock.acquire(timeout=max(0.0, ends - time.monotonic())):
            raise RefusedFetch("deadline", "transient", "robots.txt took too long")
        try:
            rules = self._robots.get(url.origin)
            if rules is None:
                had_time = ends - time.monotonic() > self.limits.seconds / 2
                rules = self._read_robots(url, ends)
                if had_time or isinstance(rules, host_rules.RobotRules):  # else the host may not be the cause
                    self._robots[url.origin] = rules
        finally:
            lock.release()
        if isinstance(rules, FailedFetch):
            raise RefusedFetch(rules.reason, "transient", rules.detail)
        if not rules.is_allowed(url.target):
            raise RefusedFetch("forbidden_by_robots", "final", f"robots.txt of {url.authority}")

    def _read_robots(self, url: WebUrl, ends: float) -> host_rules.RobotRules | FailedFetch:
        """RFC 9309, 2.3.1: a missing robots.txt forbids nothing; one that cannot be had or read forbids everything for
        now."""
        answer, body = self._cached_robots(WebRequest(f"{url.origin}/robots.txt", "robots"), ends)
        if isinstance(answer, FetchedResource):
            if body.startswith(_GZIP) or b"\0" in body:
                return FailedFetch("robots_unreadable", "transient", "it is no text: compressed twice, or unannounced")
            rules = host_rules.parse_robots(body[: host_rules.MAX_ROBOTS_BYTES].decode("utf-8", "replace"))
            if rules.delay:
                self.throttle.set_interval(url.authority, rules.delay)
            return rules
        if answer.reason == "bad_encoding" or answer.detail.startswith("status 2"):  # a part of it, or none
            return FailedFetch("robots_unreadable", "transient", answer.detail)
        if answer.kind == "final":
            return host_rules.RobotRules()
        if answer.reason in ("rate_limited", "server_error"):
            return FailedFetch("robots_unreachable", "transient", answer.detail)
        return answer

    def _cached_robots(self, request: WebRequest, ends: float) -> tuple[FetchResult, bytes]:
        store = self._robots_store
        known = store.find([request]).get(request.key) if store else None
        if store and known and known.outcome in ("kept", "final"):
            age = datetime.now(UTC) - datetime.fromisoformat(known.fetched_at)
            if timedelta(0) <= age < _ROBOTS_MAX_AGE:
                return known.result, store.read_body(known.sha256) if known.outcome == "kept" else b""
        answer, body = self.fetch_with_retries(request, ends)
        if store:
            store.save(request, answer, body)
        return answer, body

    def _classify_error(self, error: Exception, ends: float) -> RefusedFetch:
        """Returns the failure of an error; only a failed connection is worth another try at once."""
        if self.stopped.is_set():
            return RefusedFetch(STOPPED, "transient")
        if time.monotonic() >= ends:
            return RefusedFetch("deadline", "transient", "the time was over before the answer was whole")
        if isinstance(error, ssl.SSLError):
            return RefusedFetch("tls_error", "transient", getattr(error, "verify_message", "") or str(error.reason))
        if isinstance(error, TimeoutError):
            return RefusedFetch("timeout", "transient", "no byte for too long")
        if isinstance(error, http.client.IncompleteRead):
            return RefusedFetch("incomplete", "transient", "the body breaks off", retry_in=0.0)
        if isinstance(error, OSError):
            return RefusedFetch("connection_failed", "transient", type(error).__name__, retry_in=0.0)
        return RefusedFetch("bad_http", "transient", type(error).__name__, retry_in=0.0)


def _check_status(status: int) -> None:
    if status == 200:
        return
    if status >= 500:
        raise RefusedFetch("server_error", "transient", f"status {status}", retry_in=0.0)
    raise RefusedFetch(_REFUSALS.get(status, "unexpected_status"), "final", f"status {status}")
