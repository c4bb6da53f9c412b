"""Openverse (api.openverse.org): openly licensed images of many collections, each with licence and creator."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from backends.image_search import (
    FetchPage,
    ImageCandidate,
    PageRequest,
    SearchError,
    SearchResult,
    normalize_web_url,
    parse_count,
    parse_side,
    search_pages,
    visible_text,
)
from backends.plugin_loader import ModelIdentity, PluginOptions

_ENDPOINT = "https://api.openverse.org/v1/images/"
_PAGE_SIZE = 20  # the largest without registration
_PUBLIC_DOMAIN_CODES = ("cc0", "pdm")  # all others are conditions of Creative Commons: by, by-sa, by-nc-nd …


class OpenverseOptions(PluginOptions):
    """`endpoint`: another one for a mirror of the service."""

    endpoint: str = _ENDPOINT


def load(options: OpenverseOptions) -> OpenverseSearch:
    """Openverse's search."""
    return OpenverseSearch(options)


class OpenverseSearch:
    """Fetches pages of 20 results."""

    def __init__(self, options: OpenverseOptions) -> None:
        self.identity = ModelIdentity("openverse")
        self._endpoint = options.endpoint

    def search(self, query: str, limit: int, fetch: FetchPage) -> SearchResult:
        """Returns the first results. Raises SearchError for a page without results."""
        return search_pages(lambda page: fetch(self._page(query, page), parse_result_page), limit, _PAGE_SIZE)

    def _page(self, query: str, page: int) -> PageRequest:
        parameters = {"q": query, "page": page + 1, "page_size": _PAGE_SIZE}
        return PageRequest(f"{self._endpoint}?{urlencode(parameters)}", is_api=True)


def parse_result_page(body: bytes) -> SearchResult:
    """Returns the results of a page. Raises SearchError for another page."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise SearchError("not_json", "transient", "the page is no JSON") from None
    items = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        detail = answer.get("detail") if isinstance(answer, dict) else None
        raise SearchError("no_results_in_page", "transient", str(detail or "the page has no results")[:100])
    candidates = tuple(_candidate(item) for item in items if isinstance(item, dict))
    return SearchResult(parse_count(answer.get("result_count")), candidates)


def _candidate(item: dict[str, Any]) -> ImageCandidate:
    return ImageCandidate(
        url=normalize_web_url(item.get("url")) or "",
        page_url=normalize_web_url(item.get("foreign_landing_url")),
        caption=visible_text(item.get("title")),
        width=parse_side(item.get("width")),
        height=parse_side(item.get("height")),
        licence=_licence(item.get("license"), item.get("license_version")),
        creator=visible_text(item.get("creator")),
    )


def _licence(code: object, version: object) -> str | None:
    """Returns cc-by-sa-4.0 for `by-sa` and `4.0`."""
    if not isinstance(code, str) or not code.strip():
        return None
    plain = code.strip().lower()
    name = plain if plain in _PUBLIC_DOMAIN_CODES else f"cc-{plain.removeprefix('cc-')}"
    return f"{name}-{version}" if isinstance(version, str) and version.strip() else name
