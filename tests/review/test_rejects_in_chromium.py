"""Rejects in a real browser: a rescue by keyboard, a server that is killed, a caption written anew."""

import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import Override
from tests.review.browser_pages import (
    collect_messages,
    press,
    press_keys,
    serve_page,
    wait_for_text,
    wait_until_saved,
)
from tests.worlds import build_of, define_gallery
from tests.worlds import save_photo as photo


def built(folder: Path) -> Path:
    """A gallery of one photo of the pile."""
    return build_of("gallery", define_gallery(folder, folder / "pile", select={"count": 1})).path


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    """One photo of thirty is wanted: more than a sheet of rejects."""
    for n in range(30):
        photo(tmp_path / "pile" / f"街 {n:02}.jpg", n, day=1 + n % 28)
    return built(tmp_path)


def log(path: Path) -> list[Override]:
    return read_decisions(path.parent, Override)


def at_rejects(page: Page, url: str) -> Page:
    page.goto(url)
    page.goto(f"{url.partition('/?')[0]}/rejects")
    page.wait_for_selector(".reject.marked")
    return page


def opened(browser: Browser, url: str, said: list[str] | None = None) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
    if said is not None:
        collect_messages(page, said)
    return at_rejects(page, url)


def written(page: Page, text: str) -> None:
    page.locator("#writing-text").fill(text)
    page.keyboard.press("Enter")


@pytest.mark.slow
def test_rescues_by_keyboard_and_a_server_that_is_killed_loses_none(browser: Browser, gallery: Path) -> None:
    said: list[str] = []
    with serve_page(gallery) as (server, url):
        page = opened(browser, url, said)
        expect(page.locator(".reject")).to_have_count(24)
        for image in page.locator(".reject img, .one img").all():
            image.scroll_into_view_if_needed()
            expect(image).to_have_js_property("complete", True)
            assert image.evaluate("one => one.naturalWidth") > 100
        press_keys(page, "r")
        written(page, "好照片")
        wait_for_text(page, "#place", r"^2 of 29 · 1 rescued")
        wait_until_saved(page)
        assert [word.note for word in log(gallery)] == ["好照片"]
        press_keys(page, "r")
        assert page.locator("#writing-text").input_value() == "好照片", "the last reason is offered"
        written(page, "the only one\nof that street")
        wait_for_text(page, "#place", "^3 of 29 · 2 rescued")
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".one .note")).to_contain_text("of that street")
        press_keys(page, "n")
        written(page, "another reason")
        expect(page.locator(".one .note")).to_contain_text("another reason")
        press_keys(page, "u")
        expect(page.locator(".one .note")).to_contain_text("of that street")
        press(page, "u", place="^2 of 29 · 1 rescued")
        press_keys(page, "o")
        assert (
            page.locator("#large-image")
            .evaluate("one => one.src")
            .endswith(page.locator(".one img").evaluate("one => new URL(one.src).pathname"))
        )
        press(page, "o", "r")
        written(page, "  ")
        expect(page.locator("#notice")).to_contain_text("write why")
        wait_for_text(page, "#place", "^2 of 29 · 1 rescued")
        press_keys(page, "?")
        assert "rescue it" in page.inner_text("#help")
        press(page, "Escape", *("j" * 24), place="^26 of 29")
        expect(page.locator(".reject")).to_have_count(5)
        server.send_signal(signal.SIGKILL)
        server.wait()
        page.locator(".reject").first.click()
        press_keys(page, "r")
        written(page, "too late")
        wait_for_text(page, "#saved", "^not saved$")
        page.close()
    assert [word.decision for word in log(gallery)] == ["rescue"] * 3 + ["undo"] * 2
    assert [text for text in said if "net::ERR_" not in text and "409" not in text] == []
    with serve_page(gallery) as (_, url):
        page = opened(browser, url)
        wait_for_text(page, "#place", r"of 29 · 1 rescued")
        assert page.locator("select[name=reason]").count() == 0, "there is one reason alone"
        page.locator("select[name=state]").select_option("decided")
        wait_for_text(page, "#place", "^1 of 1 · 1 rescued")
        expect(page.locator(".one .note")).to_contain_text("You want it: 好照片")
        page.close()


@pytest.mark.thorough
def test_a_stage_offers_its_own_reasons(browser: Browser, tmp_path: Path) -> None:
    for n in range(4):
        photo(tmp_path / "pile" / f"{n}.jpg", n, day=n + 1, size=(160, 120) if n < 3 else (400, 20))
    (tmp_path / "pile" / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    with serve_page(built(tmp_path)) as (_, url):
        page = opened(browser, url)
        reason, stage = page.locator("select[name=reason]"), page.locator("select[name=stage]")
        assert reason.locator("option:enabled").count() == 4
        reason.select_option("not_selected")
        wait_for_text(page, "#place", "^1 of 2")
        stage.select_option("scan")
        wait_for_text(page, "#place", "^1 of 1 ")
        assert reason.input_value() == "" and reason.locator("option:enabled").count() == 2
        press_keys(page, "r")
        expect(page.locator("#notice")).to_contain_text("fix or replace the file")
        expect(page.locator(".one .absent")).to_be_visible()
        stage.select_option("")
        wait_for_text(page, "#place", "^1 of 4")
        page.close()
