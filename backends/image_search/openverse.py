"""Openverse (api.openverse.org): openly licensed pictures of many collections, each with licence and creator."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict

from backends.image_search import (
    Candidate,
    FetchPage,
    NoAnswer,
    PageRequest,
    SearchIdentity,
    SearchResult,
    checked_options,
    count_of,
    shown_text,
    side_of,
    web_address,
)

_ENDPOINT = "https://api.openverse.org/v1/images/"
_PAGE = 20  # what is given without registration
_NOT_CC = {"cc0": "cc0", "pdm": "pdm"}  # all others are conditions of Creative Commons: by, by-sa, by-nc-nd …


class Options(BaseModel):
    """`endpoint` is for a mirror of the service."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str = _ENDPOINT


def load(**options: Any) -> Openverse:
    """Openverse's search."""
    return Openverse(checked_options(Options, "openverse", options))


class Openverse:
    """Asks for pages of twenty."""

    def __init__(self, options: Options) -> None:
        self.identity = SearchIdentity("openverse")
        self._endpoint = options.endpoint

    def search(self, query: str, wanted: int, fetch: FetchPage) -> SearchResult:
        """The first results; the number reported is that of the first page."""
        first = fetch(self._page(query, 1), read_page)
        found = list(first.candidates)
        for page in range(2, -(-wanted // _PAGE) + 1):
            if len(found) < (page - 1) * _PAGE:
                break
            found += fetch(self._page(query, page), read_page).candidates
        return SearchResult(first.reported, tuple(found[:wanted]))

    def _page(self, query: str, page: int) -> PageRequest:
        return PageRequest(f"{self._endpoint}?{urlencode({'q': query, 'page': page, 'page_size': _PAGE})}", is_api=True)


def read_page(body: bytes) -> SearchResult:
    """The results of a page; NoAnswer where it is none of results."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswer("not_json", "transient", "the page is no JSON") from None
    items = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        detail = answer.get("detail") if isinstance(answer, dict) else None
        raise NoAnswer("no_results_in_page", "transient", str(detail or "the page has no results")[:100])
    candidates = tuple(_candidate(item) for item in items if isinstance(item, dict))
    return SearchResult(count_of(answer.get("result_count")), candidates)


def _candidate(item: dict[str, Any]) -> Candidate:
    return Candidate(
        url=web_address(item.get("url")) or "",
        page_url=web_address(item.get("foreign_landing_url")),
        caption=shown_text(item.get("title")),
        width=side_of(item.get("width")),
        height=side_of(item.get("height")),
        licence=_licence(item.get("license"), item.get("license_version")),
        creator=shown_text(item.get("creator")),
    )


def _licence(code: object, version: object) -> str | None:
    """`by-sa` and `4.0` are cc-by-sa-4.0."""
    if not isinstance(code, str) or not code.strip():
        return None
    plain = code.strip().lower()
    name = _NOT_CC.get(plain) or f"cc-{plain.removeprefix('cc-')}"
    return f"{name}-{version}" if isinstance(version, str) and version.strip() else name
