"""A person at the page, in a real browser: judging by keyboard, a server that is killed, and nothing lost."""

import json
import signal
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, Route, expect

from querytruth.records import stable_hash
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import HumanCaption, QueryDecision
from querytruth.sets.set_files import StoredSet
from tests.images import encode_image
from tests.resealed_sets import reseal
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
from tests.small_sets import publish_tables


def jpeg(number: int, side: int = 512) -> bytes:
    """An image that is told from the others by its colour and its number."""
    image = Image.new("RGB", (side, side), tuple((number * step) % 200 + 40 for step in (37, 71, 113)))
    ImageDraw.Draw(image).text((side // 3, side // 3), str(number), fill="white")
    return encode_image(image, "JPEG", quality=90)


def published(folder: Path, queries: int, each: int, images: int, texts: list[str] | None = None) -> StoredSet:
    """A set of so many queries with so many judged images each."""
    image_ids = [f"img_{stable_hash('image', str(n)):020x}" for n in range(images)]
    query_ids = [f"q_{stable_hash('query', str(n)):020x}" for n in range(queries)]
    paths = [f"images/{name[4:6]}/{name}.jpg" for name in image_ids]
    for n, path in enumerate(paths):
        (folder / "rendered" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "rendered" / path).write_bytes(jpeg(n))
    names = (texts or ["狗 {}", "a dog, no. {}"]) * queries
    frames = {
        "images": pd.DataFrame({"image_id": image_ids, "path": paths, "width": 512, "height": 512})
        .assign(file_name=[f"{texts[0] if texts else 'photo'} {n}.jpg" for n in range(images)]),
        "queries": pd.DataFrame({"query_id": query_ids, "text": [f"{names[n]} {n}" for n in range(queries)]})
        .assign(language=["zh", "en"] * (queries // 2), style="word", level=[1, 1, 2, 3] * (queries // 4)),
        "qrels": pd.DataFrame(
            [(query, image_ids[(7 * n + k) % images], 2 if k < each // 2 else 1)
             for n, query in enumerate(query_ids) for k in range(each)],
            columns=["query_id", "image_id", "relevance"],
        ).assign(judged_by="rule", evidence=texts[0] if texts else "why"),
    }  # fmt: skip
    return publish_tables(folder, "judged", frames, folder / "rendered")


def opened(browser: Browser, url: str, said: list[str] | None = None) -> Page:
    return browser_pages.open_in_browser(browser, url, ".tile", said)


def log_of(stored: StoredSet) -> list[QueryDecision]:
    return read_decisions(stored.path.parent, QueryDecision)


@pytest.mark.thorough
def test_twenty_images_by_keyboard_then_kill_nine_and_nothing_is_lost(browser: Browser, tmp_path: Path) -> None:
    stored, said = published(tmp_path, 8, 20, 30), list[str]()
    with serve_page(stored.path) as (process, url):
        page = opened(browser, url, said)
        first = page.inner_text("h1")
        press_keys(page, "21021021021021021021")
        wait_until_saved(page)
        assert [d.relevance for d in log_of(stored)] == [2, 1, 0] * 6 + [2, 1]
        write(page, "一只湿的狗", "e", "Control+A")
        wait_for_text(page, "h1", "^一只湿的狗$")
        press(page, "j", place="^2 of 8")
        press(page, "x", place="2 decided")
        press(page, "u", place="1 decided")
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.keyboard.press("a")
        page.wait_for_selector("#notice:not([hidden])")
        assert "Not saved" in page.inner_text("#notice")
        page.close()
    before = log_of(stored)
    assert [d.decision for d in before] == ["grade"] * 20 + ["edit", "drop", "undo"]
    with serve_page(stored.path) as (_, url):
        page = opened(browser, url)
        page.keyboard.press("k")
        wait_for_text(page, "h1", "^一只湿的狗$")
        assert first in page.inner_text(".head")
        graded = "[...document.querySelectorAll('.tile [aria-pressed=true]')].map(one => one.textContent).join('')"
        assert page.evaluate(graded) == "21021021021021021021"
        assert page.evaluate("document.querySelectorAll('.tile.own').length") == 20
        page.keyboard.press("u")
        wait_for_text(page, "h1", "^(?!一只湿的狗)")
        page.close()
    assert [d.decision for d in log_of(stored)] == [d.decision for d in before] + ["undo"]
    assert [text for text in said if "net::ERR_" not in text] == []


@pytest.mark.thorough
def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    with serve_page(published(tmp_path, 4, 2, 4).path) as (process, url):
        assert process.stderr is not None and "reading the set" in process.stderr.readline()
        wait_until_up(url)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert "page closed. Next: querytruth apply" in process.stderr.read()


@pytest.mark.thorough
def test_a_mouse_or_a_finger_does_as_well(browser: Browser, tmp_path: Path) -> None:
    stored = published(tmp_path, 4, 6, 12)
    with serve_page(stored.path) as (_, url):
        page = open_on_phone(browser, url, ".tile")
        page.locator(".tile").nth(2).get_by_role("button", name="0", exact=True).tap()
        wait_until_saved(page)
        page.get_by_role("button", name="Next").tap()
        wait_for_text(page, "#place", "^2 of 4")
        page.get_by_role("button", name="All right").tap()
        wait_for_text(page, "#place", "^3 of 4 · 1 decided")
        small = """() => [...document.querySelectorAll('.grading button, .moves button')].filter(one => {
            const box = one.getBoundingClientRect(); return box.width < 40 || box.height < 40 }).length"""
        assert page.evaluate(small) == 0, "every button is large enough for a finger"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.close()
    assert [d.decision for d in log_of(stored)] == ["grade", *["keep"] * 7]


@pytest.mark.thorough
def test_search_help_notes_and_the_large_image_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    stored, said = published(tmp_path, 8, 3, 9), list[str]()
    with serve_page(stored.path) as (_, url):
        page = opened(browser, url, said)
        page.keyboard.press("?")
        assert "drop the query" in page.inner_text("#help")
        press(page, "Escape", "/")
        page.keyboard.type("no. {} 3")
        wait_for_text(page, "#place", "^1 of 1")
        press(page, "Enter", "o")
        expect(page.locator("#large-image")).to_have_js_property("naturalWidth", 512)
        write(page, "blurred, xjk012", "o", "n")
        page.wait_for_selector(".note")
        page.keyboard.press("3")
        page.wait_for_selector("#notice:not([hidden])")
        assert "grades of this set are 0, 1, 2" in page.inner_text("#notice")
        page.close()
    assert [(d.decision, d.note) for d in log_of(stored)] == [("keep", "blurred, xjk012")] and said == []


@pytest.mark.parametrize("hostile", HOSTILE[:2])
@pytest.mark.thorough
def test_nothing_that_a_set_holds_runs(browser: Browser, tmp_path: Path, hostile: str) -> None:
    stored, said, asked = published(tmp_path, 4, 3, 6, [hostile]), list[str](), list[str]()
    with serve_page(stored.path, hostile) as (_, url):
        page = opened(browser, url, said)
        page.on("request", lambda request: asked.append(request.url))
        assert hostile.strip() in page.inner_text("h1")
        write(page, hostile, "0", "n")
        page.wait_for_selector(".note")
        for path in ("pairs", "decisions", "queries"):
            page.goto(f"{url.partition('/?')[0]}/{path}")
            page.wait_for_load_state("networkidle")
            assert "alert(1)" in page.inner_text("body") or "alert" not in hostile
        page.close()
    assert said == []
    assert all(one.startswith(url.partition("/?")[0]) for one in asked)


@pytest.mark.thorough
def test_what_a_file_lacks_is_overlooked_once_it_is_ticked(browser: Browser, tmp_path: Path) -> None:
    stored, said = published(tmp_path, 4, 3, 6), list[str]()
    with serve_page(stored.path) as (_, url):
        page = opened(browser, url, said)
        text = page.request.get(f"{url.partition('/?')[0]}/csv/queries.csv").body().decode("utf-8-sig")
        rows = text.splitlines(keepends=True)
        rows[1] = rows[1].replace(",,,,r_", ",drop,,模糊,r_")
        page.goto(f"{url.partition('/?')[0]}/decisions")
        file = tmp_path / "filled.csv"
        file.write_bytes("".join(rows[:-1]).encode("gb18030"))
        page.set_input_files("#csv", file)
        page.wait_for_selector(".overlook [name=encoding]")
        assert page.locator(".overlook input").count() == 0, "only what helps is offered"
        page.select_option(".overlook [name=encoding]", "gb18030")
        page.wait_for_selector(".overlook [name=allow_missing]")
        assert page.is_hidden("#take") and "is missing" in page.inner_text(".problems")
        page.focus(".overlook [name=allow_missing]")
        page.keyboard.press("Space")
        page.wait_for_selector("#take:not([hidden])")
        assert "1 query drop" in page.inner_text("#csv-message") and log_of(stored) == []
        page.locator(".overlook [name=allow_missing]").uncheck()
        page.wait_for_selector(".problems")
        assert page.is_hidden("#take")
        page.locator(".overlook [name=allow_missing]").check()
        page.click("#take")
        wait_for_text(page, "#csv-message", "^Taken")
        assert page.locator(".overlook").count() == 0
        page.close()
    assert [(one.decision, one.note) for one in log_of(stored)] == [("drop", "模糊")] and said == []


def gallery(folder: Path) -> StoredSet:
    """Five images, and nothing that says what is on them."""
    stored = published(folder, 4, 2, 5)
    for name in ("queries", "qrels"):
        (stored.path / f"{name}.parquet").unlink()
    manifest = json.loads((stored.path / "manifest.json").read_text())
    listed = [file for file in manifest["files"] if file["path"] not in ("queries.parquet", "qrels.parquet")]
    (stored.path / "manifest.json").write_text(json.dumps({**manifest, "kind": "gallery", "files": listed}))
    reseal(stored.path)
    return stored


@pytest.mark.thorough
def test_a_gallery_is_captioned_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    stored, said = gallery(tmp_path), list[str]()
    with serve_page(stored.path) as (_, url):
        page = browser.new_context().new_page()
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(url)
        page.wait_for_selector(".caption")
        page.keyboard.press("e")
        for number in range(3):
            wait_for_text(page, "#place", f"^{number + 1} of 5")
            page.keyboard.type(f"第{number}张，jkx")
            write(page, f"no. {number}", "Tab")
        wait_until_saved(page)
        press(page, "Escape", "u")
        wait_for_text(page, "#saved", "^taken back")
        page.close()
    lines = read_decisions(stored.path.parent, HumanCaption)
    assert [line.text for line in lines] == ["第0张，jkx", "no. 0", "第1张，jkx", "no. 1", "第2张，jkx", "no. 2", ""]
    assert said == []


@pytest.mark.thorough
def test_what_is_typed_before_the_next_image_is_not_of_the_last(browser: Browser, tmp_path: Path) -> None:
    stored, asked = gallery(tmp_path), list[Route]()

    def answer_the_first(route: Route) -> None:
        asked.append(route)
        if len(asked) == 1:
            route.continue_()

    with serve_page(stored.path) as (_, url):
        page = browser.new_context().new_page()
        page.route("**/api/captions/cards*", answer_the_first)
        page.goto(url)
        page.wait_for_selector(".caption")
        write(page, "第一张", "e", place="^1 of 5 · 1 decided")
        page.keyboard.type("太早")
        for route in asked[1:]:
            route.continue_()
        page.unroute("**/api/captions/cards*")
        wait_for_text(page, "#place", "^2 of 5")
        write(page, "第二张", place="^3 of 5 · 2 decided")
        page.close()
    lines = read_decisions(stored.path.parent, HumanCaption)
    assert [line.text for line in lines] == ["第一张", "第二张"]
