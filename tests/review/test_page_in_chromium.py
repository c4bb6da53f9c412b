"""The page in a real browser: it renders, asks for nothing, runs nothing, and fits a phone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from builders.lint import lint_tables
from builders.recall.page import render_recall_page, select_recall
from flows.definition_loader import load_definition
from flows.set_kinds import build_set, write_set_page
from tests.images import make_jpeg
from tests.review.browser_pages import collect_messages
from tests.review.recall_sets import (
    make_ambiguity,
    make_ambiguity_example,
    make_candidate_judgments,
    make_caption_figures,
    make_manifest,
    recall_beach_tables,
)


@pytest.fixture
def page_file(make_world: Callable[..., Path], tmp_path: Path) -> Path:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202e\"'&"
    definition: Any = load_definition(make_world(images=True, title=hostile), [], "precision")
    write_set_page(build_set(definition).path, tmp_path / "page.html")
    return tmp_path / "page.html"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.thorough
def test_the_page_shows_its_queries_and_runs_nothing(
    browser: Browser, page_file: Path, width: int, scheme: Any
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    collect_messages(page, said)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [page_file.as_uri()]
    text = page.inner_text("body")
    assert "a picture of a dog" in text and "<script>alert(1)</script>" in text and "car missing" in text
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing overflows sideways"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") in ("A", "SUMMARY"), "reachable by keyboard"
    page.close()


def test_typed_words_leave_the_queries_that_have_them(browser: Browser, page_file: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(page_file.as_uri())
    everything = page.locator("[data-item]").count()
    page.get_by_role("searchbox", name="Filter").fill("dog picture")
    shown = page.locator("[data-item]:visible").all_inner_texts()
    assert 0 < len(shown) < everything and all("dog" in one and "picture" in one for one in shown)
    assert page.inner_text("#filtered") == f"{len(shown)} / {everything}"
    page.get_by_role("searchbox", name="Filter").fill("")
    assert page.locator("[data-item][hidden]").count() == 0 and page.inner_text("#filtered") == ""
    page.close()


def test_a_click_enlarges_an_image_and_the_next_one_closes_it(browser: Browser, page_file: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(page_file.as_uri())
    photo = page.locator(".photo[tabindex]").first
    width = "(one) => parseFloat(getComputedStyle(one, '::after').width) || 0"
    assert photo.evaluate(width) == 0

    photo.click()

    box = photo.bounding_box()
    assert box is not None and photo.evaluate(width) > 2 * box["width"]
    assert "data:image" in photo.evaluate("(one) => getComputedStyle(one, '::after').backgroundImage")
    page.mouse.click(5, 5)
    assert photo.evaluate(width) == 0
    page.close()


@pytest.fixture
def recall_file(tmp_path: Path) -> Path:
    """A recall set with an ambiguous caption that has many rivals, long words, and half of its images."""
    long = "沙滩上的船" * 30 + " unbreakable" * 3 + "x" * 200
    rival = {"image_id": "img_ship", "text": long, "score": 0.5, "evidence": long}
    told = make_ambiguity_example(text=long, new_text=long, outcome="asked_again", rivals=[rival] * 5)
    openings = {"zh": [{"text": long, "count": 9, "share": 0.5, "example": long}], "en": []}
    notes = {"ambiguity": make_ambiguity(*[told] * 9), "captions": make_caption_figures(openings=openings)}
    set_ = replace(recall_beach_tables(), candidate_judgments=make_candidate_judgments(("q_5", "img_boat", 0.6)))
    set_.queries.loc[2, "text"] = long
    manifest = make_manifest(set_, notes=notes, title="<script>alert(1)</script>")
    thumbnails = {"img_dog": make_jpeg(), "img_boat": make_jpeg("orange")}
    html = render_recall_page(set_, manifest, thumbnails, lint_tables(set_), select_recall(set_, notes))
    (tmp_path / "recall.html").write_text(html, "utf-8")
    return tmp_path / "recall.html"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.thorough
def test_the_page_of_a_recall_set_fits_every_screen_and_runs_nothing(
    browser: Browser, recall_file: Path, width: int, scheme: Any
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    collect_messages(page, said)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(recall_file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert said == [] and [url for url in asked if not url.startswith("data:")] == [recall_file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing overflows sideways"
    for text in ("一艘红色的船", "Three dogs on the beach", "its own image", "1 pair waits for a person"):
        assert text in page.inner_text("body"), text
    outside = """ids => [...document.querySelectorAll('.photo')].filter(one => {
        const box = one.getBoundingClientRect();
        return box.width < 20 || box.height < 20 || box.right > innerWidth || box.left < 0 }).length"""
    assert page.evaluate(outside) == 0, "every image is to be seen whole"
    page.close()
