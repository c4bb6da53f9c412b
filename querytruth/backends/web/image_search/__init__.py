"""Image searches: one module each, named as the option's value, with `load(options)`.

They open no connection: `fetch` gives them the pages, so that their parsers can be tested on recorded ones.
"""

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from querytruth.backends.files.text_formats import parse_json
from querytruth.backends.plugins import ModelIdentity, PluginPackage
from querytruth.backends.web.web_records import WebRequest

T = TypeVar("T")

IMAGE_SEARCHES = PluginPackage("querytruth.backends.web.image_search", "image search", "load image search")
_TAG = re.compile(r"<[^<>]{0,2000}>")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+")
_MAX_CAPTION_LENGTH = 1000
_MAX_MARKUP_LENGTH = 100_000


@dataclass(frozen=True, slots=True)
class ImageCandidate:
    """An image that a service found; fields it does not report are None or empty. `alternative_urls` are further
    addresses of the same image, best first; a local image has a `path`, and its name as `url`. Width and height are
    those of the original, in pixels."""

    url: str
    alternative_urls: tuple[str, ...] = ()
    page_url: str | None = None
    caption: str | None = None
    width: int | None = None
    height: int | None = None
    licence: str | None = None  # a code in lower case: cc-by-sa-4.0, cc0-1.0, pd
    creator: str | None = None
    is_advertisement: bool = False
    path: str | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The candidates in the service's order, and the number of results that the service reports."""

    reported: int | None
    candidates: tuple[ImageCandidate, ...]


class SearchError(Exception):
    """A page without results, or one that cannot be fetched. transient: a retry may succeed; final: this query fails
    again; blocked: every query fails until a person does something."""

    def __init__(self, reason: str, kind: Literal["transient", "final", "blocked"], detail: str = "") -> None:
        self.reason, self.kind, self.detail = reason, kind, detail
        super().__init__(f"{reason}: {detail}")


class FetchPage(Protocol):
    """Returns what `read` makes of a page. Raises SearchError."""

    def __call__(self, page: WebRequest, read: Callable[[bytes], T], /) -> T: ...


class ImageSearch(Protocol):
    """The interface that `load` returns. The `revision` of its identity is the digest of a local index."""

    @property
    def identity(self) -> ModelIdentity: ...

    def search(self, query: str, limit: int, fetch: FetchPage) -> SearchResult:
        """Return at most `limit` results. Raises SearchError for a page without results."""


@dataclass(frozen=True, slots=True)
class PagedSearch:
    """A web service that gives `page_size` results a page. `request_page` gets a query and the number of a page, from
    0 on."""

    identity: ModelIdentity
    page_size: int
    request_page: Callable[[str, int], WebRequest]
    parse_page: Callable[[bytes], SearchResult]

    def search(self, query: str, limit: int, fetch: FetchPage) -> SearchResult:
        """Return the first results, from page 0 on while the pages are full; the reported number comes from page 0.
        Raises SearchError for a page without results."""
        first = fetch(self.request_page(query, 0), self.parse_page)
        candidates = list(first.candidates)
        for page in range(1, -(-limit // self.page_size)):
            if len(candidates) < page * self.page_size:
                break
            candidates += fetch(self.request_page(query, page), self.parse_page).candidates
        return SearchResult(first.reported, tuple(candidates[:limit]))


def load_image_search(search: str, /, **options: object) -> ImageSearch:
    """Return the image search of that name. Raises UserError for an unknown name or option."""
    loaded: ImageSearch = IMAGE_SEARCHES.load_plugin(search, options)
    return loaded


def find_image_folder(search: str, options: Mapping[str, Any]) -> Path | None:
    """Return the `image_folder` of an image search's options; None for a search of the web."""
    folder: Path | None = getattr(IMAGE_SEARCHES.parse_options(search, options), "image_folder", None)
    return folder


def parse_json_object(text: str | bytes, *, strict: bool = True) -> dict[str, Any]:
    """Return a JSON object; not `strict`: with raw control characters in strings. Raises SearchError for another
    page."""
    try:
        answer = parse_json(text, strict=strict)
    except (ValueError, RecursionError):
        raise SearchError("not_json", "transient", "the page is not JSON") from None
    if not isinstance(answer, dict):
        raise SearchError("not_json", "transient", "the page is not a JSON object")
    return answer


def visible_text(markup: object) -> str | None:
    """Return a title or description without tags, entities and invisible characters; None for an empty one."""
    if not isinstance(markup, str):
        return None
    text = _INVISIBLE.sub(" ", html.unescape(_TAG.sub("", markup[:_MAX_MARKUP_LENGTH])))
    return " ".join(text.split())[:_MAX_CAPTION_LENGTH] or None


def parse_count(number: object) -> int | None:
    """Return a count, given as a number or as digits; None for anything else."""
    if isinstance(number, str) and re.fullmatch(r"[0-9]{1,9}", number):
        return int(number)
    is_one = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1_000_000_000
    return number if is_one and isinstance(number, int) else None


def parse_side(number: object) -> int | None:
    """Return a side in pixels, likewise; None for the 0 that services write for an unknown one."""
    return parse_count(number) or None


def normalize_web_url(url: object) -> str | None:
    """Return an http address, with the scheme if that is missing; None for anything else."""
    if not isinstance(url, str):
        return None
    url = f"https:{url.strip()}" if url.strip().startswith("//") else url.strip()
    return url if url.lower().startswith(("http://", "https://")) else None
