"""The report in a real browser: it asks for nothing, its keys work, it fits a phone, light and dark."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from querytruth.evaluation.comparison import EvaluationWarning
from tests.images import make_jpeg
from tests.review.browser_pages import collect_messages
from tests.review.evaluation.test_comparison_page import page_of as comparison_of
from tests.review.evaluation.test_evaluation_page import page_of as report_of
from tests.review.evaluation_results import beach_tables, make_comparison, make_evaluation

LONG = "沙滩上的船" * 30 + " unbreakable" * 3 + "x" * 200 + "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report and a comparison with long and hostile words, and half of the images."""
    folder = tmp_path_factory.mktemp("pages")
    set_ = beach_tables()
    set_.queries.loc[2, "text"] = LONG
    images = {"img_dog": make_jpeg(), "img_boat": make_jpeg("orange")}
    found = make_evaluation(
        system={"name": LONG, "kind": "model"}, warnings=[EvaluationWarning("floor", "hit@1", LONG)]
    )
    found = replace(found, slices=found.slices.assign(value=found.slices["value"].replace("zh", LONG)))
    pages = {
        "report": report_of(found, set_, images),
        "comparison": comparison_of(make_comparison(first=found), set_, images),
    }
    for name, html in pages.items():
        (folder / f"{name}.html").write_text(html, "utf-8")
    return {name: folder / f"{name}.html" for name in pages}


def opened(browser: Browser, file: Path, width: int = 1280, scheme: Any = "light") -> tuple[Page, list[str]]:
    """The page, and all that it said and asked for besides itself."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    collect_messages(page, said)
    page.on("request", lambda request: said.append(request.url) if not request.url.startswith("data:") else None)
    page.goto(file.as_uri())
    assert said.pop(0) == file.as_uri()
    return page, said


@pytest.mark.parametrize("name", ["report", "comparison"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.thorough
def test_the_page_fits_every_screen_and_asks_for_nothing(
    browser: Browser, files: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    page, said = opened(browser, files[name], width, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing overflows sideways"
    assert "<script>alert(1)</script>" in page.inner_text("body") and "Three dogs on the beach" in page.inner_text(
        "body"
    )
    outside = """() => [...document.querySelectorAll('article .photo')].filter(one => {
        const box = one.getBoundingClientRect();
        return box.width < 20 || box.height < 20 || box.right > innerWidth || box.left < 0 }).length"""
    assert page.evaluate(outside) == 0, "every image is to be seen whole"
    page.close()


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
@pytest.mark.thorough
def test_plots_have_the_colours_of_the_page(browser: Browser, files: dict[str, Path], scheme: str, dark: bool) -> None:
    page, _ = opened(browser, files["report"], scheme=scheme)
    colour = page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill")
    assert (sum(int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")) > 380) == dark
    page.close()


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.querySelector('h4')?.innerText ?? ''"))


@pytest.mark.thorough
def test_j_and_k_walk_through_the_queries(browser: Browser, files: dict[str, Path]) -> None:
    page, said = opened(browser, files["report"])
    walked = []
    for key in "jjjjjjk":
        page.keyboard.press(key)
        walked.append(focused(page))
    assert len(set(walked)) == 5 and all(walked), "all five queries, by the page's order"
    assert walked[4] == walked[5], "the last stays" and walked[6] == walked[3]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is seen"
    assert said == []
    page.close()


@pytest.mark.thorough
def test_digits_and_buttons_filter_by_bin(browser: Browser, files: dict[str, Path]) -> None:
    page, _ = opened(browser, files["report"])
    visible = "[...document.querySelectorAll('article')].filter(one => one.offsetParent).length"
    counts = []
    for key in "12309":
        page.keyboard.press(key)
        counts.append(page.evaluate(visible))
    assert counts == [1, 2, 2, 5, 5]
    page.click("button[data-only=success]")
    assert page.evaluate(visible) == 1
    assert page.get_attribute("button[data-only=success]", "aria-pressed") == "true"
    assert page.inner_text("#status") == "1 queries are shown"
    page.close()


@pytest.mark.thorough
def test_an_image_is_zoomed_and_its_neighbours_are_reached(browser: Browser, files: dict[str, Path]) -> None:
    page, said = opened(browser, files["report"])
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert page.inner_text("#zoom .description").startswith("rank 1, relevant, grade 1: dog.jpg")
    box = page.locator("#zoom .photo").bounding_box()
    assert box is not None and box["width"] > 400, "larger than in its row"
    assert abs(box["width"] / box["height"] - 4 / 3) < 0.35, "in the image's own proportions"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#zoom .description").startswith("rank 2, unjudged: ship.jpg")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#zoom .description").startswith("rank 2"), "there is none after the last"
    page.keyboard.press("Escape")
    assert not page.is_visible("#zoom")
    # Back to where one was, once the dialog has told that it is closed.
    expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("ship.jpg"))
    page.click("article .zooms")
    assert page.is_visible("#zoom") and said == []
    page.close()


@pytest.mark.thorough
def test_the_list_of_keys(browser: Browser, files: dict[str, Path]) -> None:
    page, _ = opened(browser, files["comparison"])
    page.keyboard.press("?")
    assert page.is_visible("#help") and "next query, previous query" in page.inner_text("#help")
    page.keyboard.press("?")
    assert not page.is_visible("#help")
    page.click("[data-help]")
    page.click("#help [data-close]")
    assert not page.is_visible("#help")
    page.close()


@pytest.mark.thorough
def test_everything_is_there_without_the_script(browser: Browser, files: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(files["report"].as_uri())
    assert page.locator("article").count() == 5 and not page.is_visible(".filters")
    assert page.is_visible("article >> nth=4")
    context.close()
