"""HTTP calls with a deadline for the whole call and a limit on bytes, bodies as streams.

The timeouts of `requests` limit only the wait for the next byte, so that a slow server can hold a call for ever. Here a
watch shuts the connection down when the call's time is over: in the TLS handshake, the headers or the body. (The
look-up of the host's name has the system's own limit.) A body is limited as sent and again as decompressed.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from importlib.metadata import version
from typing import Any
from urllib.parse import SplitResult, urlsplit

import requests
import urllib3.exceptions
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from querytruth.backends.environment import make_environment_fault
from querytruth.backends.web.web_records import RefusedFetch

_PIECE = 1 << 16
_ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")
_log = logging.getLogger(__name__)


class BodyUnpacker:
    """Unpacks a body as it comes, at most one piece in memory. `encoding` is the header's value; `deflate` means zlib's
    format, but some servers send it raw. Its methods raise RefusedFetch for an unknown encoding, and where the data is
    damaged, incomplete or longer than `most` bytes, as sent or unpacked."""

    def __init__(self, encoding: str, most: int) -> None:
        self._encoding, self._most = encoding.strip().lower(), most
        if self._encoding not in _ENCODINGS:
            raise RefusedFetch("bad_encoding", "final", f"content encoding {self._encoding[:40]!r}")
        self._unpacking = None if self._encoding in ("", "identity") else zlib.decompressobj(47)
        self._received, self._unpacked, self._is_first = 0, 0, True

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        """Yield the unpacked bytes of a piece of the body."""
        self._received += len(packed)
        if self._received > self._most:
            raise RefusedFetch("too_many_bytes", "final", f"more than {self._most} bytes")
        if self._unpacking is None:
            yield packed
            return
        while not self._unpacking.eof:
            try:
                plain = self._unpacking.decompress(packed, _PIECE)
            except zlib.error as error:
                if not self._is_first or self._encoding != "deflate":
                    raise RefusedFetch("bad_encoding", "final", f"{self._encoding} body: {error}") from None
                self._unpacking, self._is_first = zlib.decompressobj(-15), False
                continue
            self._is_first = False
            self._unpacked += len(plain)
            if self._unpacked > self._most:
                raise RefusedFetch("too_many_bytes", "final", f"more than {self._most} bytes once decompressed")
            yield plain
            packed = self._unpacking.unconsumed_tail
            if not packed and len(plain) < _PIECE:
                break

    def end(self) -> None:
        """Check that the body was whole."""
        if self._unpacking is not None and not self._unpacking.eof:
            raise RefusedFetch("bad_encoding", "transient", f"{self._encoding} body ends too early", retry_in=0.0)


def parse_address(url: str) -> SplitResult | None:
    """Return the parts of an http address; None for any other text."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname else None


class HttpCallError(Exception):
    """A call without a complete answer: `reason` is a code, `detail` names no address, `received` is the part of the
    body that arrived."""

    def __init__(self, reason: str, detail: str, received: bytes = b"") -> None:
        self.reason, self.detail, self.received = reason, detail, received
        super().__init__(f"{reason}: {detail}")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete answer, decompressed; the names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Watch:
    """Shuts down the socket of a call when its time is over."""

    def __init__(self, seconds: float) -> None:
        self.expired = False
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._timer = threading.Timer(max(0.0, seconds), self.expire)
        self._timer.daemon = True

    def __enter__(self) -> _Watch:
        _current.watch = self
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        _current.watch = None
        with self._lock:
            self._release()

    def follow(self, connected: socket.socket) -> None:
        """Watch this connection by a handle of its own: TLS takes the socket over, and closing that must not end the
        watch, as the body may still be read."""
        with self._lock:
            self._release()
            if self.expired:
                raise TimeoutError("the deadline of the call has passed")
            self._handle = socket.socket(fileno=os.dup(connected.fileno()))

    def expire(self) -> None:
        with self._lock:
            self.expired = True
            if self._handle is not None:
                with suppress(OSError):
                    self._handle.shutdown(socket.SHUT_RDWR)

    def _release(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None


class _Current(threading.local):
    watch: _Watch | None = None


_current = _Current()


class _WatchedConnection(HTTPConnection):
    is_watched = False

    def _new_conn(self) -> socket.socket:
        """Watch the connection before the handshake of TLS. urllib3 has no public place between the two."""
        self.is_watched = True
        return _watch_socket(super()._new_conn())

    def connect(self) -> None:
        """Connect; where urllib3 does not call `_new_conn`, the watch begins after the handshake."""
        super().connect()
        if not self.is_watched and isinstance(self.sock, socket.socket):
            _report_late_watch()
            _watch_socket(self.sock)

    def request(self, *args: Any, **options: Any) -> None:
        if isinstance(self.sock, socket.socket):  # left open by an earlier call
            _watch_socket(self.sock)
        super().request(*args, **options)


class _WatchedTlsConnection(_WatchedConnection, HTTPSConnection):
    pass


@functools.cache
def _report_late_watch() -> None:
    _log.warning("the TLS handshake is not limited by the deadline of the call: urllib3 %s changed", version("urllib3"))


def _watch_socket(connected: socket.socket) -> socket.socket:
    if _current.watch is not None:
        _current.watch.follow(connected)
    return connected


class _Pool(HTTPConnectionPool):
    ConnectionCls = _WatchedConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTlsConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def proxy_manager_for(self, proxy: str, **options: object) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
        return manager


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return None: even with redirects off, requests reads such an answer without a limit."""
        return None


class TimedHttp:
    """A session without cookies, netrc and redirects; proxies of the environment only `with_proxies`."""

    def __init__(self, *, connections: int, max_bytes: int, with_proxies: bool = False) -> None:
        self._session = _Session()
        self._session.trust_env = False  # else it takes another key from ~/.netrc
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.mount("http://", _Adapter(pool_maxsize=connections))
        self._session.mount("https://", _Adapter(pool_maxsize=connections))
        self._verify: str | bool = os.environ.get("REQUESTS_CA_BUNDLE") or True
        self._max_bytes, self._with_proxies = max_bytes, with_proxies
        self._watches: set[_Watch] = set()

    def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], waits: tuple[float, float], ends: float
    ) -> HttpResponse:
        """Return the complete answer to one call. `waits`: most seconds for a connection, and between two pieces of
        the answer; `ends` is on the monotonic clock. Raises HttpCallError."""
        seconds = ends - time.monotonic()
        if seconds <= 0:
            raise HttpCallError("deadline", "no time left")
        received = bytearray()
        timeout = (min(waits[0], seconds), min(waits[1], seconds + 1))  # the watch ends the last second
        with _Watch(seconds) as watch:
            self._watches.add(watch)
            try:
                answer = self._call(method, url, body, headers, timeout, received)
            except AttributeError as error:  # of a connection that the watch shut down
                if not watch.expired:
                    raise make_environment_fault("call endpoint", "HTTP", error, self._session) from None
            except (requests.RequestException, HTTPError, OSError, ValueError) as error:
                if not watch.expired:
                    raise HttpCallError(_reason(error), _innermost(error), bytes(received)) from None
            finally:
                self._watches.discard(watch)
        if watch.expired:  # a shut connection can also look like the end of the body
            raise HttpCallError("deadline", "the deadline passed before the answer was complete", bytes(received))
        return answer

    def abort(self) -> None:
        """End all running calls."""
        for watch in list(self._watches):
            watch.expire()

    def _call(
        self,
        method: str,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout: tuple[float, float],
        received: bytearray,
    ) -> HttpResponse:
        with self._session.request(
            method,
            url,
            data=body,
            headers=dict(headers),
            timeout=timeout,
            stream=True,
            verify=self._verify,
            proxies=get_environ_proxies(url) if self._with_proxies else {},
        ) as response:
            for piece in response.raw.stream(_PIECE, decode_content=False):
                received += piece
                if len(received) > self._max_bytes:
                    raise HttpCallError("too_many_bytes", f"more than {self._max_bytes} bytes", bytes(received))
            named = {name.lower(): value for name, value in response.headers.items()}
            body = _decompress(bytes(received), named.get("content-encoding", ""), self._max_bytes)
            return HttpResponse(response.status_code, named, body)


def _decompress(data: bytes, encoding: str, limit: int) -> bytes:
    plain = bytearray()
    try:
        unpacker = BodyUnpacker(encoding, limit)
        for piece in unpacker.unpack(data):
            plain += piece
        unpacker.end()
    except RefusedFetch as refused:
        raise HttpCallError(refused.failure.reason, refused.failure.detail, bytes(plain) or data) from None
    return bytes(plain)


def _reason(error: Exception) -> str:
    """Return the code of an error; only `connection_failed` is worth another try at once."""
    if isinstance(error, requests.exceptions.ProxyError):
        return "proxy_error"
    if isinstance(error, (requests.exceptions.SSLError, urllib3.exceptions.SSLError)):
        return "tls_error"
    if isinstance(error, requests.ConnectTimeout):
        return "connection_failed"
    if isinstance(error, (requests.ReadTimeout, urllib3.exceptions.ReadTimeoutError)):
        return "timeout"
    if isinstance(error, (requests.ConnectionError, urllib3.exceptions.ProtocolError, OSError)) and not isinstance(
        error, (requests.exceptions.InvalidSchema, requests.exceptions.InvalidURL)
    ):
        return "connection_failed"
    return "bad_http"


def _innermost(error: BaseException) -> str:
    """Return the type of the first cause (refused, reset, no such host); its text could hold the address."""
    while True:
        causes = [getattr(error, "reason", None), *error.args, error.__cause__]
        following = next((cause for cause in causes if isinstance(cause, BaseException)), None)
        if following is None:
            return type(error).__name__
        error = following
