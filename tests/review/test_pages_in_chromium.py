"""The pages in a real browser: they ask for nothing, run nothing of strangers, their keys work, they fit a phone."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import querytruth as qt
from builders.lint import lint_tables
from builders.recall.page import render_recall_page, select_recall
from flows.definition_loader import load_definition
from flows.set_kinds import build_set, write_set_page
from querytruth.audit.page import PAGE_LANGUAGES, render_audit_page
from querytruth.evaluation.comparison import EvaluationWarning
from tests.checks.golden_world import PHOTOS, serve, write_golden
from tests.images import make_jpeg
from tests.review.browser_pages import collect_messages, press
from tests.review.evaluation_results import beach_tables, make_comparison, make_evaluation
from tests.review.recall_sets import (
    make_ambiguity,
    make_ambiguity_example,
    make_candidate_judgments,
    make_caption_figures,
    make_manifest,
    recall_beach_tables,
)
from tests.review.set_pages.test_gallery_page import make_hostile_gallery
from tests.review.test_comparison_page import page_of as comparison_of
from tests.review.test_evaluation_page import page_of as report_of
from tests.small_sets import COLOURS, image_id_of, make_whole_manifest, small_tables

SCREENS = [(1280, "light"), (390, "dark")]


@pytest.fixture
def page_file(make_world: Callable[..., Path], tmp_path: Path) -> Path:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202e\"'&"
    definition: Any = load_definition(make_world(images=True, title=hostile), [], "precision")
    write_set_page(build_set(definition).path, tmp_path / "page.html")
    return tmp_path / "page.html"


@pytest.mark.thorough
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


@pytest.mark.thorough
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


LONG = "沙滩上的船" * 30 + " unbreakable" * 3 + "x" * 200 + "<script>alert(1)</script><img src=x onerror=alert(2)>"


def recall_of() -> str:
    """A recall set with an ambiguous caption that has many rivals, long words, and half of its images."""
    rival = {"image_id": "img_ship", "text": LONG, "score": 0.5, "evidence": LONG}
    told = make_ambiguity_example(text=LONG, new_text=LONG, outcome="asked_again", rivals=[rival] * 5)
    openings = {"zh": [{"text": LONG, "count": 9, "share": 0.5, "example": LONG}], "en": []}
    notes = {"ambiguity": make_ambiguity(*[told] * 9), "captions": make_caption_figures(openings=openings)}
    set_ = replace(recall_beach_tables(), candidate_judgments=make_candidate_judgments(("q_5", "img_boat", 0.6)))
    set_.queries.loc[2, "text"] = LONG
    thumbnails = {"img_dog": make_jpeg(), "img_boat": make_jpeg("orange")}
    manifest = make_manifest(set_, notes=notes)
    return render_recall_page(set_, manifest, thumbnails, lint_tables(set_), select_recall(set_, notes))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages with long and hostile words, and half of the images."""
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
        "recall": recall_of(),
        "gallery": make_hostile_gallery(),
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


SEEN = {
    "set": ["a picture of a dog", "car missing"],
    "report": ["Three dogs on the beach"],
    "comparison": ["Three dogs on the beach"],
    "recall": ["一艘红色的船", "Three dogs on the beach", "its own image", "1 pair waits for a person"],
    "gallery": ["Our album"],
}


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
@pytest.mark.thorough
def test_the_page_fits_every_screen_and_asks_for_nothing(
    browser: Browser, files: dict[str, Path], request: pytest.FixtureRequest, name: str, width: int, scheme: str
) -> None:
    page, said = opened(browser, files.get(name) or request.getfixturevalue("page_file"), width, scheme)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") in ("A", "SUMMARY"), "reachable by keyboard"
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing overflows sideways"
    text = page.inner_text("body")
    assert [one for one in ["<script>alert(1)</script>", *SEEN[name]] if one not in text] == []
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
    press(page, "j", "Enter")
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


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202e\"'&" + "长" * 80


def build_report() -> dict[str, Any]:
    """A report with a hostile name in every place that takes a text."""
    ends = {"value": 0.5, "low": 0.2, "high": 0.9}
    pair = {
        "query_id": "q", "image_id": image_id_of(next(iter(COLOURS))), "text": HOSTILE, "language": "en",
        "grade": 1, "grade_of_set": None, "grade_of_judge": 0, "reason_of_judge": HOSTILE, "note": HOSTILE,
        "reviewers": [HOSTILE],
    }  # fmt: skip
    rates = dict.fromkeys(("kappa", "kappa_relevant", "relevant_by_people", "relevant_by_judge"), 0.5)
    agreement = {**rates, "sensitivity": ends, "specificity": ends, "confusion": {"0": {"0": 4, "1": 1}, "1": {"1": 5}}}
    measures = ("missing_share", "multiplier", "missing", "wrong_share")
    return {
        "name": "audit",
        "audit_id": "a_1",
        "unit": "pairs",
        "set": {"name": HOSTILE, "version": 1, "content_digest": "0" * 64},
        "answers": {"sampled": 9, "answered": 8, "cannot_tell": 1, "disputed": [["q", "i"]], "judged_twice": 3,
                    "same": 2, "kappa": None},
        "truth": [{"measure": name, **ends, "if_undetermined": [0.1, 0.6]} for name in measures],
        "figures": [{"system": system, "metric": "p@10", "before": 0.1, **ends} for system in (HOSTILE, "b")],
        "slices": [{"aspect": "style", "value": HOSTILE, "measure": "missing_share", "answered": 4, "estimate": 0.5,
                    "low": 0.2, "high": 0.9}],
        "found": {"missing": {"number": 1, "pairs": [pair]}, "wrong": {"number": 0, "pairs": []}},
        "judge": {"name": HOSTILE, "revision": "", "digest": "judge_1", "agreement": agreement},
        "outside": {"pairs": 100, "drawn": 5, "answered": 5, "relevant": 0, "at_most": 45.0},
        "strata": [{"stratum": "first_ranks.yes", "pairs": 10, "drawn": 4}],
    }  # fmt: skip


@pytest.mark.thorough
def test_whatever_a_text_holds_is_shown_as_text() -> None:
    for language in PAGE_LANGUAGES:
        page = render_audit_page(build_report(), small_tables().images, make_whole_manifest(), {}, language)
        assert "<script" not in page and "<img" not in page
        assert page.count("&lt;script&gt;alert(1)") >= 9


@pytest.mark.thorough
def test_a_check_fits_a_phone_and_a_desk(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
