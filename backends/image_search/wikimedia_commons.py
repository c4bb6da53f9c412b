"""Wikimedia Commons by the API of MediaWiki: freely licensed pictures, each with licence and creator."""

from __future__ import annotations

import json
from collections.abc import Sequence
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

_ENDPOINT = "https://commons.wikimedia.org/w/api.php"
_MOST_PAGES = 10  # an answer may be continued again and again
_FILES = 6  # the namespace of files
_WIDTH = 960  # px: one of the widths that Wikimedia has in store; originals are often too large to fetch
_ASKED = {
    "action": "query",
    "format": "json",
    "maxlag": "5",  # the servers' own plea: not while they are behind
    "prop": "imageinfo",
    "iiprop": "url|size|mime|extmetadata",
    "iiurlwidth": str(_WIDTH),
    "iiextmetadatafilter": "License|LicenseShortName|Artist|ImageDescription|ObjectName",
    "generator": "search",
    "gsrnamespace": str(_FILES),
    # As a list, for its total: a generator gives none.
    "list": "search",
    "srnamespace": str(_FILES),
    "srlimit": "1",
    "srinfo": "totalhits",
    "srprop": "",
}


class Options(BaseModel):
    """`endpoint` is for another wiki."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str = _ENDPOINT


def load(**options: Any) -> WikimediaCommons:
    """The search of Wikimedia Commons."""
    return WikimediaCommons(checked_options(Options, "wikimedia_commons", options))


class WikimediaCommons:
    """Asks for as many results as are wanted, and follows where the answer is continued."""

    def __init__(self, options: Options) -> None:
        self.identity = SearchIdentity("wikimedia_commons")
        self._endpoint = options.endpoint

    def search(self, query: str, wanted: int, fetch: FetchPage) -> SearchResult:
        """The first results that are pictures."""
        answers: list[dict[str, Any]] = []
        following: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            answers.append(fetch(self._page(query, wanted, following), read_answer))
            result = results_of(answers)
            following = _continued(answers[-1])
            if not following or ("batchcomplete" in answers[-1] and len(result.candidates) >= wanted):
                break
        return SearchResult(result.reported, result.candidates[:wanted])

    def _page(self, query: str, wanted: int, following: dict[str, str]) -> PageRequest:
        words = f"{query} filetype:bitmap"
        asked = _ASKED | {"gsrsearch": words, "srsearch": words, "gsrlimit": str(min(wanted, 50))} | following
        return PageRequest(f"{self._endpoint}?{urlencode(asked)}", is_api=True)


def read_answer(body: bytes) -> dict[str, Any]:
    """One page as JSON; NoAnswer where it is an error or none of results."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswer("not_json", "transient", "the page is no JSON") from None
    if not isinstance(answer, dict):
        raise NoAnswer("not_json", "transient", "the page is no object")
    if isinstance(error := answer.get("error"), dict):
        code = str(error.get("code"))[:100]  # of what is wrong with the query, cirrussearch-… or srsearch-…
        raise NoAnswer("service_error", "final" if "search" in code else "transient", code)
    if not isinstance(answer.get("query"), dict) and "batchcomplete" not in answer:
        raise NoAnswer("no_results_in_page", "transient", "the page has no query")
    return answer


def results_of(answers: Sequence[dict[str, Any]]) -> SearchResult:
    """The pages of one answer put together: what is said of a picture may be spread over them. In the order of the
    search (`index`) where there is one, else in that of the pages."""
    merged: dict[Any, dict[str, Any]] = {}
    reported = None
    for answer in answers:
        query = answer.get("query") or {}
        total = count_of((query.get("searchinfo") or {}).get("totalhits"))
        reported = reported if total is None else total
        for page in _pages(query.get("pages")):
            known = merged.setdefault(page.get("pageid", page.get("title")), {})
            known |= {name: value for name, value in page.items() if value or name not in known}
    ordered = sorted(merged.values(), key=lambda page: page.get("index", len(merged)))
    return SearchResult(reported, tuple(_candidate(page) for page in ordered if _info(page)))


def _pages(pages: Any) -> list[dict[str, Any]]:
    """As an object by id (format version 1) or as a list."""
    listed = list(pages.values()) if isinstance(pages, dict) else pages if isinstance(pages, list) else []
    return [page for page in listed if isinstance(page, dict)]


def _continued(answer: dict[str, Any]) -> dict[str, str]:
    """What to ask with for the next page. The list that was asked for its total only is not continued."""
    following = answer.get("continue")
    if not isinstance(following, dict):
        return {}
    given = {str(name): str(value) for name, value in following.items() if name != "sroffset"}
    return given if set(given) - {"continue"} else {}


def _info(page: dict[str, Any]) -> dict[str, Any]:
    infos = page.get("imageinfo")
    return infos[0] if isinstance(infos, list) and infos and isinstance(infos[0], dict) else {}


def _candidate(page: dict[str, Any]) -> Candidate:
    info = _info(page)
    original, small = web_address(info.get("url")), web_address(info.get("thumburl"))
    title = str(page.get("title") or "").partition(":")[2].rpartition(".")[0]
    return Candidate(
        url=small or original or "",
        also_at=(original,) if small and original and small != original else (),
        page_url=web_address(info.get("descriptionurl")),
        caption=_said(info, "ImageDescription") or _said(info, "ObjectName") or shown_text(title),
        width=side_of(info.get("width")),
        height=side_of(info.get("height")),
        licence=_licence(info),
        creator=_said(info, "Artist") or shown_text(info.get("user")),
    )


def _licence(info: dict[str, Any]) -> str | None:
    """The code (cc-by-sa-3.0-de, pd), else the short name in its form."""
    told = _said(info, "License") or _said(info, "LicenseShortName")
    return told.lower().replace(" ", "-") if told else None


def _said(info: dict[str, Any], name: str) -> str | None:
    entry = (info.get("extmetadata") or {}).get(name)
    return shown_text(entry.get("value")) if isinstance(entry, dict) else None
