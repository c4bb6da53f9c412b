"""Wikimedia Commons by the API of MediaWiki: freely licensed images, each with licence and creator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.backends.web import image_search
from querytruth.backends.web.web_records import WebRequest

_ENDPOINT = "https://commons.wikimedia.org/w/api.php"
_MAX_PAGES = 10  # of one search
_FILES = 6  # the number of the namespace of files
_WIDTH = 960  # px: a width that Wikimedia stores; originals are often too large to fetch
_QUERY_PARAMETERS = {
    "action": "query",
    "format": "json",
    "maxlag": "5",  # as Wikimedia requests: no answer while its servers lag
    "prop": "imageinfo",
    "iiprop": "url|size|mime|extmetadata",
    "iiurlwidth": str(_WIDTH),
    "iiextmetadatafilter": "License|LicenseShortName|Artist|ImageDescription|ObjectName",
    "generator": "search",
    "gsrnamespace": str(_FILES),
    # A second search as a list, for the number of results, which a generator does not report.
    "list": "search",
    "srnamespace": str(_FILES),
    "srlimit": "1",
    "srinfo": "totalhits",
    "srprop": "",
}


class WikimediaCommonsOptions(PluginOptions):
    """`endpoint`: another one for another wiki."""

    endpoint: str = _ENDPOINT


def load(options: WikimediaCommonsOptions) -> WikimediaCommonsSearch:
    """Return the search of Wikimedia Commons."""
    return WikimediaCommonsSearch(options.endpoint)


class WikimediaCommonsSearch:
    """Fetches up to 50 results a page, and the continuations of a page."""

    identity = ModelIdentity("wikimedia_commons")

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def search(self, query: str, limit: int, fetch: image_search.FetchPage) -> image_search.SearchResult:
        """Return the first results that are images. Raises SearchError for a page without results."""
        answers: list[dict[str, Any]] = []
        continuation: dict[str, str] = {}
        for _ in range(_MAX_PAGES):
            answers.append(fetch(self._page(query, limit, continuation), parse_answer))
            result = merge_answers(answers)
            continuation = _continuation(answers[-1])
            if not continuation or ("batchcomplete" in answers[-1] and len(result.candidates) >= limit):
                break
        return image_search.SearchResult(result.reported, result.candidates[:limit])

    def _page(self, query: str, limit: int, continuation: dict[str, str]) -> WebRequest:
        search_text = f"{query} filetype:bitmap"
        search = {"gsrsearch": search_text, "srsearch": search_text, "gsrlimit": str(min(limit, 50))}
        address = f"{self._endpoint}?{urlencode(_QUERY_PARAMETERS | search | continuation)}"
        return WebRequest(address, "page", is_api=True)


def parse_answer(body: bytes) -> dict[str, Any]:
    """Return one page as JSON. Raises SearchError for an error or a page without results."""
    answer = image_search.parse_json_object(body)
    if isinstance(error := answer.get("error"), dict):
        code = str(error.get("code"))[:100]  # cirrussearch-… or srsearch-… for an error in the query
        raise image_search.SearchError("service_error", "final" if "search" in code else "transient", code)
    if not isinstance(answer.get("query"), dict) and "batchcomplete" not in answer:
        raise image_search.SearchError("no_results_in_page", "transient", "the page has no query")
    return answer


def merge_answers(answers: Sequence[dict[str, Any]]) -> image_search.SearchResult:
    """Return the merged pages of one answer, since the fields of an image may be spread over several. Results are in
    the order of the search (`index`), else in that of the pages."""
    merged: dict[Any, dict[str, Any]] = {}
    reported = None
    for answer in answers:
        query = answer.get("query") or {}
        total = image_search.parse_count((query.get("searchinfo") or {}).get("totalhits"))
        reported = reported if total is None else total
        for page in _pages(query.get("pages")):
            known = merged.setdefault(page.get("pageid", page.get("title")), {})
            known |= {name: value for name, value in page.items() if value or name not in known}
    ordered = sorted(merged.values(), key=lambda page: page.get("index", len(merged)))
    return image_search.SearchResult(reported, tuple(_candidate(page) for page in ordered if _info(page)))


def _pages(pages: object) -> list[dict[str, Any]]:
    """Return the pages, given as an object by id (format version 1) or as a list."""
    listed = list(pages.values()) if isinstance(pages, dict) else pages if isinstance(pages, list) else []
    return [page for page in listed if isinstance(page, dict)]


def _continuation(answer: dict[str, Any]) -> dict[str, str]:
    """Return the parameters of the next page, {} for none. The list that only gives the total is not continued."""
    continuation = answer.get("continue")
    if not isinstance(continuation, dict):
        return {}
    given = {str(name): str(value) for name, value in continuation.items() if name != "sroffset"}
    return given if set(given) - {"continue"} else {}


def _info(page: dict[str, Any]) -> dict[str, Any]:
    infos = page.get("imageinfo")
    return infos[0] if isinstance(infos, list) and infos and isinstance(infos[0], dict) else {}


def _candidate(page: dict[str, Any]) -> image_search.ImageCandidate:
    info = _info(page)
    original, small = (
        image_search.normalize_web_url(info.get("url")),
        image_search.normalize_web_url(info.get("thumburl")),
    )
    title = str(page.get("title") or "").partition(":")[2].rpartition(".")[0]
    return image_search.ImageCandidate(
        url=small or original or "",
        alternative_urls=(original,) if small and original and small != original else (),
        page_url=image_search.normalize_web_url(info.get("descriptionurl")),
        caption=_metadata_text(info, "ImageDescription")
        or _metadata_text(info, "ObjectName")
        or image_search.visible_text(title),
        width=image_search.parse_side(info.get("width")),
        height=image_search.parse_side(info.get("height")),
        licence=_licence(info),
        creator=_metadata_text(info, "Artist") or image_search.visible_text(info.get("user")),
    )


def _licence(info: dict[str, Any]) -> str | None:
    """Return the code (cc-by-sa-3.0-de, pd), else the short name in that form."""
    licence_name = _metadata_text(info, "License") or _metadata_text(info, "LicenseShortName")
    return licence_name.lower().replace(" ", "-") if licence_name else None


def _metadata_text(info: dict[str, Any], name: str) -> str | None:
    entry = (info.get("extmetadata") or {}).get(name)
    return image_search.visible_text(entry.get("value")) if isinstance(entry, dict) else None
