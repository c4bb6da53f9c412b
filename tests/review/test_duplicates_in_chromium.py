"""Near-duplicates by keyboard and by finger, in a real browser, up to the next version."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from builders.publication import BuildResult
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.sample_album.album_files import write_sample_album
from querytruth.sets import set_files
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import ImagePairDecision
from tests.review.browser_pages import (
    collect_messages,
    open_on_phone,
    press,
    serve_page,
    wait_for_text,
    wait_until_saved,
    write,
)
from tests.worlds import save_photo as photo


def build(folder: Path) -> BuildResult:
    path = folder / "gallery.yaml"
    path.write_text(f"{{name: album, kind: gallery, images: {folder / 'album/images'}, out: {folder / 'sets'}}}")
    return build_set(load_definition(path, [], "gallery"))


def at_duplicates(page: Page, url: str) -> Page:
    page.goto(url)
    page.goto(f"{url.partition('/?')[0]}/duplicates")
    page.wait_for_selector(".two")
    return page


def told(folder: Path) -> list[str]:
    return [word.decision for word in read_decisions(folder, ImagePairDecision)]


@pytest.mark.slow
def test_same_not_the_same_undo_and_the_next_version(browser: Browser, tmp_path: Path) -> None:
    write_sample_album(tmp_path / "album", 40)
    first, said = build(tmp_path), list[str]()
    stored = set_files.read_set(first.path)
    with serve_page(stored.path) as (_, url):
        page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        collect_messages(page, said)
        at_duplicates(page, url)
        for half in page.locator(".half img").all():
            expect(half).to_have_js_property("complete", True)
            assert half.evaluate("one => one.naturalWidth") > 300
        page.keyboard.press("?")
        assert "not the same" in page.inner_text("#help")
        press(page, "Escape", "d", place=r"^2 of \d+ · 1 decided")
        page.keyboard.press("s")
        wait_until_saved(page)
        press(page, "u", place="1 decided")
        press(page, "k", place="^1 of")
        strip, group = (page.locator(name).first.bounding_box() for name in (".strips section", ".strips .group"))
        assert strip and group, "both are seen"
        assert group["y"] > strip["y"] and group["height"] < 100, "a group lies in its strip, over nothing else"
        assert page.locator(".strips section").nth(0).locator(".group").count() == 1
        assert page.locator(".strips section").nth(1).locator(".group").count() == 2, "what follows is shown"
        write(page, "重拍的", "n")
        page.wait_for_selector(".note")
        page.close()
        phone = open_on_phone(browser)
        at_duplicates(phone, url)
        phone.locator(".verdict .large").nth(0).tap()
        wait_until_saved(phone)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        phone.close()
    assert told(tmp_path / "sets/album") == ["different", "same", "undo", "different", "same"] and said == []
    second = build(tmp_path)
    images = [len(set_files.read_set(one.path).tables.images) for one in (first, second)]
    assert second.version == 2 and images[1] == images[0] + 1


@pytest.mark.thorough
def test_where_no_group_was_found_two_images_can_be_brought_together(browser: Browser, tmp_path: Path) -> None:
    for number, name in enumerate(("早晨.jpg", "evening.jpg")):
        photo(tmp_path / "album/images" / name, number)
    first = build(tmp_path)
    assert not len(set_files.read_set(first.path).tables.duplicates)
    with serve_page(first.path) as (_, url):
        page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        page.goto(url)
        page.get_by_role("link", name="Duplicates").click()
        page.wait_for_selector(".empty")
        page.keyboard.press("m")
        wait_for_text(page, "#finder [role=status]", "Write a part of its name")
        for name in ("早", "even"):
            write(page, name)
            page.wait_for_selector(".first img" if name == "早" else ".two")
        page.keyboard.press("s")
        wait_for_text(page, ".verdict", "you decided the same")
        page.close()
    assert len(set_files.read_set(build(tmp_path).path).tables.images) == 1
