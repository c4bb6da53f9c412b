"""Openverse (api.openverse.org): openly licensed images of many collections, each with licence and creator."""

from typing import Any
from urllib.parse import urlencode

from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.backends.web import image_search
from querytruth.backends.web.web_records import WebRequest

_ENDPOINT = "https://api.openverse.org/v1/images/"
_PAGE_SIZE = 20  # the largest without registration
_PUBLIC_DOMAIN_CODES = ("cc0", "pdm")  # all others are conditions of Creative Commons: by, by-sa, by-nc-nd …


class OpenverseOptions(PluginOptions):
    """`endpoint`: another one for a mirror of the service."""

    endpoint: str = _ENDPOINT


def load(options: OpenverseOptions) -> image_search.PagedSearch:
    """Return Openverse's search."""

    def request_page(query: str, page: int) -> WebRequest:
        parameters = {"q": query, "page": page + 1, "page_size": _PAGE_SIZE}
        return WebRequest(f"{options.endpoint}?{urlencode(parameters)}", "page", is_api=True)

    return image_search.PagedSearch(ModelIdentity("openverse"), _PAGE_SIZE, request_page, parse_result_page)


def parse_result_page(body: bytes) -> image_search.SearchResult:
    """Return the results of a page. Raises SearchError for another page."""
    answer = image_search.parse_json_object(body)
    items = answer.get("results")
    if not isinstance(items, list):
        detail = answer.get("detail") or "the page has no results"
        raise image_search.SearchError("no_results_in_page", "transient", str(detail)[:100])
    candidates = tuple(_candidate(item) for item in items if isinstance(item, dict))
    return image_search.SearchResult(image_search.parse_count(answer.get("result_count")), candidates)


def _candidate(item: dict[str, Any]) -> image_search.ImageCandidate:
    return image_search.ImageCandidate(
        url=image_search.normalize_web_url(item.get("url")) or "",
        page_url=image_search.normalize_web_url(item.get("foreign_landing_url")),
        caption=image_search.visible_text(item.get("title")),
        width=image_search.parse_side(item.get("width")),
        height=image_search.parse_side(item.get("height")),
        licence=_licence(item.get("license"), item.get("license_version")),
        creator=image_search.visible_text(item.get("creator")),
    )


def _licence(code: object, version: object) -> str | None:
    """Return cc-by-sa-4.0 for `by-sa` and `4.0`."""
    if not isinstance(code, str) or not code.strip():
        return None
    plain = code.strip().lower()
    name = plain if plain in _PUBLIC_DOMAIN_CODES else f"cc-{plain.removeprefix('cc-')}"
    return f"{name}-{version}" if isinstance(version, str) and version.strip() else name
