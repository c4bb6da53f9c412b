"""Baidu's image search (image.baidu.com, acjson): addresses in cipher, JSON that often is none.

What is known of it, and from where:
- addresses: three marks stand for `:`, `.` and `/`, then letters and digits are swapped (hellock/icrawler, MIT).
- `listNum` is how many results can be paged; `displayNum` is the figure on the page, a hundred times larger.
- invalid escapes and raw line ends in strings (kong36088/BaiduImageSpider issues 17 and 24).
- who is turned away gets HTTP 200 with `antiFlag`, or a page with a puzzle.
- `data` ends with an empty object. `adType` other than 0, or a number of an advertisement, is one.
"""

from __future__ import annotations

import json
import re
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

_ENDPOINT = "https://image.baidu.com/search/acjson"
_PAGE = 30
_MARKS = {"_z2C$q": ":", "_z&e3B": ".", "AzdH3F": "/"}
_LETTERS = str.maketrans("wkv1ju2it3hs4g5rq6fp7eo8dn9cm0bla", "abcdefghijklmnopqrstuvw1234567890")
_MARK = re.compile("|".join(map(re.escape, _MARKS)))
_BACKSLASH = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_ADVERTISEMENT = ("adType", "hasAspData", "isAspDianjing", "adPicId")
_PUZZLE = ("安全验证", "wappass.baidu.com", "antiFlag", "captcha")


class Options(BaseModel):
    """`endpoint` is for a mirror of the service."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str = _ENDPOINT


def load(**options: Any) -> Baidu:
    """Baidu's image search."""
    return Baidu(checked_options(Options, "baidu", options))


class Baidu:
    """Asks for pages of thirty."""

    def __init__(self, options: Options) -> None:
        self.identity = SearchIdentity("baidu")
        self._endpoint = options.endpoint

    def search(self, query: str, wanted: int, fetch: FetchPage) -> SearchResult:
        """The first results; the number reported is that of the first page."""
        first = fetch(self._page(query, 0), read_page)
        found = list(first.candidates)
        for start in range(_PAGE, wanted, _PAGE):
            if len(found) < start:
                break
            found += fetch(self._page(query, start), read_page).candidates
        return SearchResult(first.reported, tuple(found[:wanted]))

    def _page(self, query: str, start: int) -> PageRequest:
        given = {"tn": "resultjson_com", "ipn": "rj", "ie": "utf-8", "oe": "utf-8", "word": query, "queryWord": query}
        address = f"{self._endpoint}?{urlencode({**given, 'pn': start, 'rn': _PAGE})}"
        return PageRequest(address, referer="https://image.baidu.com/")


def read_page(body: bytes) -> SearchResult:
    """The results of a page; NoAnswer where Baidu has turned us away, or the page is none of results."""
    answer = _read_json(_decoded(body))
    if answer.get("antiFlag"):
        raise NoAnswer("turned_away", "blocked", str(answer.get("message") or "antiFlag")[:100])
    items = answer.get("data")
    if not isinstance(items, list):
        raise NoAnswer("no_results_in_page", "transient", "the page has no data")
    return SearchResult(count_of(answer.get("listNum")), tuple(_candidate(item) for item in _dicts(items) if item))


def plain_address(ciphered: object) -> str | None:
    """An address out of its cipher; one that is in none stays."""
    if not isinstance(ciphered, str):
        return None
    if "_z2C$q" not in ciphered:
        return web_address(ciphered)
    parts = _MARK.split(ciphered)
    marks = [_MARKS[mark] for mark in _MARK.findall(ciphered)] + [""]
    return web_address("".join(part.translate(_LETTERS) + mark for part, mark in zip(parts, marks, strict=True)))


def _candidate(item: dict[str, Any]) -> Candidate:
    replaced = item.get("replaceUrl")
    others = [entry.get("ObjURL") or entry.get("ObjUrl") for entry in _dicts(replaced)]
    given = [plain_address(item.get("objURL")), *map(web_address, others)]
    given += [web_address(item.get(name)) for name in ("hoverURL", "middleURL", "thumbURL")]
    addresses = list(dict.fromkeys(address for address in given if address))
    pages = [plain_address(item.get("fromURL")), *(web_address(e.get("FromURL")) for e in _dicts(replaced))]
    return Candidate(
        url=addresses[0] if addresses else "",
        also_at=tuple(addresses[1:]),
        page_url=next((page for page in pages if page), None),
        caption=shown_text(item.get("fromPageTitleEnc")) or shown_text(item.get("fromPageTitle")),
        width=side_of(item.get("width")),
        height=side_of(item.get("height")),
        is_advertisement=any(item.get(name) not in (None, "", "0", 0, False) for name in _ADVERTISEMENT),
    )


def _dicts(entries: Any) -> list[dict[str, Any]]:
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return body.decode("gb18030", "replace")


def _read_json(text: str) -> dict[str, Any]:
    """Raw control characters in strings are let pass, and a backslash before what needs none is left out."""
    try:
        answer = json.loads(_BACKSLASH.sub(lambda found: found[0] if found[1] else "", text), strict=False)
    except (ValueError, RecursionError):
        if any(sign in text for sign in _PUZZLE):
            raise NoAnswer("turned_away", "blocked", "a page with a puzzle for people") from None
        raise NoAnswer("not_json", "transient", "the page is no JSON") from None
    if not isinstance(answer, dict):
        raise NoAnswer("not_json", "transient", "the page is no object")
    return answer
