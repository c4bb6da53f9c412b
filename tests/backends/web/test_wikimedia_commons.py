"""Wikimedia's answers: continued over pages, in the order of the search, with licence and creator."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from querytruth.backends.web import image_search
from querytruth.backends.web.image_search import SearchError
from querytruth.backends.web.image_search.wikimedia_commons import merge_answers, parse_answer
from querytruth.backends.web.web_records import WebRequest

FOLDER = "search_responses/openverse_catalog/wikimedia"


def image(number: int, **told: Any) -> dict[str, Any]:
    info = {
        "url": f"https://upload.wikimedia.org/{number}.jpg",
        "thumburl": f"https://upload.wikimedia.org/960px-{number}.jpg",
        "descriptionurl": f"https://commons.wikimedia.org/wiki/File:{number}.jpg",
        "width": 4000,
        "height": 3000,
        "extmetadata": {
            "License": {"value": "cc-by-sa-4.0"},
            "Artist": {"value": '<a href="//x">Jane &amp; Joe</a>'},
            "ImageDescription": {"value": "<p>A cat\non a mat</p>"},
        },
    }
    return {"pageid": number, "index": number, "title": f"File:Cat {number}.jpg", "imageinfo": [info], **told}


def answer(*pages: dict[str, Any], total: int | None = 500, **told: Any) -> dict[str, Any]:
    query = {"pages": {str(page["pageid"]): page for page in pages}}
    return {"query": query | ({} if total is None else {"searchinfo": {"totalhits": total}, "search": []}), **told}


def test_the_recorded_pages_put_together_are_the_recorded_whole(shared: Callable[[str], Path]) -> None:
    pages = [parse_answer(shared(f"{FOLDER}/continuation/wmc_pretty{n}.json").read_bytes()) for n in (1, 2, 3)]
    whole = merge_answers([parse_answer(shared(f"{FOLDER}/continuation/wmc_pretty123.json").read_bytes())])
    assert merge_answers(pages) == whole
    assert len(whole.candidates) == 9
    second = whole.candidates[1]
    assert second.url.startswith("https://upload.wikimedia.org/wikipedia/commons/")
    assert (second.licence, second.creator) == ("cc-by-sa-3.0-de", "Eckhard Henkel")
    assert second.caption and second.caption.startswith("Blick in die Hauptstraße in Richtung Westen")
    assert second.page_url and second.page_url.startswith("https://commons.wikimedia.org/wiki/File:2002-04-02")
    assert {c.licence for c in whole.candidates} == {"pd", "cc-by-sa-3.0-de", "cc-by-sa-4.0"}
    assert all(c.width and c.height for c in whole.candidates)


def test_results_come_in_the_order_of_the_search_and_in_a_size_that_can_be_fetched() -> None:
    found = merge_answers([answer(image(3), image(1), image(2))])
    assert [c.url for c in found.candidates] == [f"https://upload.wikimedia.org/960px-{n}.jpg" for n in (1, 2, 3)]
    first = found.candidates[0]
    assert first.alternative_urls == ("https://upload.wikimedia.org/1.jpg",)
    assert (first.caption, first.creator, found.reported) == ("A cat on a mat", "Jane & Joe", 500)


def test_without_a_description_the_title_is_the_caption() -> None:
    bare = image(1)
    bare["imageinfo"][0]["extmetadata"] = {"LicenseShortName": {"value": "Public domain"}}
    (found,) = merge_answers([answer(bare)]).candidates
    assert (found.caption, found.licence, found.creator) == ("Cat 1", "public-domain", None)


def test_a_list_of_pages_is_read_as_well_and_what_is_no_image_is_left_out() -> None:
    pages = [image(2), {"pageid": 1, "title": "File:x"}, {"pageid": 3, "imageinfo": []}, None, image(1)]
    found = merge_answers([{"query": {"pages": pages}}])
    assert (len(found.candidates), found.reported) == (2, None)


def test_an_answer_that_goes_on_is_followed_to_the_end_of_its_batch() -> None:
    asked: list[dict[str, list[str]]] = []
    bare = [image(n, imageinfo=[]) for n in range(1, 31)]
    whole = [image(n) for n in range(1, 31)]
    more = {"continue": {"gsroffset": 30, "continue": "gsroffset||"}, "batchcomplete": ""}
    answers = [
        answer(*bare, **{"continue": {"iicontinue": "x", "continue": "||", "sroffset": 1}}),
        answer(*whole, **more),
    ]

    def fetch(request: WebRequest, read: Callable[[bytes], Any]) -> Any:
        asked.append(parse_qs(urlsplit(request.url).query))
        assert request.is_api
        return read(json.dumps(answers[len(asked) - 1]).encode())

    found = image_search.load_image_search("wikimedia_commons").search("猫", 24, fetch)
    assert (len(found.candidates), found.reported) == (24, 500)
    assert found.candidates[0].page_url == "https://commons.wikimedia.org/wiki/File:1.jpg"
    assert [page.get("iicontinue") for page in asked] == [None, ["x"]]
    assert "sroffset" not in asked[1]
    assert asked[0]["gsrsearch"] == asked[0]["srsearch"] == ["猫 filetype:bitmap"]


def test_an_answer_without_an_end_is_left() -> None:
    count = 0

    def fetch(_request: WebRequest, read: Callable[[bytes], Any]) -> Any:
        nonlocal count
        count += 1
        return read(json.dumps(answer(image(1), **{"continue": {"gsroffset": count, "continue": "-"}})).encode())

    assert len(image_search.load_image_search("wikimedia_commons").search("x", 24, fetch).candidates) == 1
    assert count == 10


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>Error: 503</html>", "transient"),
        (b"[]", "transient"),
        (b"{}", "transient"),
        (b'{"error": {"code": "maxlag", "info": "Waiting"}}', "transient"),
        (b'{"error": {"code": "ratelimited"}}', "transient"),
        (b'{"error": {"code": "cirrussearch-query-too-long"}}', "final"),
    ],
)
def test_errors_say_whether_they_may_pass(body: bytes, kind: str) -> None:
    with pytest.raises(SearchError) as told:
        parse_answer(body)
    assert told.value.kind == kind


def test_no_result_at_all_is_an_answer() -> None:
    found = merge_answers(
        [parse_answer(b'{"batchcomplete": "", "query": {"searchinfo": {"totalhits": 0}, "search": []}}')]
    )
    assert (found.reported, found.candidates) == (0, ())
