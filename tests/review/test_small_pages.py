"""The pages of one query, of a trial and of overlap: texts of strangers stay text, and nothing is loaded or run."""

import pandas as pd
import pytest

from querytruth.audit.overlap_page import render_overlap_page
from querytruth.audit.shortcuts import render_shortcuts_page
from querytruth.review.search_views import render_search
from tests.images import make_jpeg
from tests.review.page_reader import ParsedPage

HOSTILE = "<script>alert(1)</script>\u202e\"' onload='alert(2)</style><img src=x onerror=alert(3)>{{ 7 * 7 }}"


def search_page(language: str) -> str:
    hits = [
        {"id": HOSTILE, "image_id": HOSTILE, "rank": 1, "score": 0.5, "grade": 2},
        {"id": HOSTILE, "image_id": None, "rank": 2, "score": None, "grade": None},
    ]
    return render_search(
        HOSTILE, HOSTILE, hits, hits[:1], {HOSTILE: make_jpeg()}, language, relevant_count=1, is_query=True
    )


def overlap_page(language: str) -> str:
    pair = {"kind": "image", "set_item": HOSTILE, "other_item": HOSTILE, "against": HOSTILE, "evidence": HOSTILE}
    tables = {
        "pairs": pd.DataFrame([pair | {"distance": 3}, pair | {"kind": "text", "set_item": "q", "distance": 0}]),
        "queries": pd.DataFrame({"query_id": ["q"], "overlap": ["leaked"]}),
    }
    queries = pd.DataFrame({"query_id": ["q"], "text": [HOSTILE]})
    thumbnails = {("", HOSTILE): make_jpeg(), (HOSTILE, HOSTILE): make_jpeg()}
    return render_overlap_page({"name": HOSTILE, "version": 1}, queries, tables, thumbnails, language)


def test_a_query_in_the_page_of_shortcuts_stays_text() -> None:
    row = {"system": "folder", "queries": 12, "ndcg": 0.4, "low": 0.3, "high": 0.5, "random": 0.1, "deviations": 9.0}
    tables = {
        "shortcuts": pd.DataFrame([row | {"p": 0.005, "beats_chance": True}]),
        "queries": pd.DataFrame([{"system": "folder", "query_id": "q", "text": HOSTILE, "ndcg": 1.0, "random": 0.1}]),
    }
    page = render_shortcuts_page({"name": HOSTILE, "version": 1}, tables, "en")
    seen = ParsedPage(page)
    assert seen.text.count("<script>alert(1)</script>") >= 2 and "\u202e" not in page
    assert {tag for tag, _ in seen.tags} & {"script", "img", "iframe", "object", "base", "link", "form", "a"} == set()
    assert "nDCG" in page and [one["role"] for tag, one in seen.tags if tag == "svg"] == ["img"]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("render", [search_page, overlap_page])
def test_texts_of_strangers_stay_text(render: object, language: str) -> None:
    assert callable(render)
    page = render(language)
    seen = ParsedPage(page)
    assert seen.text.count("<script>alert(1)</script>") >= 2 and "{{ 7 * 7 }}" in seen.text and "\u202e" not in page
    assert {tag for tag, _ in seen.tags} & {"script", "iframe", "object", "base", "link", "form", "a"} == set()
    images = [attributes for tag, attributes in seen.tags if tag == "img"]
    assert images and all(set(one) <= {"src", "alt"} for one in images)
    assert all(one["src"].startswith("data:image/jpeg;base64,") for one in images)
    (policy,) = [one["content"] for tag, one in seen.tags if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; img-src data:")
