"""Public network addresses, and those of a host that may be dialled.

A name is looked up once, its addresses are checked, and the connection goes to one of those that passed: a name server
that later gives another answer has no effect. (The answer is cached for five minutes.)
"""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Sequence

from backends.web.web_records import RefusedFetch

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
