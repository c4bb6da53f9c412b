"""A reviewer in a real browser adds missed images, judges what a search returned, and all texts that ask the same."""

import base64
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import StoredSet
from tests.review.browser_pages import (
    collect_messages,
    open_in_browser,
    open_on_phone,
    press,
    press_keys,
    serve_page,
    wait_for_text,
    wait_until_saved,
)
from tests.review.test_equivalent_queries import publish_dogs
from tests.review.test_similar_images import draw, publish_album

DROP = """([name, data]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name, { type: 'image/jpeg' }));
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


def log_of(stored: StoredSet) -> list[tuple[str, str | None, str, int | None]]:
    log = read_decisions(stored.path.parent, QueryDecision)
    return [(one.query_id, one.image_id, one.decision, one.relevance) for one in log]


def drop_file(page: Page, name: str, data: bytes) -> None:
    page.evaluate(DROP, [name, base64.b64encode(data).decode()])


def go_to(page: Page, text: str) -> None:
    while page.inner_text("h1") != text:
        before = page.inner_text("#place")
        page.keyboard.press("j")
        expect(page.locator("#place")).not_to_have_text(before)


@pytest.mark.thorough
def test_missed_images_are_added_by_keyboard_by_similarity_and_by_file(browser: Browser, tmp_path: Path) -> None:
    stored, said = publish_album(tmp_path), list[str]()
    with serve_page(stored.path) as (_, url):
        page = open_in_browser(browser, url, ".tile", said)
        go_to(page, "狗")
        page.keyboard.press("i")
        page.keyboard.type("park")
        expect(page.locator("#image-finder .tile")).to_have_count(1)
        page.keyboard.press("Enter")
        expect(page.locator("#image-finder .frame")).to_be_focused()
        page.keyboard.press("2")
        wait_until_saved(page)
        expect(page.locator("#image-finder .tile [aria-pressed=true]")).to_have_text("2")
        page.keyboard.press("s")
        expect(page.locator("#image-finder .tile")).to_have_count(3)
        wait_for_text(page, "#image-finder [role=status]", "^Like park_dog")
        page.keyboard.press("Escape")
        expect(page.locator("#card .tile")).to_have_count(2)
        assert "added" in page.locator("#card .tile").first.inner_text()
        drop_file(page, "mine.jpg", draw(3, quality=60))
        expect(page.locator("#image-finder .tile")).to_have_count(1)
        page.locator("#image-finder .grading").get_by_role("button", name="1", exact=True).click()
        wait_until_saved(page)
        drop_file(page, "other.jpg", draw(77))
        wait_for_text(page, "#image-finder [role=status]", "not in the gallery: no image shows the same")
        page.locator("#image-finder").get_by_role("button", name="Close").click()
        page.keyboard.press("u")
        wait_for_text(page, "#saved", "^taken back")
        expect(page.locator("#card .tile")).to_have_count(2)
        page.close()
    decided = [("q_dog", "img_park_dog", "grade", 2), ("q_dog", "img_street", "grade", 1)]
    assert log_of(stored) == [*decided, ("q_dog", "img_street", "undo", None)]
    assert [text for text in said if "409" not in text] == []


@pytest.mark.thorough
def test_texts_that_ask_the_same_are_judged_at_once_and_one_is_dropped(browser: Browser, tmp_path: Path) -> None:
    stored = publish_dogs(tmp_path)
    with serve_page(stored.path) as (_, url):
        page = open_in_browser(browser, url, ".tile")
        go_to(page, "狗")
        expect(page.locator(".text-mark")).to_have_text(["zh word狗", "zh sentence一张狗的图片", "en worddog"])
        press_keys(page, "1")
        wait_until_saved(page)
        press_keys(page, "e")
        wait_for_text(page, "#notice", "mark it first")
        press_keys(page, "tt")
        expect(page.locator(".text-mark[aria-pressed=true]")).to_have_text("zh sentence一张狗的图片")
        press_keys(page, "x")
        wait_until_saved(page)
        expect(page.locator(".text-mark[aria-pressed=true]")).to_have_text("en worddog")
        press(page, "ArrowLeft", "0")
        wait_until_saved(page)
        expect(page.locator(".tile").first.locator(".why .chip")).to_have_text(["狗: 1", "一张狗的图片: 0", "dog: 0"])
        page.close()
    assert [one[:3] for one in log_of(stored)] == [
        ("q_zh", "img_1", "grade"), ("q_zs", None, "drop"), ("q_en", "img_1", "grade"),
    ]  # fmt: skip


@pytest.mark.thorough
def test_what_a_search_returned_is_judged_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    stored, said = publish_album(tmp_path), list[str]()
    rows = [("q_dog", "park_dog", 2), ("q_dog", "street", 1), ("q_cat", "sofa_cat", 2), ("q_cat", "park_dog", 1)]
    run = tmp_path / "secret.csv"
    run.write_text(
        "query_id,image_id,score\n" + "".join(f"{query},img_{name},{score}\n" for query, name, score in rows)
    )
    with serve_page(stored.path, options=["--run", str(run), "--depth", "2"]) as (_, url):
        page = open_on_phone(browser)
        collect_messages(page, said)
        page.goto(url)
        wait_for_text(page, "#place", "^1 of 3")
        assert page.url.partition("#")[0].endswith("/pairs?source=results&state=all")
        assert "secret" not in page.content() and "rank" not in page.inner_text("main")
        for number in range(3):
            page.get_by_role("group").get_by_role("button", name="2" if number == 0 else "0", exact=True).tap()
            wait_until_saved(page)
        wait_for_text(page, "#place", "3 decided$")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.close()
    assert [one[:2] + one[3:] for one in log_of(stored)] == [
        ("q_dog", "img_park_dog", 2), ("q_cat", "img_park_dog", 0), ("q_dog", "img_street", 0),
    ]  # fmt: skip
    assert said == []
