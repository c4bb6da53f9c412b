"""HTTP sessions whose connections go to checked IP addresses only.

The connection goes to the checked address; TLS verifies the host's name, which is also in the Host header. Proxies,
cookies, passwords and environment settings have no effect, except the file of trusted certificates (REQUESTS_CA_BUNDLE,
as for the model endpoints).

A name is looked up once, its addresses are checked, and the connection uses one that passed: later answers of a name
server have no effect. (The answer is cached for five minutes.)
"""

import asyncio
import ipaddress
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import aiohttp
import certifi
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection

from querytruth.backends.web.web_records import RefusedFetch, WebLimits

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Protocol = Any  # aiohttp's own, of an undocumented module
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
IDLE_SECONDS = 20.0
_MOST_OPEN = 96  # connections of one client, idle ones included
_MAX_HEADER = 65_536  # bytes of a line
_MAX_HEADERS = 100


def is_public(address: Address) -> bool:
    """Return whether it is the address of one machine on the public internet; an embedded IPv4 address decides."""
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
    """Return the addresses from the system's resolver, in its order. Raises OSError if there are none."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


async def _look_up(resolve: HostLookup, host: str, port: int, seconds: float) -> list[Address]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[str]] = loop.create_future()

    def give(value: Sequence[str] | Exception) -> None:
        if answer.done():  # nobody waits any more
            return
        if isinstance(value, Exception):
            answer.set_exception(value)
        else:
            answer.set_result(value)

    def ask() -> None:
        try:
            value: Sequence[str] | Exception = resolve(host, port)
        except (OSError, UnicodeError) as error:
            value = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(give, value)

    threading.Thread(target=ask, daemon=True).start()  # the system's resolver has no deadline, and may never end
    try:
        async with asyncio.timeout(seconds):
            found = await answer
    except TimeoutError:
        raise RefusedFetch("lookup_timed_out", "transient", f"no answer within {seconds:.0f} s") from None
    except (OSError, UnicodeError) as error:
        detail = getattr(error, "strerror", None) or type(error).__name__
        raise RefusedFetch("no_such_host", "transient", detail) from None
    return [ipaddress.ip_address(text.partition("%")[0]) for text in found]


class AddressResolver(AbstractResolver):
    """The addresses that may be dialled for a host. `networks_for_tests` may be dialled though they are not public; no
    definition and no option sets them."""

    def __init__(
        self,
        resolve: HostLookup = look_up_with_system,
        networks_for_tests: Sequence[Network] = (),
        seconds: float = 10.0,
    ) -> None:
        self._resolve, self._networks, self._seconds = resolve, tuple(networks_for_tests), seconds
        self._known: dict[tuple[str, int], tuple[float, list[Address]]] = {}

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[ResolveResult]:
        """Return the host's public addresses, for aiohttp; raises as `resolve_public`."""
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self.resolve_public(host, port)
        ]

    async def resolve_public(self, host: str, port: int) -> list[Address]:
        """Return the host's public addresses. Raises RefusedFetch if none is found in time, with the reason
        `no_such_host`, `lookup_timed_out` or `address_not_public`."""
        known = self._known.get((host, port))
        if known is None or known[0] < time.monotonic():
            known = time.monotonic() + _CACHE_SECONDS, await _look_up(self._resolve, host, port, self._seconds)
            self._known[host, port] = known
        allowed = [address for address in known[1] if self.is_allowed(address)]
        if not allowed:
            raise RefusedFetch("address_not_public", "final", ", ".join(map(str, known[1][:3])))
        return allowed

    def is_allowed(self, address: Address) -> bool:
        """Return whether an address may be dialled."""
        return is_public(address) or any(address in network for network in self._networks)

    def open_socket(self, dialled: aiohttp.AddrInfoType) -> socket.socket:
        """Return a socket for an address that is dialled next. The last word: numeric hosts are not looked up. Raises
        RefusedFetch."""
        family, kind, protocol, _, (address, *_) = dialled
        if not self.is_allowed(ipaddress.ip_address(address)):
            raise RefusedFetch("address_not_public", "final", str(address))
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        """Do nothing: no look-up is waited for."""


class _HeadFirst(asyncio.Protocol):
    """Pass the head of an answer on separately: aiohttp loses a whole answer if the bytes after it in the same piece
    are not HTTP. Also end a body that stops being HTTP, since aiohttp would keep waiting."""

    def __init__(self, inner: _Protocol) -> None:
        self._inner, self._tail = inner, b""
        self._content: aiohttp.StreamReader | None = None
        self._has_head = self.is_idle = False
        self.connection_lost, self.eof_received = inner.connection_lost, inner.eof_received  # type: ignore[method-assign]
        self.pause_writing, self.resume_writing = inner.pause_writing, inner.resume_writing  # type: ignore[method-assign]

    def expect_answer(self) -> None:
        """Begin with the next answer."""
        self._has_head, self._content, self._tail, self.is_idle = False, None, b"", False

    def end_answer(self) -> None:
        """Note that the answer is over."""
        self._content, self.is_idle = None, True

    def watch(self, content: aiohttp.StreamReader) -> None:
        """End this body when something else than HTTP comes, or came already."""
        self._content = content
        self._end_broken_body()

    def data_received(self, data: bytes) -> None:
        """Hand over received bytes."""
        if not self._has_head:
            place = (self._tail + data).find(b"\r\n\r\n")
            if place < 0:
                self._tail = (self._tail + data)[-3:]
            else:
                self._has_head = True
                place += 4 - len(self._tail)
                self._inner.data_received(data[:place])
                data = data[place:]
        if data:
            self._inner.data_received(data)
            self._end_broken_body()

    def _end_broken_body(self) -> None:
        if self._content is not None and self._inner.exception() is not None and not self._content.is_eof():
            self._content.set_exception(aiohttp.ClientPayloadError("no HTTP"))


class PinnedConnector(aiohttp.TCPConnector):
    """Connects to addresses that a resolver allows, and uses a connection again only where nothing is left to read."""

    def __init__(self, resolver: AddressResolver, tls: ssl.SSLContext) -> None:
        super().__init__(
            ssl=tls,
            resolver=resolver,
            socket_factory=resolver.open_socket,
            use_dns_cache=False,
            limit=0,
            keepalive_timeout=IDLE_SECONDS,
        )
        self._ways: dict[_Protocol, _HeadFirst] = {}  # by aiohttp's protocol, in order of use

    async def connect(self, req: aiohttp.ClientRequest, traces: Any, timeout: aiohttp.ClientTimeout) -> Connection:
        """Return a new connection, or an idle one without unread bytes of an earlier answer."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol, transport = connection.protocol, connection.transport
            assert protocol is not None and transport is not None
            way = self._ways.pop(protocol, None)
            if way is None:
                way = _HeadFirst(protocol)
                transport.set_protocol(way)
            elif protocol.should_close or _has_unread_bytes(transport):
                connection.close()
                continue
            way.expect_answer()
            self._ways[protocol] = way
            connection.add_callback(way.end_answer)
            _close_surplus(self._ways)
            return connection

    def watch(self, response: aiohttp.ClientResponse) -> None:
        """End the body of an answer when it stops being HTTP; to be called before it is read."""
        if response.connection is not None and response.connection.protocol is not None:
            self._ways[response.connection.protocol].watch(response.content)


def _close_surplus(ways: dict[_Protocol, _HeadFirst]) -> None:
    for protocol, way in list(ways.items())[:-_MOST_OPEN]:
        if way.is_idle or not protocol.is_connected():
            protocol.close()
            del ways[protocol]


def _has_unread_bytes(transport: asyncio.Transport) -> bool:
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))


def make_tls_context() -> ssl.SSLContext:
    """Return the settings of encrypted connections, with the certificates that are trusted; takes 50 ms."""
    tls = ssl.create_default_context(cafile=os.environ.get("REQUESTS_CA_BUNDLE") or certifi.where())
    tls.set_alpn_protocols(["http/1.1"])
    return tls


def open_session(connector: PinnedConnector, limits: WebLimits) -> aiohttp.ClientSession:
    """Return a session without cookies, proxies and passwords; to be called in the event loop."""
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect, sock_read=limits.silence),
        max_line_size=_MAX_HEADER,
        max_field_size=_MAX_HEADER,
        max_headers=_MAX_HEADERS,
    )
