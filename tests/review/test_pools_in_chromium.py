"""A person chooses topics in a real browser: by keyboard, by finger, over a server that is killed; then the next stage
reads the table."""

import signal
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

from builders.generated import pool_tables as pool_exports
from builders.generated.definition import GeneratedDefinition
from builders.generated.stages import run_objects_stage, run_topics_stage
from querytruth.sets.review_tables import ReviewExport
from tests.flows.stub_generator import StubGenerator, answering
from tests.flows.stub_generator import define_stages as definition
from tests.loopback import loopback
from tests.review import browser_pages
from tests.review.browser_pages import (
    open_on_phone,
    press,
    press_keys,
    serve_page,
    wait_for_text,
    wait_until_saved,
    wait_until_up,
    write,
)
from tests.review.page_reader import HOSTILE
from tests.review.pool_tables import (
    decision_by_text,
    edit_as_spreadsheet,
    object_table,
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
def test_the_next_stage_reads_what_was_chosen_on_the_page(browser: Browser, tmp_path: Path) -> None:
    with loopback(answering(StubGenerator())) as server:
        wanted: GeneratedDefinition = definition(tmp_path, server.url)
        topics = run_topics_stage(wanted, "tiny.yaml")
        said = list[str]()
        with serve_page(topics.file) as (_, url):
            page = opened(browser, url, said)
            first = page.inner_text("h1")
            kept = shown(page)[1:]
            page.keyboard.press("ArrowRight")
            dropped = page.inner_text("h1")
            press_keys(page, "0")
            wait_for_text(page, ".line:last-child .chips", "goes with its topic")
            press(page, "ArrowLeft", "j", "0")
            wait_until_saved(page)
            page.close()
        objects = run_objects_stage(wanted, "tiny.yaml")
    table = objects.file.read_text("utf-8-sig")
    assert f",{first}," in table and f",{dropped}," not in table
    assert f",{kept[0]},{first}" not in table and f",{kept[1]},{first}" in table and said == []


@pytest.mark.slow
def test_keep_the_rest_search_filters_and_undo_of_many(browser: Browser, tmp_path: Path) -> None:
    export, said = object_table(), list[str]()
    table = write_export(tmp_path, "objects", export)
    with serve_page(table) as (_, url):
        page = opened(browser, url, said)
        press(page, "0", place="1 decided")
        press(page, "a", place="4 of 4|4 decided")
        wait_until_saved(page)
        assert sorted(decision_by_text(table, export).values()) == ["drop", "keep", "keep", "keep"]
        page.keyboard.press("u")
        wait_for_text(page, "#saved", "^taken back: 3 decisions$")
        wait_for_text(page, "#place", "1 decided")
        page.select_option("[name=flag]", "alike")
        wait_for_text(page, "#place", "^1 of 1")
        assert "alike: 烤鸭 (0.83)" in page.inner_text(".line")
        page.select_option("[name=flag]", "")
        wait_for_text(page, "#place", "of 4")
        page.keyboard.press("/")
        page.keyboard.type("拉面")
        wait_for_text(page, "#place", "^1 of 1")
        press(page, "Escape", "?")
        assert "keep what is undecided of this topic" in page.inner_text("#help")
        page.close()
    assert decision_by_text(table, export) == {"烤鸭": "drop"} and said == []


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


@pytest.mark.slow
def test_a_finger_does_as_well(browser: Browser, tmp_path: Path) -> None:
    export = topic_table("汤包")
    table = write_export(tmp_path, "topics", export)
    with serve_page(table) as (_, url):
        page = open_on_phone(browser, url, ".line")
        page.locator(".line").nth(2).get_by_role("button", name="Drop").tap()
        wait_for_text(page, "#place", "^4 of 6 · 1 decided")
        page.get_by_role("button", name="Keep the rest").tap()
        wait_for_text(page, "#place", "4 decided")
        small = """() => [...document.querySelectorAll('.choose button, .moves button')].filter(one => {
            const box = one.getBoundingClientRect(); return box.width < 40 || box.height < 40 }).length"""
        assert page.evaluate(small) == 0, "every button is large enough for a finger"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.close()
    assert decision_by_text(table, export) == {"食物": "keep", "饺子": "keep", "烤鸭": "drop", "汤包": "keep"}


@pytest.mark.parametrize(
    "hostile", [*HOSTILE[:2], *(pytest.param(one, marks=pytest.mark.slow) for one in HOSTILE[2:6])]
)
@pytest.mark.slow
def test_nothing_that_a_table_holds_runs(browser: Browser, tmp_path: Path, hostile: str) -> None:
    export: ReviewExport = topic_table(hostile)
    table, said, asked = write_export(tmp_path, "topics", export), list[str](), list[str]()
    with serve_page(table) as (_, url):
        page = opened(browser, url, said)
        page.on("request", lambda request: asked.append(request.url))
        assert hostile.strip() in page.inner_text(".pool")
        write(page, hostile, "n")
        page.wait_for_selector(".note")
        wait_until_saved(page)
        page.close()
    assert read_decisions(table, export)[0].note == hostile.strip()
    assert said == [] and all(one.startswith(url.partition("/?")[0]) for one in asked)


@pytest.mark.slow
def test_ctrl_c_ends_it_and_says_what_goes_on(tmp_path: Path) -> None:
    with serve_page(write_export(tmp_path, "topics", topic_table())) as (process, url):
        wait_until_up(url)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0 and process.stderr is not None
        assert "page closed. Next: querytruth objects DEFINITION" in process.stderr.read()
