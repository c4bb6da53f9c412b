"""The page of a folder in a real browser, by keyboard alone: an address, a query, judgments, a figure."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from tests.checks.golden_world import PHOTOS, serve
from tests.review.browser_pages import open_in_browser, press_keys, wait_for_text, write


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with serve(tmp_path) as search:
        search.lists["red"] = [*PHOTOS[2:9], "elsewhere.jpg"]
        command = [sys.executable, "-m", "querytruth", "open", "photos", "--no-open", "--reviewer", "lin"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            match = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
            assert match
            yield match[0]
        finally:
            process.kill()
            process.communicate()


def ask(page: Page, text: str) -> None:
    page.locator("#ask [name=text]").focus()
    write(page, text)
    page.wait_for_selector("#answers li[data-photo]")


@pytest.mark.thorough
def test_by_keyboard_alone_from_a_query_to_a_figure(browser: Browser, address: str, tmp_path: Path) -> None:
    messages: list[str] = []
    page = open_in_browser(browser, address, "#ask", messages)
    page.locator("#ask [name=one]").select_option("mine.yaml")
    ask(page, "red")
    expect(page.locator("#answers li").first.locator("[data-tile]")).to_be_focused()
    press_keys(page, "ynyyyny")
    wait_for_text(page, "#figure b", r"^p@10 0\.50$")
    assert "0.00" in page.inner_text("#figure") and "1.00" in page.inner_text("#figure")
    page.keyboard.press("u")
    wait_for_text(page, "#figure b", r"^p@10 0\.40$")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#answers li").nth(5).locator("[data-tile]")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#large img")).to_be_visible()
    page.keyboard.press("Escape")
    rows = (tmp_path / "judgments.csv").read_text().splitlines()
    assert rows[1] == "red,p02.jpg,1,lin" and len(rows) == 7
    page.locator("[data-work=golden]").focus()
    page.keyboard.press("Enter")
    wait_for_text(page, "[data-work=golden]", "golden.yaml: 1")
    assert messages == []


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "scheme", "locale"), [(1280, "dark", "en"), (390, "light", "zh-CN")])
def test_it_fits_a_phone_and_a_desk_and_two_searches_stand_side_by_side(
    browser: Browser, address: str, tmp_path: Path, width: int, scheme: str, locale: str
) -> None:
    (tmp_path / "other.yaml").write_text(mine := (tmp_path / "mine.yaml").read_text())
    url = yaml.safe_load(mine)["url"]
    messages: list[str] = []
    page = open_in_browser(browser, address, "#ask", messages, color_scheme=scheme, locale=locale)
    page.set_viewport_size({"width": width, "height": 860})
    page.locator("#ask [name=one]").select_option("mine.yaml")
    page.locator("#ask [name=other]").select_option("other.yaml")
    ask(page, "red")
    assert page.locator("#answers h3").all_inner_texts() == [f"{name}.yaml ({url})" for name in ("mine", "other")]
    page.keyboard.press("y")
    expect(page.locator("#answers li.right")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("html").get_attribute("lang") == locale[:2] and messages == []
