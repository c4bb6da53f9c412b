"""Baidu's pages, recorded and made up: the cipher, broken JSON, advertisements, and who is turned away."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.backends.web import image_search
from querytruth.backends.web.image_search import SearchError, SearchResult
from querytruth.backends.web.image_search.baidu import decode_url, parse_result_page
from querytruth.backends.web.web_records import WebRequest

CIPHER = "abcdefghijklmnopqrstuvw1234567890"
ENCIPHERED = "wkv1ju2it3hs4g5rq6fp7eo8dn9cm0bla"


def enciphered(address: str) -> str:
    """As the service writes it."""
    letters = address.translate(str.maketrans(CIPHER, ENCIPHERED))
    return letters.replace(":", "_z2C$q").replace(".", "_z&e3B").replace("/", "AzdH3F")


def page(*items: dict[str, Any], **told: Any) -> bytes:
    return json.dumps({"listNum": 1738, "displayNum": 52099, "data": [*items, {}], **told}, ensure_ascii=False).encode()


def item(**told: Any) -> dict[str, Any]:
    return {"objURL": enciphered("http://a.example/1.jpg"), "width": 300, "height": 200, "adType": "0", **told}


def test_the_recorded_answer_is_read_to_the_last_result(shared: Callable[[str], Path]) -> None:
    found = parse_result_page(shared("search_responses/baidu_acjson_xiuji.json").read_bytes())
    assert found.reported == 1738, "what can be paged, not what is boasted of"
    assert len(found.candidates) == 30, "the empty last one is none"
    first = found.candidates[0]
    assert first.url == (
        "http://c.hiphotos.baidu.com/baike/s%3D220/sign=480e73a4f1d3572c62e29bdeba126352/"
        "2934349b033b5bb58b3504b335d3d539b700bc98.jpg"
    )
    assert first.page_url == "http://baike.baidu.com/subview/104539/12107092.htm?fr=aladdin"
    assert (first.caption, first.width, first.height) == ("丰臣秀吉", 220, 177)
    assert first.alternative_urls[-1].startswith("https://ss2.bdstatic.com/")
    assert not any(candidate.is_advertisement for candidate in found.candidates)
    assert all(c.url.startswith(("http://", "https://")) and c.url.isascii() for c in found.candidates)
    assert len({c.url for c in found.candidates}) == 30


def test_what_the_cipher_hides_is_what_the_service_says_beside_it(shared: Callable[[str], Path]) -> None:
    """Every recorded result names the host of its page in plain."""
    recorded = json.loads(shared("search_responses/baidu_acjson_xiuji.json").read_bytes())
    results = [entry for entry in recorded["data"] if entry]
    hosts = [urlsplit(decode_url(entry["fromURL"]) or "").netloc for entry in results]
    assert hosts == [entry["fromURLHost"] for entry in results]


def test_the_recorded_block_answer_stops_the_run(shared: Callable[[str], Path]) -> None:
    with pytest.raises(SearchError) as told:
        parse_result_page(shared("search_responses/baidu_antiflag.json").read_bytes())
    assert (told.value.kind, told.value.detail) == ("blocked", "Forbid spider access")


@given(st.text("abcdefghijklmnopqrstuvwxyzABCDEF0123456789-_%~?=&,+./:", max_size=60))
def test_the_cipher_is_undone_whatever_was_put_into_it(path: str) -> None:
    if "AzdH3F" in path or "_z" in path:
        return
    assert decode_url(enciphered(f"http://{path}")) == f"http://{path}"


@pytest.mark.parametrize("given", [None, "", 3, "ippr", "ippr_z2C$q", "javascript:alert(1)", {"a": 1}])
def test_what_is_no_address_in_cipher_is_none(given: object) -> None:
    assert decode_url(given) is None


def test_a_plain_address_stays() -> None:
    assert decode_url("https://a.example/w1.jpg") == "https://a.example/w1.jpg"


@pytest.mark.parametrize(
    ("title", "caption"),
    [
        (r"it\'s a cat", "it's a cat"),
        (r"back\slash \d \x41 \u12 \/ \n end", "backslash d x41 u12 / end"),
        ("a\nb\tc\x01d", "a b c d"),
        (r"quoted \"cat\" \\ done", 'quoted "cat" \\ done'),
        (r"half \ud800 a character", "half a character"),
        ("<strong>秀吉<\\/strong>图片", "秀吉图片"),
        ("left \u202eto right", "left to right"),
        ("", None),
    ],
)
def test_titles_with_every_kind_of_damage_are_read(title: str, caption: str | None) -> None:
    body = page(item(fromPageTitleEnc="@@")).replace(b"@@", title.encode("utf-8", "surrogatepass"))
    assert parse_result_page(body).candidates[0].caption == caption


def test_a_page_in_another_encoding_is_read() -> None:
    body = page(item(fromPageTitleEnc="一只黑色的猫")).decode().encode("gb18030")
    assert parse_result_page(body).candidates[0].caption == "一只黑色的猫"
    assert parse_result_page(b"\xef\xbb\xbf" + page(item())).reported == 1738


@pytest.mark.parametrize(
    "sign", [{"adType": "1"}, {"adType": 2}, {"isAspDianjing": 1}, {"adPicId": "77"}, {"hasAspData": "1"}]
)
def test_advertisements_are_told(sign: dict[str, Any]) -> None:
    assert parse_result_page(page(item(**sign))).candidates[0].is_advertisement
    plain = item(adType=0, isAspDianjing=0, adPicId="0", hasAspData="0")
    assert not parse_result_page(page(plain)).candidates[0].is_advertisement


LISTED = [({"listNum": "99"}, 99), ({"listNum": 0}, 0), ({"listNum": None}, None), ({"listNum": -3}, None)]


@pytest.mark.parametrize(("told", "reported"), LISTED)
def test_the_number_of_results_is_the_one_that_can_be_paged(told: dict[str, Any], reported: int | None) -> None:
    assert parse_result_page(page(item(), **told)).reported == reported


def test_items_that_make_no_sense_are_results_without_an_address() -> None:
    odd = [{"a": 1}, {"objURL": 3, "width": "x", "height": -1}, item(width="640", height=True, replaceUrl="none")]
    found = parse_result_page(page(*odd)).candidates
    assert [c.url for c in found] == ["", "", "http://a.example/1.jpg"]
    assert [(c.width, c.height) for c in found] == [(None, None), (None, None), (640, None)]
    assert len(parse_result_page(json.dumps({"data": [None, 1, "x", [], {}]}).encode()).candidates) == 0


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>\xe5\xae\x89\xe5\x85\xa8\xe9\xaa\x8c\xe8\xaf\x81</html>", "blocked"),
        (b'{"antiFlag":1,"message":"Forbid spider access"}', "blocked"),
        (b"", "transient"),
        (b'{"data": null}', "transient"),
        (page(item())[:-40], "transient"),
        (b"[" * 100_000, "transient"),
        (b'{"data": %s}' % (b"9" * 5000), "transient"),
    ],
)
def test_what_is_no_page_of_results_says_whether_it_may_pass(body: bytes, kind: str) -> None:
    with pytest.raises(SearchError) as told:
        parse_result_page(body)
    assert told.value.kind == kind


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: page(item(fromPageTitle=text, objURL=text))))
def test_no_page_whatever_crashes_the_parser(body: bytes) -> None:
    try:
        for candidate in parse_result_page(body).candidates:
            assert (candidate.caption or "").encode("utf-8") is not None
    except SearchError:
        pass


def test_a_query_is_asked_page_by_page_until_there_is_enough() -> None:
    asked: list[WebRequest] = []

    def fetch(request: WebRequest, read: Callable[[bytes], Any]) -> Any:
        asked.append(request)
        start = int(parse_qs(urlsplit(request.url).query)["pn"][0])
        return read(page(*(item(objURL=f"http://a.example/{n}") for n in range(start, min(start + 30, 50)))))

    search = image_search.load_image_search("baidu")
    found: SearchResult = search.search("猫 & dog", 24, fetch)
    assert [c.url for c in found.candidates] == [f"http://a.example/{n}" for n in range(24)]
    assert len(asked) == 1
    assert asked[0].url.startswith("https://image.baidu.com/search/acjson?")
    assert parse_qs(urlsplit(asked[0].url).query)["word"] == ["猫 & dog"]
    assert asked[0].referer and not asked[0].is_api, "robots.txt speaks of it"
    assert len(search.search("x", 100, fetch).candidates) == 50
    assert len(asked) == 1 + 2, "a page that is not full is the last one"
