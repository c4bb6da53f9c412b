"""The pages of one query, of a trial and of overlap: texts of strangers stay text, and nothing is loaded or run."""

from types import SimpleNamespace

import pandas as pd
import pytest

from querytruth.audit import notice
from querytruth.audit.overlap_page import render_overlap_page
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


def test_texts_in_the_page_of_what_a_set_would_notice_stay_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice, "make_set_thumbnails", lambda _stored, ids: dict.fromkeys(ids, make_jpeg()))
    damage = {"kind": HOSTILE, "size": 0.05, "smallest": 0.1, "low": 0.05, "high": None, "stopped": 0.5, "loss": 0.02}
    blind = {"of": "unfound", "kind": f"folder: {HOSTILE}", "images": 12, "share": 1.0, "others": 0.0}
    seen = {"system": "folder", "queries": 12, "ndcg": 0.4, "low": 0.3, "high": 0.5, "random": 0.1, "deviations": 9.0}
    typed = {"kind": "upper case", "queries": 9, "before": 1.0, "after": 0.5, "difference": -0.5, "p": 0.01, "lost": 5}
    found = {
        "set": {"name": HOSTILE, "version": 1},
        "system": {"name": HOSTILE},
        "metric": "hit@1",
        "margin": 0.01,
        "size": 0.05,
        "draws": 50,
        "figure": 0.9,
        "kinds": 1,
        "caught": 0,
        "resamples": 50,
        "false_alarms": 0.0,
        "false_alarms_at_most": 0.06,
        "never": {"1": 0.5},
        "gini": 0.3,
        "asked": 20,
        "hubs": {HOSTILE: 40},
        "unfound": [HOSTILE],
        "uncovered": [HOSTILE],
        "uncovered_share": 0.1,
        "damages": [damage | {"reason": "too_few", "further": 100}],
        "blind_kinds": [blind | {"difference": 0.9, "low": 0.8, "high": 1.0, "p": 0.001}],
        "uncovered_parts": [
            {"by": "folder", "part": HOSTILE, "images": 20, "share": 0.1, "expected": 3.0, "queries": 2}
        ],
        "typing": [typed | {"low": -0.7, "high": -0.3, "overlap": 0.5, "example": HOSTILE, "typed": HOSTILE}],
        "shortcuts": [seen | {"p": 0.005, "beats_chance": True, "examples": [HOSTILE]}],
    }
    stored = SimpleNamespace(tables=SimpleNamespace(images=pd.DataFrame({"image_id": [HOSTILE], "file_name": HOSTILE})))
    for language in ("en", "zh"):
        page = notice.render_notice_page(stored, found, language)  # type: ignore[arg-type]
        parsed = ParsedPage(page)
        assert parsed.text.count("<script>alert(1)</script>") >= 8 and "\u202e" not in page
        assert {tag for tag, _ in parsed.tags} & {"script", "iframe", "object", "base", "link", "form", "a"} == set()
        images = [attributes for tag, attributes in parsed.tags if tag == "img"]
        assert len(images) == 3 and all(one["src"].startswith("data:image/jpeg") for one in images)
        assert "nDCG" in page and [one["role"] for tag, one in parsed.tags if tag == "svg"] == ["img"]


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
