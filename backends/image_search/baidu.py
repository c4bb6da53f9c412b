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

from backends.image_search import (
    FetchPage,
    ImageCandidate,
    PageRequest,
    SearchError,
    SearchResult,
    normalize_web_url,
    parse_count,
    parse_side,
    visible_text,
)
from backends.plugin_loader import ModelIdentity, PluginOptions

_ENDPOINT = "https://image.baidu.com/search/acjson"
_PAGE_SIZE = 30
_MARKS = {"_z2C$q": ":", "_z&e3B": ".", "AzdH3F": "/"}
_LETTERS = str.maketrans("wkv1ju2it3hs4g5rq6fp7eo8dn9cm0bla", "abcdefghijklmnopqrstuvw1234567890")
_MARK = re.compile("|".join(map(re.escape, _MARKS)))
_BACKSLASH = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_ADVERTISEMENT = ("adType", "hasAspData", "isAspDianjing", "adPicId")
_CAPTCHA_SIGNS = ("安全验证", "wappass.baidu.com", "antiFlag", "captcha")


class BaiduOptions(PluginOptions):
    """`endpoint` is for a mirror of the service."""

    endpoint: str = _ENDPOINT


def load(options: BaiduOptions) -> BaiduSearch:
    """Baidu's image search."""
    return BaiduSearch(options)


class BaiduSearch:
    """Asks for pages of thirty."""

    def __init__(self, options: BaiduOptions) -> None:
        self.identity = ModelIdentity("baidu")
        self._endpoint = options.endpoint

    def search(self, query: str, limit: int, fetch: FetchPage) -> SearchResult:
        """The first results; the number reported is that of the first page."""
        first = fetch(self._page(query, 0), parse_result_page)
        candidates = list(first.candidates)
        for start in range(_PAGE_SIZE, limit, _PAGE_SIZE):
            if len(candidates) < start:
                break
            candidates += fetch(self._page(query, start), parse_result_page).candidates
        return SearchResult(first.reported, tuple(candidates[:limit]))

    def _page(self, query: str, start: int) -> PageRequest:
        parameters = {
            "tn": "resultjson_com",
            "ipn": "rj",
            "ie": "utf-8",
            "oe": "utf-8",
            "word": query,
            "queryWord": query,
        }
        address = f"{self._endpoint}?{urlencode({**parameters, 'pn': start, 'rn': _PAGE_SIZE})}"
        return PageRequest(address, referer="https://image.baidu.com/")


def parse_result_page(body: bytes) -> SearchResult:
    """The results of a page; NoAnswer where Baidu has turned us away, or the page is none of results."""
    answer = _read_json(_decode_text(body))
    if answer.get("antiFlag"):
        raise SearchError("turned_away", "blocked", str(answer.get("message") or "antiFlag")[:100])
    items = answer.get("data")
    if not isinstance(items, list):
        raise SearchError("no_results_in_page", "transient", "the page has no data")
    return SearchResult(parse_count(answer.get("listNum")), tuple(_candidate(item) for item in _dicts(items) if item))


def decode_url(encoded: object) -> str | None:
    """An address out of its cipher; one that is in none stays."""
    if not isinstance(encoded, str):
        return None
    if "_z2C$q" not in encoded:
        return normalize_web_url(encoded)
    parts = _MARK.split(encoded)
    marks = [_MARKS[mark] for mark in _MARK.findall(encoded)] + [""]
    return normalize_web_url("".join(part.translate(_LETTERS) + mark for part, mark in zip(parts, marks, strict=True)))


def _candidate(item: dict[str, Any]) -> ImageCandidate:
    replaced = item.get("replaceUrl")
    others = [entry.get("ObjURL") or entry.get("ObjUrl") for entry in _dicts(replaced)]
    given = [decode_url(item.get("objURL")), *map(normalize_web_url, others)]
    given += [normalize_web_url(item.get(name)) for name in ("hoverURL", "middleURL", "thumbURL")]
    addresses = list(dict.fromkeys(address for address in given if address))
    pages = [decode_url(item.get("fromURL")), *(normalize_web_url(e.get("FromURL")) for e in _dicts(replaced))]
    return ImageCandidate(
        url=addresses[0] if addresses else "",
        alternative_urls=tuple(addresses[1:]),
        page_url=next((page for page in pages if page), None),
        caption=visible_text(item.get("fromPageTitleEnc")) or visible_text(item.get("fromPageTitle")),
        width=parse_side(item.get("width")),
        height=parse_side(item.get("height")),
        is_advertisement=any(item.get(name) not in (None, "", "0", 0, False) for name in _ADVERTISEMENT),
    )


def _dicts(entries: Any) -> list[dict[str, Any]]:
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _decode_text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return body.decode("gb18030", "replace")


def _read_json(text: str) -> dict[str, Any]:
    """Raw control characters in strings are let pass, and a backslash before what needs none is left out."""
    try:
        answer = json.loads(_BACKSLASH.sub(lambda found: found[0] if found[1] else "", text), strict=False)
    except (ValueError, RecursionError):
        if any(sign in text for sign in _CAPTCHA_SIGNS):
            raise SearchError("turned_away", "blocked", "a page with a puzzle for people") from None
        raise SearchError("not_json", "transient", "the page is no JSON") from None
    if not isinstance(answer, dict):
        raise SearchError("not_json", "transient", "the page is no object")
    return answer
