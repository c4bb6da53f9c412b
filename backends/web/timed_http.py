"""HTTP whose calls end: a deadline over all of a call, however slowly the other side sends, and a limit on bytes.

The timeouts of `requests` bound the wait for the next byte only; a server that sends one now and then holds a call
for ever. Here a watch shuts the connection down when the call's time is over, be it in the TLS handshake, the headers
or the body. (The look-up of the host's name is the system's and has the system's own limit.)
"""

from __future__ import annotations

import os
import socket
import threading
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from types import TracebackType
from typing import Any

import requests
import urllib3.exceptions
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

_PIECE = 1 << 16


class HttpCallError(Exception):
    """A call without a whole answer: `reason` is a code, `detail` names no address, `received` is what came of the
    body."""

    def __init__(self, reason: str, detail: str, received: bytes = b"") -> None:
        self.reason, self.detail, self.received = reason, detail, received
        super().__init__(f"{reason}: {detail}")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole answer, decompressed; the names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Watch:
    """Shuts down the socket that a call uses once its time is over."""

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

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._timer.cancel()
        _current.watch = None
        with self._lock:
            self._release()

    def follow(self, connected: socket.socket) -> None:
        """Watch this connection, by a handle of our own: TLS takes the socket over, and closing it must not end the
        watch, for the body may still be read."""
        with self._lock:
            self._release()
            if self.expired:
                raise TimeoutError("the call's time is over")
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
    def _new_conn(self) -> socket.socket:
        return _watch_socket(super()._new_conn())

    def request(self, *args: Any, **options: Any) -> None:
        if isinstance(self.sock, socket.socket):  # one that an earlier call left open
            _watch_socket(self.sock)
        super().request(*args, **options)


class _WatchedTlsConnection(_WatchedConnection, HTTPSConnection):
    pass


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

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
        return manager


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Nowhere: even when told to follow none, requests reads such an answer whole, however long it is."""
        return None


class TimedHttp:
    """A session of its own: no cookies, no netrc, no redirects, and proxies from the environment only if asked."""

    def __init__(self, *, connections: int, max_bytes: int, with_proxies: bool = False) -> None:
        self._session = _Session()
        self._session.trust_env = False  # it would also take another key from ~/.netrc
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.mount("http://", _Adapter(pool_maxsize=connections))
        self._session.mount("https://", _Adapter(pool_maxsize=connections))
        self._verify: str | bool = os.environ.get("REQUESTS_CA_BUNDLE") or True
        self._max_bytes, self._with_proxies = max_bytes, with_proxies
        self._watches: set[_Watch] = set()

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, connect: float, read: float, ends: float
    ) -> HttpResponse:
        """The whole answer to one POST, or CallFailed. `connect` and `read` are seconds, `ends` is on the monotonic
        clock."""
        seconds = ends - time.monotonic()
        if seconds <= 0:
            raise HttpCallError("deadline", "no time was left")
        received = bytearray()
        timeout = (min(connect, seconds), min(read, seconds + 1))  # the last moment is the watch's to end
        with _Watch(seconds) as watch:
            self._watches.add(watch)
            try:
                answer = self._post(url, body, headers, timeout, received)
            except (requests.RequestException, HTTPError, OSError, ValueError, AttributeError) as error:
                if not watch.expired:
                    raise HttpCallError(_reason(error), _innermost(error), bytes(received)) from None
            finally:
                self._watches.discard(watch)
        if watch.expired:  # what a shut connection looks like depends on where it was: even like an end
            raise HttpCallError("deadline", "the time was over before the answer was whole", bytes(received))
        return answer

    def abort(self) -> None:
        """End all calls that are under way."""
        for watch in list(self._watches):
            watch.expire()

    def _post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: tuple[float, float], received: bytearray
    ) -> HttpResponse:
        with self._session.post(
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
                    raise HttpCallError("too_many_bytes", f"more than {self._max_bytes}", bytes(received))
            named = {name.lower(): value for name, value in response.headers.items()}
            encoding = named.get("content-encoding", "identity").strip().lower()
            return HttpResponse(response.status_code, named, _decompressed(bytes(received), encoding, self._max_bytes))


def _decompressed(data: bytes, encoding: str, limit: int) -> bytes:
    """Never more than the limit in memory, whatever a few kilobytes claim to hold."""
    if encoding in ("", "identity"):
        return data
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise HttpCallError("bad_encoding", f"content encoding {encoding[:40]!r}", data)
    unpacking = zlib.decompressobj(47)  # gzip or zlib, as the header says
    try:
        plain = unpacking.decompress(data, limit + 1)
    except zlib.error as error:
        raise HttpCallError("bad_encoding", f"{encoding} body: {error}", data) from None
    if len(plain) > limit:
        raise HttpCallError("too_many_bytes", f"more than {limit} once decompressed", plain)
    if not unpacking.eof:
        raise HttpCallError("bad_encoding", f"{encoding} body ends too early", plain)
    return plain


def _reason(error: Exception) -> str:
    """The code of what went wrong; only a connection that failed is worth another try at once."""
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
    """The kind of the first cause (refused, reset, no such host); its words could hold the address."""
    while True:
        causes = [getattr(error, "reason", None), *error.args, error.__cause__]
        following = next((cause for cause in causes if isinstance(cause, BaseException)), None)
        if following is None:
            return type(error).__name__
        error = following
