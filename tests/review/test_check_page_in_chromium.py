"""The page of a check in a real browser: it fits a phone and a desk in both languages, and does what no id says."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

import querytruth as qt
from tests.checks.golden_world import PHOTOS, serve, write_golden
from tests.review.browser_pages import collect_messages

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e" + "长" * 80


@pytest.mark.thorough
def test_it_fits_a_phone_and_a_desk_and_shows_what_was_lost(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_golden(
        tmp_path,
        [
            {"query": "红色的雨伞" * 12, "must": ["p00.jpg", "p07.jpg"]},
            {"query": "dog", "any": ["p01.jpg"], "must_not": "p02.jpg", "known_failure": HOSTILE.replace("\u202e", "")},
            {"query": "a unicorn", "nothing": True},
        ],
        floors={"hit@3": 0.9},
    )
    with serve(tmp_path) as search:
        search.lists["dog"] = ["p02.jpg", HOSTILE, "p01.jpg"]
        qt.check("golden.yaml", update=True)
        search.lists["红色的雨伞" * 12] = [*PHOTOS[1:9], HOSTILE]
        for language in ("en", "zh"):
            qt.check("golden.yaml", report=language, page_language=language)
    messages: list[str] = []
    for language, words in (("en", ("failed", "rank 1", "not found")), ("zh", ("失败", "第 1 名", "未找到"))):
        for width in (390, 1280):
            page = browser.new_page(viewport={"width": width, "height": 900})
            collect_messages(page, messages)
            page.on(
                "request", lambda request: None if "check.html" in request.url else messages.append(request.url[:99])
            )
            page.goto((tmp_path / language / "check.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            first = page.locator("main > section").first
            assert all(word in first.inner_text() for word in words), first.inner_text()
            lost = first.locator("li.must_not img")
            assert lost.first.get_attribute("alt") == "p00.jpg" and lost.first.evaluate("one => one.naturalWidth") > 20
            assert page.locator("h2").count() == 4 and page.locator("html").get_attribute("lang") == language
            page.close()
    assert [one for one in messages if not one.startswith("data:")] == []
