"""Image searches. One per file, the file's name is its name; each has `load(options)`. They open no connection: pages
come from the `fetch` that they are given, so that what reads a page can be tried on a recorded one."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from backends.plugin_loader import ModelIdentity, PluginPackage

T = TypeVar("T")

IMAGE_SEARCHES = PluginPackage("backends.image_search", "image search", "load image search")
_TAG = re.compile(r"<[^<>]{0,2000}>")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+")
_MAX_CAPTION_LENGTH = 1000
_MAX_MARKUP_LENGTH = 100_000


@dataclass(frozen=True, slots=True)
class ImageCandidate:
    """A picture that a service found, as it tells of it; None (or nothing) where it does not tell. `url` is where the
    picture lies, `alternative_urls` where the same one lies, too, the best first; of a local picture `path`, and `url`
    is its name. Width and height are of the original."""

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
    """What a query found: candidates in the service's order, and how many results there are, as the service says."""

    reported: int | None
    candidates: tuple[ImageCandidate, ...]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page to fetch; `is_api`: of an interface that is published for programs."""

    url: str
    referer: str = ""
    is_api: bool = False


class SearchError(Exception):
    """A page that is no answer, or was not to be had. transient: may come another time; final: about this query;
    blocked: nothing more will be answered before a person does something."""

    def __init__(self, reason: str, kind: Literal["transient", "final", "blocked"], detail: str = "") -> None:
        self.reason, self.kind, self.detail = reason, kind, detail
        super().__init__(f"{reason}: {detail}")


class FetchPage(Protocol):
    """Gives what `read` makes of a page, or raises NoAnswer."""

    def __call__(self, page: PageRequest, read: Callable[[bytes], T], /) -> T: ...


class ImageSearch(Protocol):
    """What `load` gives. The `revision` of its identity is the digest of a local index."""

    @property
    def identity(self) -> ModelIdentity: ...

    def search(self, query: str, limit: int, fetch: FetchPage) -> SearchResult:
        """The first `limit` results, fewer where there are no more; NoAnswer where a page is none."""
        ...


def load_image_search(search: str, **options: Any) -> ImageSearch:
    """The image search of that name. Raises a UserError for an unknown name or option."""
    loaded: ImageSearch = IMAGE_SEARCHES.load_plugin(search, options)
    return loaded


def find_image_folder(search: str, options: Mapping[str, Any]) -> Path | None:
    """The folder that an image search finds its images in: its options' `image_folder`; None for one of the web."""
    folder: Path | None = getattr(IMAGE_SEARCHES.parse_options(search, options), "image_folder", None)
    return folder


def visible_text(markup: object) -> str | None:
    """What a reader sees of a title or description: without tags, entities, and characters that nothing shows."""
    if not isinstance(markup, str):
        return None
    text = _INVISIBLE.sub(" ", html.unescape(_TAG.sub("", markup[:_MAX_MARKUP_LENGTH])))
    return " ".join(text.split())[:_MAX_CAPTION_LENGTH] or None


def parse_count(number: object) -> int | None:
    """A count, given as a number or as digits; None for anything else."""
    if isinstance(number, str) and re.fullmatch(r"[0-9]{1,9}", number):
        return int(number)
    is_one = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1_000_000_000
    return number if is_one and isinstance(number, int) else None


def parse_side(number: object) -> int | None:
    """A side in pixels, likewise; services write 0 where they do not know it."""
    return parse_count(number) or None


def normalize_web_url(url: object) -> str | None:
    """A text that is an http address, with the scheme that it leaves out; None for anything else."""
    if not isinstance(url, str):
        return None
    url = f"https:{url.strip()}" if url.strip().startswith("//") else url.strip()
    return url if url.lower().startswith(("http://", "https://")) else None
