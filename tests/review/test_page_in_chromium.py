"""The page in a real browser: it renders, asks for nothing, runs nothing, and fits a phone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from flows.builds import build_set
from flows.definitions import load_definition
from querytruth.pages import write_set_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def page_file(make_world: Callable[..., Path], tmp_path: Path) -> Path:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202e\"'&"
    definition: Any = load_definition(make_world(pictures=True, title=hostile), [], "precision")
    write_set_page(build_set(definition).path, tmp_path / "page.html")
    return tmp_path / "page.html"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_shows_its_queries_and_runs_nothing(
    browser: Browser, page_file: Path, width: int, scheme: Any
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
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
