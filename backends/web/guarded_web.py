"""The crawler's way to the web: public addresses only, politely, within limits. Model endpoints have another client.

What may go wrong is an outcome with a reason, never an exception: hosts do what they like.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO

from backends.pictures.picture_headers import sniffed
from backends.web.addresses import AddressBook, Network, NoAddress, Resolve, system_addresses
from backends.web.host_turns import HostTurns
from backends.web.pinned_connections import Connections
from backends.web.retried_calls import retry_after
from backends.web.robots import AGENT, MAX_BYTES, RobotRules, forbidden_by_tag, read_robots
from backends.web.web_bodies import pieces
from backends.web.web_records import CannotKeep, Failed, Fetched, Refused, WebLimits, WebRequest
from backends.web.web_urls import BadUrl, WebUrl, joined, read_url
from builders.errors import UserError

ROBOTS_REASONS = ("forbidden_by_robots", "forbidden_by_robots_tag")
_REDIRECTS = (301, 302, 303, 307, 308)
_HEAD = 16  # bytes that tell a picture from a page
_TOLD = ("content-type", "content-length", "content-encoding", "last-modified", "etag", "date", "x-robots-tag")
_ACCEPT = {"picture": "image/*,*/*;q=0.5", "page": "application/json,text/html;q=0.5", "robots": "text/plain,*/*;q=0.5"}
_REFUSALS = {401: "forbidden", 403: "forbidden", 404: "not_found", 410: "not_found", 451: "forbidden"}

Stored = Callable[[WebRequest, Callable[[BinaryIO], Fetched | Failed]], tuple[Fetched | Failed, bytes]]


def unstored(request: WebRequest, fetch: Callable[[BinaryIO], Fetched | Failed]) -> tuple[Fetched | Failed, bytes]:
    """Fetches a robots.txt whenever it is needed; a store's own way remembers it."""
    out = io.BytesIO()
    return fetch(out), out.getvalue()


class GuardedWeb:
    """Fetches from many threads at a time. `contact` is an address at which a host can complain of us;
    `networks_for_tests` are no public ones, and neither a definition nor an option leads there."""

    def __init__(
        self,
        limits: WebLimits | None = None,
        *,
        contact: str = "",
        respect_robots: bool = True,
        resolve: Resolve = system_addresses,
        networks_for_tests: Sequence[Network] = (),
        robots_through: Stored = unstored,
    ) -> None:
        self.limits = limits or WebLimits()
        self.turns = HostTurns(self.limits.per_host, self.limits.interval)
        self.stopped = threading.Event()
        self.robots_through = robots_through
        self.respects_robots = respect_robots
        if not (contact.isascii() and contact.isprintable()):
            raise UserError("fetch pages", "contact", "cannot be sent in a header", "give an address in plain ASCII")
        self._agent = f"{AGENT}/1.0 ({contact})" if contact else f"{AGENT}/1.0"
        self._connections = Connections(AddressBook(resolve, networks_for_tests), self.limits)
        self._robots: dict[str, RobotRules | Failed] = {}
        self._robots_locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def fetch(self, request: WebRequest, out: BinaryIO, ends: float) -> Fetched | Failed:
        """One try, done by `ends` (monotonic clock): the body, decompressed, goes to `out`, which is emptied first."""
        try:
            url = read_url(request.url)
            for _ in range(self.limits.redirects + 1):
                self._ask_robots(url, request, ends)
                with self.turns.turn(url.place, ends):
                    answer = self._hop(url, request, out, ends)
                if isinstance(answer, Fetched):
                    return answer
                url = answer
            raise Refused("too_many_redirects", "final", f"more than {self.limits.redirects}")
        except BadUrl as error:
            return Failed(error.reason, "final", error.detail)
        except Refused as refused:
            return refused.failed

    def fetch_patiently(self, request: WebRequest, out: BinaryIO, ends: float | None = None) -> Fetched | Failed:
        """Tried again while that makes sense, all within the seconds that a fetch may take."""
        ends = time.monotonic() + self.limits.seconds if ends is None else ends
        for attempt in range(1, self.limits.tries + 1):
            answer = self.fetch(request, out, ends)
            pause = self.pause_before_next(answer, attempt, ends)
            if pause is None or self.stopped.wait(pause):
                break
        return answer

    def pause_before_next(self, answer: Fetched | Failed, attempt: int, ends: float) -> float | None:
        """Seconds before the next try; None where there is none."""
        if isinstance(answer, Fetched) or answer.again_in is None or attempt >= self.limits.tries:
            return None
        pause = max(answer.again_in, self.limits.pause * 2.0 ** (attempt - 1))
        return pause if time.monotonic() + pause < ends else None

    def stop(self) -> None:
        """End what is under way."""
        self.stopped.set()
        self.turns.stop()
        self._connections.close()

    def _hop(self, url: WebUrl, request: WebRequest, out: BinaryIO, ends: float) -> Fetched | WebUrl:
        try:
            with self._connections.answering(url, self._headers(url, request), ends) as response:
                self._note_refusal(url, response)
                if response.status in _REDIRECTS and response.headers.get("Location"):
                    return joined(url, _as_sent(response.headers["Location"]))
                return self._taken(url, request, response, out)
        except (NoAddress, OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            if isinstance(error, BadUrl):
                raise
            raise self._told(url, error, ends) from None

    def _headers(self, url: WebUrl, request: WebRequest) -> dict[str, str]:
        headers = {
            "User-Agent": self._agent,
            "Accept": _ACCEPT[request.kind],
            "Accept-Encoding": "identity" if request.kind == "picture" else "gzip, deflate",
            "Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8",
            "Connection": "keep-alive",
        }
        with suppress(BadUrl):
            page = read_url(request.referer)
            if page.scheme == "http" or url.scheme == "https":  # what was read in private is not told in public
                headers["Referer"] = page.text
        return headers

    def _note_refusal(self, url: WebUrl, response: http.client.HTTPResponse) -> None:
        if response.status not in (429, 503):
            self.turns.answered(url.place)
            return
        reason = "rate_limited" if response.status == 429 else "server_error"
        pause = retry_after({"retry-after": response.headers.get("Retry-After") or ""})
        failed = Failed(reason, "transient", f"status {response.status}", again_in=pause)
        self.turns.refused(url.place, url.text, failed, pause)
        raise Refused(failed.reason, failed.kind, failed.detail, failed.again_in)

    def _taken(self, url: WebUrl, request: WebRequest, response: http.client.HTTPResponse, out: BinaryIO) -> Fetched:
        _check_status(response.status)
        is_robots = request.kind == "robots"
        tags = response.headers.get_all("X-Robots-Tag") if self.respects_robots and not request.is_api else None
        if not is_robots and (directive := forbidden_by_tag(map(str, tags or []))):
            raise Refused("forbidden_by_robots_tag", "final", directive)
        digest, head, size = hashlib.sha256(), b"", 0
        _emptied(out)
        for piece in pieces(response, sys.maxsize if is_robots else self.limits.max_bytes):
            if len(head) < _HEAD and request.kind == "picture":
                head += piece[:_HEAD]
                if len(head) >= _HEAD and sniffed(head) is None:  # before more of it is sent
                    raise Refused("not_a_picture", "final")
            digest.update(piece)
            _written(out, piece)
            size += len(piece)
            if is_robots and size >= MAX_BYTES:  # the rest of it does not count
                break
        told = {name.lower(): _told(value) for name, value in response.headers.items() if name.lower() in _TOLD}
        return Fetched(url.text, response.status, told, digest.hexdigest(), size)

    def _ask_robots(self, url: WebUrl, request: WebRequest, ends: float) -> None:
        if not self.respects_robots or request.is_api or request.kind == "robots" or url.target == "/robots.txt":
            return
        with self._lock:
            lock = self._robots_locks.setdefault(url.origin, threading.Lock())
        if not lock.acquire(timeout=max(0.0, ends - time.monotonic())):
            raise Refused("deadline", "transient", "robots.txt took too long")
        try:
            rules = self._robots.get(url.origin)
            if rules is None:
                had_time = ends - time.monotonic() > self.limits.seconds / 2
                rules = self._read_robots(url, ends)
                if had_time or isinstance(rules, RobotRules):  # else it may be no fault of the host's
                    self._robots[url.origin] = rules
        finally:
            lock.release()
        if isinstance(rules, Failed):
            raise Refused(rules.reason, "transient", rules.detail)
        if not rules.allow(url.target):
            raise Refused("forbidden_by_robots", "final", f"robots.txt of {url.place}")

    def _read_robots(self, url: WebUrl, ends: float) -> RobotRules | Failed:
        """RFC 9309, 2.3.1: what is not there forbids nothing; what cannot be had forbids everything for now."""
        request = WebRequest(f"{url.origin}/robots.txt", "robots")
        answer, body = self.robots_through(request, lambda out: self.fetch_patiently(request, out, ends))
        if isinstance(answer, Fetched):
            rules = read_robots(body[:MAX_BYTES].decode("utf-8", "replace"))
            if rules.delay:
                self.turns.keep_apart(url.place, rules.delay)
            return rules
        if answer.kind == "final":
            return RobotRules()
        if answer.reason in ("rate_limited", "server_error"):
            return Failed("robots_unreachable", "transient", answer.detail)
        return answer

    def _told(self, url: WebUrl, error: Exception, ends: float) -> Refused:
        """What went wrong, by its code; only a connection that failed is worth another try at once."""
        if isinstance(error, NoAddress) and error.reason == "address_not_public":
            refused = Refused(error.reason, "final", error.detail)
        elif isinstance(error, NoAddress):
            refused = Refused(error.reason, "transient", error.detail)
        elif self.stopped.is_set():
            refused = Refused("stopped", "transient")
        elif time.monotonic() >= ends:
            refused = Refused("deadline", "transient", "the time was over before the answer was whole")
        elif isinstance(error, ssl.SSLError):
            refused = Refused("tls_error", "transient", getattr(error, "verify_message", "") or str(error.reason))
        elif isinstance(error, TimeoutError):
            refused = Refused("timeout", "transient", "no byte for too long")
        elif isinstance(error, http.client.IncompleteRead):
            refused = Refused("incomplete", "transient", "the body breaks off", again_in=0.0)
        elif isinstance(error, OSError):
            refused = Refused("connection_failed", "transient", type(error).__name__, again_in=0.0)
        else:
            refused = Refused("bad_http", "transient", type(error).__name__, again_in=0.0)
        if refused.failed.reason in ("no_such_host", "lookup_timed_out", "connection_failed", "timeout"):
            self.turns.unreachable(url.place, refused.failed)
        return refused


def _check_status(status: int) -> None:
    if status == 200:
        return
    if status >= 500:
        raise Refused("server_error", "transient", f"status {status}", again_in=0.0)
    raise Refused(_REFUSALS.get(status, "unexpected_status"), "final", f"status {status}")


def _emptied(out: BinaryIO) -> None:
    out.seek(0)
    out.truncate()


def _written(out: BinaryIO, piece: bytes) -> None:
    try:
        out.write(piece)
    except OSError as error:  # a full disk is no fault of the host's
        raise CannotKeep(error.strerror or str(error)) from error


def _as_sent(location: str) -> str:
    """A header's bytes as UTF-8, which http.client gives as Latin-1."""
    return location.encode("latin-1", "replace").decode("utf-8", "replace")


def _told(value: str) -> str:
    return value.encode("utf-8", "backslashreplace").decode()[:1000]
