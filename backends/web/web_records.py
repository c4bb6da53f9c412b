"""What is asked of the web, and what becomes of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from backends.web.web_urls import normalize_url

ResourceKind = Literal["picture", "page", "robots"]
FailureKind = Literal["transient", "final", "blocked"]
STOPPED = "stopped"  # the reason of a fetch that the run ended before it had an answer


@dataclass(frozen=True, slots=True)
class WebLimits:
    """`seconds` is for all of a fetch: look-up, redirects, tries and the pauses between them; `connect` and `silence`
    (without a byte) within it. `max_bytes` holds for a body as sent, and again decompressed. `interval` is seconds
    between two requests to a host, `per_host` how many of them may be under way."""

    seconds: float = 60.0
    connect: float = 10.0
    silence: float = 10.0
    max_bytes: int = 20_000_000
    redirects: int = 5
    tries: int = 3
    pause: float = 1.0  # before the second try; twice as long before each further one
    concurrency: int = 16
    per_host: int = 2
    interval: float = 0.2


@dataclass(frozen=True, slots=True)
class WebRequest:
    """`referer` is the page that a picture stands on: many hosts refuse one that is asked for from nowhere. `is_api`:
    an interface published for programs, of which robots.txt, written for crawlers, does not speak."""

    url: str
    kind: ResourceKind = "picture"
    referer: str = ""
    is_api: bool = False

    @property
    def key(self) -> str:
        """What an answer is kept under: the address in its one spelling, and what it was asked for."""
        return hashlib.sha256(f"{self.kind} {normalize_url(self.url)}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class FailedFetch:
    """Why there is nothing. transient: may be otherwise the next time; final: about this address; blocked: nothing will
    be had from this service before a person mends something. `retry_in`: seconds after which it is worth another try
    within the same run; None where it is not."""

    reason: str
    kind: FailureKind
    detail: str = ""
    retry_in: float | None = None


@dataclass(frozen=True, slots=True)
class FetchedResource:
    """A whole body, decompressed, that passed; the names of headers are in lower case."""

    final_url: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    sha256: str = ""
    size: int = 0


class RefusedFetch(Exception):
    """A fetch that ends here, with why."""

    def __init__(
        self, reason: str, kind: FailureKind = "final", detail: str = "", retry_in: float | None = None
    ) -> None:
        self.failure = FailedFetch(reason, kind, detail, retry_in)
        super().__init__(f"{reason}: {detail}")


class StoreWriteError(Exception):
    """This machine's failing: what was fetched could not be written."""
