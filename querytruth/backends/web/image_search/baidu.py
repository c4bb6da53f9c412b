"""Baidu's image search (image.baidu.com, acjson): encoded addresses, and JSON that is often invalid.

- In addresses, three marks replace `:`, `.` and `/`, then letters and digits are swapped (hellock/icrawler, MIT).
- `listNum` is the number of results in all pages; `displayNum` (shown on the page) is a hundred times larger.
- Strings contain invalid escapes and raw line ends (kong36088/BaiduImageSpider issues 17 and 24).
- A blocked client gets HTTP 200 with `antiFlag`, or a page with a captcha.
- `data` ends with an empty object. An advertisement has an `adType` other than 0 or an advertisement id.
"""

import re
from typing import Any
from urllib.parse import urlencode

from querytruth.backends.plugins import ModelIdentity, PluginOptions
from querytruth.backends.web.image_search import (
    ImageCandidate,
    PagedSearch,
    SearchError,
    SearchResult,
    normalize_web_url,
    parse_count,
    parse_json_object,
    parse_side,
    visible_text,
)
from querytruth.backends.web.web_records import WebRequest

_ENDPOINT = "https://image.baidu.com/search/acjson"
_PAGE_SIZE = 30
_PARAMETERS = {"tn": "resultjson_com", "ipn": "rj", "ie": "utf-8", "oe": "utf-8"}
_MARKS = {"_z2C$q": ":", "_z&e3B": ".", "AzdH3F": "/"}
_LETTERS = str.maketrans("wkv1ju2it3hs4g5rq6fp7eo8dn9cm0bla", "abcdefghijklmnopqrstuvw1234567890")
_MARK = re.compile("|".join(map(re.escape, _MARKS)))
_BACKSLASH = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_ADVERTISEMENT = ("adType", "hasAspData", "isAspDianjing", "adPicId")
_CAPTCHA_SIGNS = ("安全验证", "wappass.baidu.com", "antiFlag", "captcha")


class BaiduOptions(PluginOptions):
    """`endpoint`: another one for a mirror of the service."""

    endpoint: str = _ENDPOINT


def load(options: BaiduOptions) -> PagedSearch:
    """Return Baidu's image search."""

    def request_page(query: str, page: int) -> WebRequest:
        parameters = _PARAMETERS | {"word": query, "queryWord": query, "pn": page * _PAGE_SIZE, "rn": _PAGE_SIZE}
        return WebRequest(f"{options.endpoint}?{urlencode(parameters)}", "page", referer="https://image.baidu.com/")

    return PagedSearch(ModelIdentity("baidu"), _PAGE_SIZE, request_page, parse_result_page)


def parse_result_page(body: bytes) -> SearchResult:
    """Return the results of a page. Raises SearchError where Baidu blocks the client, or for another page."""
    answer = _read_json(_decode_text(body))
    if answer.get("antiFlag"):
        raise SearchError("turned_away", "blocked", str(answer.get("message") or "antiFlag")[:100])
    items = answer.get("data")
    if not isinstance(items, list):
        raise SearchError("no_results_in_page", "transient", "the page has no data")
    return SearchResult(parse_count(answer.get("listNum")), tuple(_candidate(item) for item in _dicts(items) if item))


def decode_url(encoded: object) -> str | None:
    """Return the decoded address; one that is not encoded stays."""
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


def _dicts(entries: object) -> list[dict[str, Any]]:
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _decode_text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return body.decode("gb18030", "replace")


def _read_json(text: str) -> dict[str, Any]:
    """Parse JSON with raw control characters in strings; needless backslashes are removed."""
    try:
        return parse_json_object(_BACKSLASH.sub(lambda found: found[0] if found[1] else "", text), strict=False)
    except SearchError:
        if any(sign in text for sign in _CAPTCHA_SIGNS):
            raise SearchError("turned_away", "blocked", "the service answered with a captcha page") from None
        raise
