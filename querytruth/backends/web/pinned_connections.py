"""HTTP connections to checked IP addresses, with deadlines and reuse.

The connection goes to the address that was checked; TLS verifies the host's name, which the Host header also holds. No
proxy, cookie, password or environment setting has an effect, except the file of trusted certificates
(REQUESTS_CA_BUNDLE, as for the model endpoints). Every wait, even for one byte, ends with the fetch's deadline.

Public network addresses, and those of a host that may be dialled.

A name is looked up once, its addresses are checked, and the connection goes to one of those that passed: a name server
that later gives another answer has no effect. (The answer is cached for five minutes.)
"""

import http.client
import ipaddress
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import certifi

from querytruth.backends.web.web_records import RefusedFetch, WebLimits, WebUrl

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
HostLookup = Callable[[str, int], Sequence[str]]  # name and port -> addresses; raises OSError if none

_CACHE_SECONDS = 300.0
# The registries of special addresses (IANA, RFC 6890 and later), as Python's own list differs between its versions.
# 168.63.129.16 is in a public range, but is the host's own agent on every machine of one cloud.
_NOT_PUBLIC_4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
        *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
    )
)
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")  # all addresses of the public internet
# Within it: addresses of protocols (such as Teredo), benchmarks, 6to4 and documentation. Packets to Teredo and 6to4 go
# to the IPv4 address inside; no web server uses them.
_NOT_PUBLIC_6 = tuple(
    ipaddress.IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "2620:4f:8000::/48")
)
_MAPPED, _NAT64 = ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214: the next 32 bits are an IPv4 address
_IDLE_SECONDS = 20.0
_MOST_IDLE = 64


def is_public(address: Address) -> bool:
    """Returns whether it is the address of one machine on the public internet; an embedded IPv4 address decides."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address in _MAPPED or address in _NAT64:
        return is_public(_last_32_bits(address))
    if address not in _GLOBAL_6 or any(address in network for network in _NOT_PUBLIC_6):
        return False
    return (int(address) >> 32) & 0xFFFFFFFF not in _ISATAP or is_public(_last_32_bits(address))


def _last_32_bits(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def look_up_with_system(host: str, port: int) -> list[str]:
    """Returns the addresses from the system's resolver, in its order. Raises OSError where there are none."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class AddressResolver:
    """The addresses that may be dialled for a host. `networks_for_tests` may be dialled though they are not public; no
    definition and no option sets them."""

    def __init__(self, resolve: HostLookup = look_up_with_system, networks_for_tests: Sequence[Network] = ()) -> None:
        self._resolve, self._networks = resolve, tuple(networks_for_tests)
        self._known: dict[tuple[str, int], tuple[float, list[Address]]] = {}

    def resolve_public(self, host: str, port: int, seconds: float) -> list[Address]:
        """Returns the host's public addresses. Raises RefusedFetch where there are none within `seconds`, with the
        reason `no_such_host`, `lookup_timed_out` or `address_not_public`."""
        known = self._known.get((host, port))
        if known is None or known[0] < time.monotonic():
            known = time.monotonic() + _CACHE_SECONDS, self._look_up(host, port, seconds)
            self._known[host, port] = known
        allowed = [address for address in known[1] if self.is_allowed(address)]
        if not allowed:
            raise RefusedFetch("address_not_public", "final", ", ".join(map(str, known[1][:3])))
        return allowed

    def is_allowed(self, address: Address) -> bool:
        """Returns whether an address may be dialled; checked again right before the connection."""
        return is_public(address) or any(address in network for network in self._networks)

    def _look_up(self, host: str, port: int, seconds: float) -> list[Address]:
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            pass
        answer: list[Sequence[str] | Exception] = []
        thread = threading.Thread(target=self._ask, args=(host, port, answer), daemon=True)
        thread.start()
        thread.join(max(0.0, seconds))  # the system's resolver has no deadline
        if not answer:
            raise RefusedFetch("lookup_timed_out", "transient", f"no answer within {seconds:.0f} s")
        if isinstance(answer[0], Exception):
            detail = getattr(answer[0], "strerror", None) or type(answer[0]).__name__
            raise RefusedFetch("no_such_host", "transient", detail)
        return [ipaddress.ip_address(text.partition("%")[0]) for text in answer[0]]

    def _ask(self, host: str, port: int, answer: list[Sequence[str] | Exception]) -> None:
        try:
            answer.append(self._resolve(host, port))
        except (OSError, UnicodeError) as error:
            answer.append(error)


class _Timed:
    """A socket that checks the deadline before every read: the usual timeout restarts with each received byte."""

    ends, silence = 0.0, 0.0

    def recv_into(self, *args: Any) -> int:
        left = self.ends - time.monotonic()
        if left <= 0:
            raise RefusedFetch("deadline", "transient", "the time was over before the answer was whole")
        self.settimeout(min(left, self.silence))  # type: ignore[attr-defined]
        return int(super().recv_into(*args))  # type: ignore[misc]


class _Socket(_Timed, socket.socket):
    pass


class _TlsSocket(_Timed, ssl.SSLSocket):
    pass


class _Connection(http.client.HTTPConnection):
    """A connection that only the given `dial` opens."""

    def __init__(self, url: WebUrl, dial: Callable[[], _Socket | _TlsSocket]) -> None:
        super().__init__(url.host, url.port)
        self._dial, self.idle_since = dial, 0.0
        self.dialled: _Socket | _TlsSocket | None = None  # set even when only the response still holds it

    def connect(self) -> None:
        self.sock = self.dialled = self._dial()


class PinnedConnectionPool:
    """Connections to public addresses; idle ones stay open for the next request to the same host."""

    def __init__(self, resolver: AddressResolver, limits: WebLimits) -> None:
        self._resolver, self._limits = resolver, limits
        self._tls = ssl.create_default_context(cafile=os.environ.get("REQUESTS_CA_BUNDLE") or certifi.where())
        self._tls.sslsocket_class = _TlsSocket
        self._tls.set_alpn_protocols(["http/1.1"])
        self._lock = threading.Lock()
        self._idle: dict[str, list[_Connection]] = {}
        self._open: set[socket.socket] = set()
        self._closed = False

    @contextmanager
    def open_response(self, url: WebUrl, headers: Mapping[str, str], ends: float) -> Iterator[http.client.HTTPResponse]:
        """Yields the response before its body is read. The connection is reused if the body is read to its end.

        Raises RefusedFetch after the deadline and for an address that is not public, OSError or HTTPException where the
        call fails."""
        connection, response = self._send_request(url, headers, ends)
        try:
            yield response
        finally:
            if response.length == 0:
                response.read()  # marks the empty body as read
            if response.isclosed() and connection.sock is not None:
                self._keep(url.origin, connection)
            else:
                response.close()
                self._close(connection)

    def close(self) -> None:
        """Closes all connections, including those that other threads use."""
        with self._lock:
            self._closed = True
            for open_one in self._open:
                with suppress(OSError):  # not the shutdown of TLS, which is not thread-safe
                    socket.socket.shutdown(open_one, socket.SHUT_RDWR)

    def _send_request(
        self, url: WebUrl, headers: Mapping[str, str], ends: float
    ) -> tuple[_Connection, http.client.HTTPResponse]:
        idle = self._take(url.origin)
        if idle is not None:
            try:
                return idle, self._ask(idle, url, headers, ends)
            except (ConnectionError, ssl.SSLError, http.client.HTTPException):  # closed, or bytes of another answer
                self._close(idle)
            except BaseException:
                self._close(idle)
                raise
        fresh = _Connection(url, lambda: self._dial(url, ends))
        try:
            return fresh, self._ask(fresh, url, headers, ends)
        except BaseException:
            self._close(fresh)
            raise

    def _ask(
        self, connection: _Connection, url: WebUrl, headers: Mapping[str, str], ends: float
    ) -> http.client.HTTPResponse:
        if connection.sock is not None:
            self._bound(connection.sock, ends)
        connection.putrequest("GET", url.target, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": url.authority, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse()

    def _dial(self, url: WebUrl, ends: float) -> _Socket | _TlsSocket:
        seconds = min(self._limits.connect, ends - time.monotonic())
        problem: OSError | None = None
        for address in self._resolver.resolve_public(url.host, url.port, seconds):
            if self._closed:
                break
            try:
                return self._start_tls(self._connect(address, url.port, ends), url, ends)
            except ssl.SSLError:
                raise
            except OSError as error:
                problem = error
        raise problem or ConnectionAbortedError("stopped")

    def _connect(self, address: Address, port: int, ends: float) -> _Socket:
        if not self._resolver.is_allowed(address):
            raise RefusedFetch("address_not_public", "final", str(address))
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        dialled = _Socket(family, socket.SOCK_STREAM)
        try:
            with self._lock:
                self._open.add(dialled)
            dialled.settimeout(self._left(ends))
            dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            dialled.connect((str(address), port))
        except BaseException:
            self._forget(dialled)
            raise
        self._bound(dialled, ends)
        return dialled

    def _start_tls(self, dialled: _Socket, url: WebUrl, ends: float) -> _Socket | _TlsSocket:
        if url.scheme != "https":
            return dialled
        try:
            dialled.settimeout(self._left(ends))  # for the whole handshake
            secured = self._tls.wrap_socket(dialled, server_hostname=url.host)
        finally:
            self._forget(dialled)  # owned by TLS now, or unusable
        assert isinstance(secured, _TlsSocket)
        with self._lock:
            self._open.add(secured)
        self._bound(secured, ends)
        return secured

    def _left(self, ends: float) -> float:
        return max(0.001, min(self._limits.connect, ends - time.monotonic()))

    def _bound(self, used: Any, ends: float) -> None:
        used.ends, used.silence = ends, self._limits.silence
        used.settimeout(self._left(ends))  # for sending

    def _take(self, origin: str) -> _Connection | None:
        """Returns an idle connection that is open and has no unread bytes, which would be of another answer."""
        while True:
            with self._lock:
                waiting = self._idle.get(origin)
                if not waiting:
                    return None
                connection = waiting.pop()
            poll = select.poll()
            poll.register(connection.sock, select.POLLIN)
            if time.monotonic() < connection.idle_since + _IDLE_SECONDS and not poll.poll(0):
                return connection
            self._close(connection)

    def _keep(self, origin: str, connection: _Connection) -> None:
        connection.idle_since = time.monotonic()
        with self._lock:
            self._idle.setdefault(origin, []).append(connection)
            crowded = [name for name, waiting in self._idle.items() for _ in waiting][:-_MOST_IDLE]
            surplus = [self._idle[name].pop(0) for name in crowded]
            for name in set(crowded):
                if not self._idle[name]:
                    del self._idle[name]
        for old in surplus:
            self._close(old)

    def _close(self, connection: _Connection) -> None:
        connection.close()
        if connection.dialled is not None:
            self._forget(connection.dialled)

    def _forget(self, used: socket.socket) -> None:
        with self._lock:
            self._open.discard(used)
        with suppress(OSError):
            used.close()
