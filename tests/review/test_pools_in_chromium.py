"""A person chooses topics in a real browser by keyboard, over a server that is killed."""

import signal
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

from builders.generated import pool_tables as pool_exports
from tests.review import browser_pages
from tests.review.browser_pages import (
    press,
    press_keys,
    serve_page,
    wait_for_text,
    wait_until_saved,
    write,
)
from tests.review.pool_tables import (
    decision_by_text,
    edit_as_spreadsheet,
    read_decisions,
    topic_table,
    write_export,
)


def opened(browser: Browser, url: str, said: list[str]) -> Page:
    return browser_pages.open_in_browser(browser, url, ".line", said)


def shown(page: Page) -> list[str]:
    return page.locator(".line .says").all_inner_texts()


@pytest.mark.slow
def test_rows_by_keyboard_then_kill_nine_and_nothing_is_lost(browser: Browser, tmp_path: Path) -> None:
    export, said = topic_table("汤包", "春卷"), list[str]()
    table = write_export(tmp_path, "topics", export)
    with serve_page(table) as (process, url):
        page = opened(browser, url, said)
        assert shown(page) == ["食物", "饺子", "烤鸭", "汤包", "春卷"]
        press(page, *"1j0", place="^4 of 7 · 2 decided")
        write(page, "小笼包，jkx01", "e", "Control+A")
        expect(page.locator(".line.marked .says")).to_have_text("小笼包，jkx01")
        press(page, *"j0", place="4 decided")
        press(page, "u", place="^5 of 7 · 3 decided")
        assert page.inner_text("#saved") == "taken back: 1 decision"
        write(page, "in spring", "n", place="4 decided")
        wait_until_saved(page)
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.keyboard.press("0")
        page.wait_for_selector("#notice:not([hidden])")
        assert "Not saved" in page.inner_text("#notice")
        page.close()
    assert decision_by_text(table, export) == {"食物": "keep", "烤鸭": "drop", "汤包": "小笼包，jkx01", "春卷": "keep"}
    assert [text for text in said if "ERR_CONNECTION" not in text] == []
    with serve_page(table) as (_, url):
        page = opened(browser, url, said)
        wait_for_text(page, "#place", "^2 of 7 · 4 decided")
        assert page.inner_text(".line.drop .says") == "烤鸭" and "in spring" in page.inner_text(".pool")
        page.locator(".says", has_text="春卷").click()
        page.keyboard.press("1")
        wait_until_saved(page)
        assert read_decisions(table, export)[-1].note == "in spring", "another decision leaves the note"
        page.keyboard.press("ArrowRight")
        wait_for_text(page, "h1", "^乐器$")
        page.keyboard.press("0")
        wait_until_saved(page)
        page.close()
    chosen = pool_exports.select_topics(export, read_decisions(table, export))
    assert chosen == {"食物": ["饺子", "小笼包，jkx01", "春卷"]}


@pytest.mark.slow
def test_a_quick_hand_loses_nothing_and_sees_what_it_did(browser: Browser, tmp_path: Path) -> None:
    export, said = topic_table(*(f"菜{number}" for number in range(30))), list[str]()
    table = write_export(tmp_path, "topics", export)
    with serve_page(table) as (_, url):
        page = opened(browser, url, said)
        press(page, *("10" * 17), place="^35 of 35 · 34 decided$")
        wait_until_saved(page)
        press(page, *("u" * 10 + "kk"), place="24 decided$")
        page.keyboard.press("k")
        assert page.locator(".line.keep").count() == page.locator(".line.drop").count() == 12
        page.close()
    expected = ["keep", "drop"] * 12
    assert list(decision_by_text(table, export).values()) == expected and said == []


@pytest.mark.slow
def test_a_list_that_comes_late_does_not_hide_a_later_act(browser: Browser, tmp_path: Path) -> None:
    """A word on a topic has the list read again; what is decided meanwhile is newer than that list."""
    export, said, held = topic_table(), list[str](), list[tuple[Route, APIResponse]]()
    table = write_export(tmp_path, "topics", export)
    with serve_page(table) as (_, url):
        page = opened(browser, url, said)
        page.route("**/api/pools/queue*", lambda route: held.append((route, route.fetch())))
        page.keyboard.press("1")
        while not held:
            page.wait_for_timeout(20)
        page.keyboard.press("0")
        page.wait_for_timeout(300)
        held[0][0].fulfill(response=held[0][1])
        page.wait_for_timeout(300)
        wait_for_text(page, "#place", "^3 of 5 · 2 decided$")
        page.close()
    assert decision_by_text(table, export) == {"食物": "keep", "饺子": "drop"} and said == []


@pytest.mark.slow
def test_a_spreadsheet_that_saved_meanwhile_is_shown_and_not_overwritten(browser: Browser, tmp_path: Path) -> None:
    export, said = topic_table(), list[str]()
    table = write_export(tmp_path, "topics", export)
    with serve_page(table) as (_, url):
        page = opened(browser, url, said)
        press_keys(page, "1")
        wait_until_saved(page)
        edit_as_spreadsheet(table, "饺子", "drop")
        press_keys(page, "1")
        page.wait_for_selector("#notice:not([hidden])")
        assert "another program changed the table" in page.inner_text("#notice")
        expect(page.locator(".line.drop .says")).to_have_text("饺子")
        wait_for_text(page, "#place", "2 decided")
        assert decision_by_text(table, export) == {"食物": "keep", "饺子": "drop"}
        page.locator(".line.drop .says").click()
        press_keys(page, "1")
        wait_until_saved(page)
        page.close()
    assert decision_by_text(table, export) == {"食物": "keep", "饺子": "keep"}
    assert [text for text in said if "409" not in text] == []
