"""Requests to the web, their limits and results, and strict addresses with one spelling each.

Parsers differ on backslashes, user names, unusual numbers and control characters, and attacks exploit the difference.
An address is parsed once here; the connection and the request use only its parts.
"""

import hashlib
import ipaddress
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal
from urllib.parse import quote, urljoin

import idna

_LONGEST = 8192
_PORTS = {"http": 80, "https": 443}
_SPLIT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.DOTALL)
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_AS_IT_IS = "!$%&'()*+,-./:;=?@[]_|~"  # in a path or query, with letters and digits; the rest is percent-encoded
# Of other protocols: the "bad ports" of the Fetch standard (https://fetch.spec.whatwg.org/#port-blocking).
_OTHER_PROTOCOLS = (
    "0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 "
    "135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 "
    "995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080"
)
_BAD_PORTS = frozenset(map(int, _OTHER_PROTOCOLS.split()))
ResourceKind = Literal["picture", "page", "robots"]
FailureKind = Literal["transient", "final", "blocked"]
STOPPED = "stopped"  # the reason of a fetch that was ended with the run


class BadUrl(ValueError):
    """The rejection of an address: `reason` is bad_url, scheme_not_allowed, user_in_url or port_not_allowed."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


@dataclass(frozen=True, slots=True)
class WebUrl:
    """The parts of an http address: the host in lower-case ASCII, an IPv6 address without brackets; `target` is path
    and query, percent-encoded."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Return the host, and port unless it is the scheme's default: the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Return scheme and authority: the scope of a robots.txt."""
        return f"{self.scheme}://{self.authority}"

    @property
    def normalized(self) -> str:
        """Return the normalized address."""
        return self.origin + self.target


@lru_cache(maxsize=4096)  # a fetch parses its address four times
def parse_url(text: str) -> WebUrl:
    """Return the parsed address without fragment and surrounding blanks. Raises BadUrl."""
    text = text.strip(" \t\r\n")
    if len(text) > _LONGEST:
        raise BadUrl("bad_url", f"{len(text)} characters")
    if any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in text):
        raise BadUrl("bad_url", "contains control characters")
    match = _SPLIT.fullmatch(text)
    if not match:
        raise BadUrl("bad_url", "is not a web address")
    scheme, authority, path, query = match[1].lower(), match[2], match[3] or "/", match[4] or ""
    if scheme not in _PORTS:
        raise BadUrl("scheme_not_allowed", scheme[:40])
    host, port = _host_and_port(authority, scheme)
    target = _without_dots(path.replace("\\", "%5C")) + query
    return WebUrl(scheme, host, port, quote(_LONE_PERCENT.sub("%25", target), safe=_AS_IT_IS))


def resolve_redirect(base: WebUrl, location: str) -> WebUrl:
    """Return the target of a redirect, parsed as strictly as any address. Raises BadUrl."""
    try:
        target = urljoin(base.normalized, location)
    except ValueError as error:
        raise BadUrl("bad_url", str(error)[:80]) from None
    return parse_url(target)


def normalize_url(url: str) -> str:
    """Return the normalized address; the text itself where it is not valid."""
    try:
        return parse_url(url).normalized
    except BadUrl:
        return url


def parse_host(url: str) -> str:
    """Return the authority of an address; "" if it is not an address, such as the name of a local file."""
    try:
        return parse_url(url).authority
    except BadUrl:
        return ""


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    if "@" in authority:
        raise BadUrl("user_in_url", "the address has a user name before the host")
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{0,5}))?", authority)
    if not match or not match[1]:
        raise BadUrl("bad_url", "the host is ambiguous")
    port = int(match[2]) if match[2] else _PORTS[scheme]
    if port in _BAD_PORTS or port > 65535:
        raise BadUrl("port_not_allowed", str(port))
    return _host(match[1]), port


def _host(written: str) -> str:
    if written.startswith("["):
        try:
            address = ipaddress.IPv6Address(written[1:-1])
        except ValueError:
            raise BadUrl("bad_url", "the host is not an IPv6 address") from None
        if address.scope_id is not None:
            raise BadUrl("bad_url", "the host is an address in this machine's network")
        return str(address)
    host = _ascii(written).removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadUrl("bad_url", "the host is not a valid name")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:  # 127.1, 0x7f.0.0.1, 017700000001: the system accepts all of these
            raise BadUrl("bad_url", "the host is an unusual spelling of an IPv4 address") from None
    return host


def _ascii(written: str) -> str:
    if written.isascii():
        return written.lower()
    try:
        return idna.encode(written, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        raise BadUrl("bad_url", "the host is not a valid international name") from None


def _without_dots(path: str) -> str:
    """Remove dot segments (RFC 3986, 5.2.4); encoded dots count as dots, as in every browser."""
    resolved: list[str] = []
    parts = path.split("/")[1:]
    for number, part in enumerate(parts):
        plain = part.replace("%2e", ".").replace("%2E", ".")
        if plain == "..":
            del resolved[-1:]
        if plain not in (".", ".."):
            resolved.append(part)
        elif number == len(parts) - 1:
            resolved.append("")
    return "/" + "/".join(resolved)


@dataclass(frozen=True, slots=True)
class WebLimits:
    """Limits of fetches. `seconds` is for a whole fetch: look-up, redirects, tries and pauses; `connect` and `silence`
    (no byte received) are within it. `max_bytes` holds for a body as sent, and again decompressed. `interval` is
    seconds between two requests to a host, `per_host` how many run at a time."""

    seconds: float = 60.0
    connect: float = 10.0
    silence: float = 10.0
    max_bytes: int = 20_000_000
    redirects: int = 5
    tries: int = 3
    pause: float = 1.0  # seconds before the second try; doubled for each further one
    concurrency: int = 16
    per_host: int = 2
    interval: float = 0.2


@dataclass(frozen=True, slots=True)
class WebRequest:
    """A request. `referer` is the page that shows an image: many hosts refuse requests without one. `is_api`: an
    interface for programs; robots.txt is for crawlers and does not apply."""

    url: str
    kind: ResourceKind = "picture"  # a word of stored keys
    referer: str = ""
    is_api: bool = False

    @property
    def key(self) -> str:
        """Return the key in the store: a digest of kind and normalized address."""
        return hashlib.sha256(f"{self.kind} {normalize_url(self.url)}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class FailedFetch:
    """The failure of a fetch. transient: it may work the next time; final: it will not work for this address; blocked:
    the service will not answer until a person fixes something. `retry_in`: seconds before a retry within the same run;
    None: no retry."""

    reason: str
    kind: FailureKind
    detail: str = ""
    retry_in: float | None = None


@dataclass(frozen=True, slots=True)
class FetchedResource:
    """A complete body, decompressed, that was accepted; the names of headers are in lower case."""

    final_url: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    sha256: str = ""
    size: int = 0


FetchResult = FetchedResource | FailedFetch


class RefusedFetch(Exception):
    """Ends a fetch with a failure."""

    def __init__(
        self, reason: str, kind: FailureKind = "final", detail: str = "", retry_in: float | None = None
    ) -> None:
        self.failure = FailedFetch(reason, kind, detail, retry_in)
        super().__init__(f"{reason}: {detail}")


class StoreWriteError(Exception):
    """A fetch could not be written to this machine's disk."""
