"""Openverse's pages: licence and creator are kept."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from querytruth.backends.web import image_search
from querytruth.backends.web.image_search import ImageCandidate, SearchError
from querytruth.backends.web.image_search.openverse import parse_result_page
from querytruth.backends.web.web_records import WebRequest

ITEM = {
    "id": "0aff3595-8168-440b-83ff-7a80b65dea42",
    "title": "Red  <b>barn</b> &amp; silo",
    "foreign_landing_url": "https://www.flickr.com/photos/1/2",
    "url": "https://live.staticflickr.com/1/2_b.jpg",
    "creator": "Jane Doe",
    "license": "by-sa",
    "license_version": "2.0",
    "width": 1024,
    "height": 683,
    "mature": False,
}


def page(*items: dict[str, Any], count: int = 240) -> bytes:
    return json.dumps({"result_count": count, "page_count": 12, "page_size": 20, "page": 1, "results": items}).encode()


def test_a_result_is_told_with_licence_and_creator() -> None:
    found = parse_result_page(page(ITEM))
    assert found.reported == 240
    assert found.candidates == (
        ImageCandidate(
            "https://live.staticflickr.com/1/2_b.jpg",
            page_url="https://www.flickr.com/photos/1/2",
            caption="Red barn & silo",
            width=1024,
            height=683,
            licence="cc-by-sa-2.0",
            creator="Jane Doe",
        ),
    )


@pytest.mark.parametrize(
    ("code", "version", "licence"),
    [
        ("by", "4.0", "cc-by-4.0"),
        ("BY-NC-ND", "2.0", "cc-by-nc-nd-2.0"),
        ("cc0", "1.0", "cc0-1.0"),
        ("pdm", "1.0", "pdm-1.0"),
        ("sampling+", "1.0", "cc-sampling+-1.0"),
        ("by", None, "cc-by"),
        ("", "1.0", None),
        (None, None, None),
    ],
)
def test_licences_are_codes(code: str | None, version: str | None, licence: str | None) -> None:
    found = parse_result_page(page(ITEM | {"license": code, "license_version": version}))
    assert found.candidates[0].licence == licence


def test_items_that_make_no_sense_are_results_without_an_address() -> None:
    found = parse_result_page(page({}, {"url": "//cdn.example/a.jpg", "width": None}, {"url": "ftp://a"}))
    assert [c.url for c in found.candidates] == ["", "https://cdn.example/a.jpg", ""]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"detail": "Request was throttled."}', b'{"results": 3}'])
def test_what_is_no_page_of_results_may_pass(body: bytes) -> None:
    with pytest.raises(SearchError) as told:
        parse_result_page(body)
    assert told.value.kind == "transient"


def test_two_pages_give_the_first_twenty_four() -> None:
    asked: list[WebRequest] = []

    def fetch(request: WebRequest, read: Callable[[bytes], Any]) -> Any:
        asked.append(request)
        number = int(parse_qs(urlsplit(request.url).query)["page"][0])
        return read(page(*(ITEM | {"url": f"https://a.example/{number}/{n}"} for n in range(20))))

    found = image_search.load_image_search("openverse").search("猫", 24, fetch)
    assert [c.url for c in found.candidates][19:22] == [f"https://a.example/{n}" for n in ("1/19", "2/0", "2/1")]
    assert len(found.candidates) == 24
    assert [request.is_api for request in asked] == [True, True]
    assert parse_qs(urlsplit(asked[1].url).query) == {"q": ["猫"], "page": ["2"], "page_size": ["20"]}
