"""A person at the page, in a real browser: judging by keyboard, a server that is killed, and nothing lost."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, expect, sync_playwright

from backends.sets import caption_log
from backends.sets.decision_log import read_log
from backends.sets.set_files import StoredSet
from builders.benchmark_set import Tables
from builders.decisions import Decision
from builders.records import from_arrow, stable_hash, to_arrow
from flows.publish import Built, publish_built
from tests.review.server.test_views import HOSTILE
from tests.small_sets import GRADES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


def jpeg(number: int, side: int = 512) -> bytes:
    """A picture that is told from the others by its colour and its number."""
    image = Image.new("RGB", (side, side), tuple((number * step) % 200 + 40 for step in (37, 71, 113)))
    ImageDraw.Draw(image).text((side // 3, side // 3), str(number), fill="white")
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90)
    return out.getvalue()


def published(folder: Path, queries: int, each: int, pictures: int, texts: list[str] | None = None) -> StoredSet:
    """A set of so many queries with so many judged pictures each."""
    from backends.sets import set_files
    from builders.ledger import Ledger
    from flows.definitions import SetDefinition

    image_ids = [f"img_{stable_hash('image', str(n)):020x}" for n in range(pictures)]
    query_ids = [f"q_{stable_hash('query', str(n)):020x}" for n in range(queries)]
    paths = [f"images/{name[4:6]}/{name}.jpg" for name in image_ids]
    for n, path in enumerate(paths):
        (folder / "rendered" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "rendered" / path).write_bytes(jpeg(n))
    names = (texts or ["狗 {}", "a dog, no. {}"]) * queries
    frames = {
        "images": pd.DataFrame({"image_id": image_ids, "path": paths, "width": 512, "height": 512})
        .assign(file_name=[f"{texts[0] if texts else 'photo'} {n}.jpg" for n in range(pictures)]),
        "queries": pd.DataFrame({"query_id": query_ids, "text": [f"{names[n]} {n}" for n in range(queries)]})
        .assign(language=["zh", "en"] * (queries // 2), style="word", level=[1, 1, 2, 3] * (queries // 4)),
        "qrels": pd.DataFrame(
            [(query, image_ids[(7 * n + k) % pictures], 2 if k < each // 2 else 1)
             for n, query in enumerate(query_ids) for k in range(each)],
            columns=["query_id", "image_id", "relevance"],
        ).assign(judged_by="rule", evidence=texts[0] if texts else "why"),
    }  # fmt: skip
    empty = Tables(pd.DataFrame(), pd.DataFrame(), pd.DataFrame())
    tables = replace(empty, **{name: from_arrow(to_arrow(name, frame)) for name, frame in frames.items()})
    definition = SetDefinition(kind="precision", name="judged", title="Judged", licence="CC0-1.0", out=folder / "sets")
    built = Built(tables, Ledger(), GRADES, inputs=[], rendered=folder / "rendered")
    return set_files.read(publish_built(definition, built).path)


@contextmanager
def served(stored: StoredSet, reviewer: str = "lin") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as a person starts it; the process, and the address that it prints."""
    words = ["review", str(stored.path), "--no-open", "--reviewer", reviewer]
    process = subprocess.Popen(
        [sys.executable, "-m", "querytruth", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
        assert found, "the address comes first"
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


def wait_until_up(url: str) -> None:
    """Until the server answers, if only to say no."""
    while True:
        try:
            urllib.request.urlopen(url.partition("?")[0], timeout=30)
        except urllib.error.HTTPError:
            return


def opened(browser: Browser, url: str, said: list[str] | None = None, **how: Any) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 860}, **how).new_page()
    if said is not None:
        page.on("console", lambda message: said.append(message.text))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(url)
    page.wait_for_selector(".tile")
    return page


def until(page: Page, selector: str, pattern: str) -> None:
    """Until the element's text matches. (Playwright's own waiting would have to evaluate text, which the page's policy
    forbids to it, too.)"""
    expect(page.locator(selector)).to_have_text(re.compile(pattern), timeout=10_000)


def saved(page: Page) -> None:
    until(page, "#saved", "^saved$")


def pressed(page: Page, keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def log_of(stored: StoredSet) -> list[Decision]:
    return read_log(stored.path.parent)


def test_twenty_pictures_by_keyboard_then_kill_nine_and_nothing_is_lost(browser: Browser, tmp_path: Path) -> None:
    stored, said = published(tmp_path, 8, 20, 30), list[str]()
    with served(stored) as (process, url):
        page = opened(browser, url, said)
        first = page.inner_text("h1")
        pressed(page, "21021021021021021021")
        saved(page)
        assert [d.relevance for d in log_of(stored)] == [2, 1, 0] * 6 + [2, 1]
        page.keyboard.press("e")
        page.keyboard.press("Control+A")
        page.keyboard.type("一只湿的狗")
        page.keyboard.press("Enter")
        until(page, "h1", "^一只湿的狗$")
        page.keyboard.press("j")
        until(page, "#place", "^2 of 8")
        page.keyboard.press("x")
        until(page, "#place", "2 decided")
        page.keyboard.press("u")
        until(page, "#place", "1 decided")
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.keyboard.press("a")
        page.wait_for_selector("#notice:not([hidden])")
        assert "Not saved" in page.inner_text("#notice")
        page.close()
    before = log_of(stored)
    assert [d.decision for d in before] == ["grade"] * 20 + ["edit", "drop", "undo"]
    with served(stored) as (_, url):
        page = opened(browser, url)
        page.keyboard.press("k")
        until(page, "h1", "^一只湿的狗$")
        assert first in page.inner_text(".head")
        graded = "[...document.querySelectorAll('.tile [aria-pressed=true]')].map(one => one.textContent).join('')"
        assert page.evaluate(graded) == "21021021021021021021"
        assert page.evaluate("document.querySelectorAll('.tile.own').length") == 20
        page.keyboard.press("u")
        until(page, "h1", "^(?!一只湿的狗)")
        page.close()
    assert [d.decision for d in log_of(stored)] == [d.decision for d in before] + ["undo"]
    assert [text for text in said if "ERR_CONNECTION" not in text] == []


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    with served(published(tmp_path, 4, 2, 4)) as (process, url):
        assert process.stderr is not None and "reading the set" in process.stderr.readline()
        wait_until_up(url)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert "page closed. Next: querytruth apply" in process.stderr.read()


def test_a_mouse_or_a_finger_does_as_well(browser: Browser, tmp_path: Path) -> None:
    stored = published(tmp_path, 4, 6, 12)
    with served(stored) as (_, url):
        page = browser.new_context(viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True).new_page()
        page.goto(url)
        page.wait_for_selector(".tile")
        page.locator(".tile").nth(2).get_by_role("button", name="0", exact=True).tap()
        saved(page)
        page.get_by_role("button", name="Next").tap()
        until(page, "#place", "^2 of 4")
        page.get_by_role("button", name="All right").tap()
        until(page, "#place", "^3 of 4 · 1 decided")
        small = """() => [...document.querySelectorAll('.grading button, .moves button')].filter(one => {
            const box = one.getBoundingClientRect(); return box.width < 40 || box.height < 40 }).length"""
        assert page.evaluate(small) == 0, "every button is large enough for a finger"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.close()
    assert [d.decision for d in log_of(stored)] == ["grade", *["keep"] * 7]


def test_search_help_notes_and_the_large_picture_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    stored, said = published(tmp_path, 8, 3, 9), list[str]()
    with served(stored) as (_, url):
        page = opened(browser, url, said)
        page.keyboard.press("?")
        assert "drop the query" in page.inner_text("#help")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("no. {} 3")
        until(page, "#place", "^1 of 1")
        page.keyboard.press("Enter")
        page.keyboard.press("o")
        expect(page.locator("#large-picture")).to_have_js_property("naturalWidth", 512)
        page.keyboard.press("o")
        page.keyboard.press("n")
        page.keyboard.type("blurred, xjk012")
        page.keyboard.press("Enter")
        page.wait_for_selector(".note")
        page.keyboard.press("3")
        page.wait_for_selector("#notice:not([hidden])")
        assert "grades of this set are 0, 1, 2" in page.inner_text("#notice")
        page.close()
    assert [(d.decision, d.note) for d in log_of(stored)] == [("keep", "blurred, xjk012")] and said == []


@pytest.mark.parametrize("hostile", HOSTILE[:6])
def test_nothing_that_a_set_holds_runs(browser: Browser, tmp_path: Path, hostile: str) -> None:
    stored, said, asked = published(tmp_path, 4, 3, 6, [hostile]), list[str](), list[str]()
    with served(stored, hostile) as (_, url):
        page = opened(browser, url, said)
        page.on("request", lambda request: asked.append(request.url))
        assert hostile.strip() in page.inner_text("h1")
        pressed(page, "0")
        page.keyboard.press("n")
        page.keyboard.type(hostile)
        page.keyboard.press("Enter")
        page.wait_for_selector(".note")
        for path in ("pairs", "decisions", "queries"):
            page.goto(f"{url.partition('/?')[0]}/{path}")
            page.wait_for_load_state("networkidle")
            assert "alert(1)" in page.inner_text("body") or "alert" not in hostile
        page.close()
    assert said == []
    assert all(one.startswith(url.partition("/?")[0]) for one in asked)


def test_a_pair_at_a_time_and_disputes(browser: Browser, tmp_path: Path) -> None:
    stored = published(tmp_path, 4, 4, 8)
    with served(stored, "mei") as (_, url):
        page = opened(browser, url)
        pressed(page, "000")
        saved(page)
        page.close()
    with served(stored) as (_, url):
        page = opened(browser, url)
        pressed(page, "022")
        saved(page)
        page.goto(f"{url.partition('/?')[0]}/pairs?source=disagreements")
        page.wait_for_selector(".side")
        assert "mei: 0" in page.inner_text(".side") and "lin: 2" in page.inner_text(".side")
        pressed(page, "11")
        saved(page)
        page.reload()
        page.wait_for_selector(".empty, .side")
        page.close()
    settled = [(d.view, d.relevance) for d in log_of(stored)][-2:]
    assert settled == [("disagreements", 1)] * 2


def test_a_csv_goes_out_and_comes_back_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    stored = published(tmp_path, 4, 3, 6)
    with served(stored) as (_, url):
        page = opened(browser, url)
        page.goto(f"{url.partition('/?')[0]}/decisions")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download queries").click()
        file = tmp_path / "filled.csv"
        download.value.save_as(file)
        text = file.read_text("utf-8-sig").splitlines(keepends=True)
        text[2] = text[2].replace(",,,,r_", ",drop,,<b>dull</b>,r_")
        file.write_text("".join(text), "utf-8-sig", newline="")
        page.set_input_files("#csv", file)
        page.wait_for_selector("#take:not([hidden])")
        assert "1 query drop" in page.inner_text("#csv-says") and "<b>dull</b>" in page.inner_text("#csv-says")
        assert log_of(stored) == []
        page.click("#take")
        until(page, "#csv-says", "^Taken")
        file.write_text(
            "".join([*text[:3], text[3].replace(",,,,r_", ",burn,,,r_"), *text[4:]]), "utf-8-sig", newline=""
        )
        page.set_input_files("#csv", file)
        page.wait_for_selector(".problems")
        assert "row 4, decision: 'burn'" in page.inner_text(".problems")
        page.close()
    assert len(log_of(stored)) == 1


@pytest.mark.slow
def test_fifteen_hundred_queries_are_there_at_once(browser: Browser, tmp_path: Path) -> None:
    """1,500 queries with 12 pictures each, nothing made small yet: first grid within 1.5 s, next query within 0.1 s."""
    stored = published(tmp_path, 1500, 12, 2400)
    with served(stored) as (_, url):
        wait_until_up(url)
        page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        started = time.monotonic()
        page.goto(url)
        page.wait_for_selector(".tile")
        while not page.evaluate(_GRID_IS_THERE):
            time.sleep(0.01)
        first = time.monotonic() - started
        print(f"first grid {first:.2f} s")
        times = page.evaluate(_NEXT, 30)
        print(f"next query: median {sorted(times)[15]:.0f} ms, slowest {max(times):.0f} ms")
        assert first < 1.5 and sorted(times)[15] < 100
        page.close()


_GRID_IS_THERE = """() => { const all = [...document.querySelectorAll('.tile img')];
    return all.length >= 12 && all.every(one => one.complete && one.naturalWidth > 0); }"""
_NEXT = """async count => {
    const times = [], frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    for (let n = 0; n < count; n += 1) {
        await new Promise(done => setTimeout(done, 400));  // a person looks
        const before = document.getElementById('place').textContent, start = performance.now();
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true }));
        while (document.getElementById('place').textContent === before) await frame();
        await frame();
        times.push(performance.now() - start);
    }
    return times; }"""


def test_a_gallery_is_captioned_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    stored, said = published(tmp_path, 4, 2, 5), list[str]()
    for name in ("queries", "qrels"):
        (stored.path / f"{name}.parquet").unlink()
    manifest = json.loads((stored.path / "manifest.json").read_text())
    listed = [file for file in manifest["files"] if file["path"] not in ("queries.parquet", "qrels.parquet")]
    (stored.path / "manifest.json").write_text(json.dumps({**manifest, "kind": "gallery", "files": listed}))
    with served(stored) as (_, url):
        page = browser.new_context().new_page()
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(url)
        page.wait_for_selector(".caption")
        page.keyboard.press("e")
        for number in range(3):
            until(page, "#place", f"^{number + 1} of 5")
            page.keyboard.type(f"第{number}张，jkx")
            page.keyboard.press("Tab")
            page.keyboard.type(f"no. {number}")
            page.keyboard.press("Enter")
        saved(page)
        page.keyboard.press("Escape")
        page.keyboard.press("u")
        until(page, "#saved", "^taken back")
        page.close()
    lines = caption_log.read_on(stored.path.parent)[0]
    assert [line.text for line in lines] == ["第0张，jkx", "no. 0", "第1张，jkx", "no. 1", "第2张，jkx", "no. 2", ""]
    assert said == []
