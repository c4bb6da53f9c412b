"""Near-duplicates by keyboard and by finger, in a real browser, up to the next version."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from backends.sets import set_files
from backends.sets.decision_log import read_pictures_on
from flows.builds import build_set
from flows.definitions import load_definition
from flows.publish import BuildResult
from flows.sample import draw_sample_album
from tests.review.server.test_judging_in_chromium import browser, pytestmark, saved, served, until

__all__ = ["browser", "pytestmark"]


def build(folder: Path) -> BuildResult:
    path = folder / "gallery.yaml"
    path.write_text(f"{{name: album, kind: gallery, images: {folder / 'album/pictures'}, out: {folder / 'sets'}}}")
    return build_set(load_definition(path, [], "gallery"))


def at_duplicates(page: Page, url: str) -> Page:
    page.goto(url)
    page.goto(f"{url.partition('/?')[0]}/duplicates")
    page.wait_for_selector(".two")
    return page


def told(folder: Path) -> list[str]:
    return [word.decision for word in read_pictures_on(folder)[0]]


def test_same_not_the_same_undo_and_the_next_version(browser: Browser, tmp_path: Path) -> None:
    draw_sample_album(tmp_path / "album", 40)
    first, said = build(tmp_path), list[str]()
    stored = set_files.read(first.path)
    with served(stored) as (_, url):
        page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        at_duplicates(page, url)
        for half in page.locator(".half img").all():
            expect(half).to_have_js_property("complete", True)
            assert half.evaluate("one => one.naturalWidth") > 300
        page.keyboard.press("?")
        assert "not the same" in page.inner_text("#help")
        page.keyboard.press("Escape")
        page.keyboard.press("d")
        until(page, "#place", r"^2 of \d+ · 1 decided")
        page.keyboard.press("s")
        saved(page)
        page.keyboard.press("u")
        until(page, "#place", "1 decided")
        page.keyboard.press("k")
        until(page, "#place", "^1 of")
        assert page.locator(".strips section").nth(0).locator(".box").count() == 1
        assert page.locator(".strips section").nth(1).locator(".box").count() == 2, "what follows is shown"
        page.keyboard.press("n")
        page.keyboard.type("重拍的")
        page.keyboard.press("Enter")
        page.wait_for_selector(".note")
        page.close()
        phone = browser.new_context(viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True).new_page()
        at_duplicates(phone, url)
        phone.locator(".verdict .large").nth(0).tap()
        saved(phone)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        phone.close()
    assert told(tmp_path / "sets/album") == ["different", "same", "undo", "different", "same"] and said == []
    second = build(tmp_path)
    images = [len(set_files.read(one.path).tables.images) for one in (first, second)]
    assert second.version == 2 and images[1] == images[0] + 1
