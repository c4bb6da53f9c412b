"""Requests to the web, their limits and their results."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from backends.web.web_urls import normalize_url

ResourceKind = Literal["picture", "page", "robots"]
FailureKind = Literal["transient", "final", "blocked"]
STOPPED = "stopped"  # the reason of a fetch that was ended with the run


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
    interface for programs, to which robots.txt, written for crawlers, does not apply."""

    url: str
    kind: ResourceKind = "picture"
    referer: str = ""
    is_api: bool = False

    @property
    def key(self) -> str:
        """The key in the store: a digest of kind and normalized address."""
        return hashlib.sha256(f"{self.kind} {normalize_url(self.url)}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class FailedFetch:
    """Why a fetch failed. transient: may work the next time; final: will not for this address; blocked: the service
    will not answer before a person fixes something. `retry_in`: seconds before a retry within the same run; None:
    no retry."""

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
