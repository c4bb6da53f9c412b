"""Rejects in a real browser: a rescue by keyboard, a server that is killed, a caption written anew, a finger."""

import json
import signal
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, expect

from builders.recall.caption_rules import caption_query_id
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.sets import set_files
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import Override
from tests.resealed_sets import reseal
from tests.review.browser_pages import (
    collect_messages,
    open_on_phone,
    press,
    press_keys,
    serve_page,
    wait_for_text,
    wait_until_saved,
)
from tests.review.page_reader import HOSTILE
from tests.worlds import save_photo as photo


def built(folder: Path, kind: str, **told: object) -> Path:
    path = folder / f"{kind}.yaml"
    path.write_text(json.dumps({"name": kind, "kind": kind, "out": str(folder / "sets"), **told}))
    with active_run(BuildRun()):
        return build_set(load_definition(path, [], kind)).path


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    """One photo of thirty is wanted: more than a sheet of rejects."""
    for n in range(30):
        photo(tmp_path / "pile" / f"街 {n:02}.jpg", n, day=1 + n % 28)
    return built(tmp_path, "gallery", images=str(tmp_path / "pile"), select={"count": 1})


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


@pytest.mark.slow
def test_two_reviewers_hear_each_other_and_a_finger_is_enough(browser: Browser, gallery: Path) -> None:
    with serve_page(gallery) as (_, url), serve_page(gallery, "mei") as (_, mei):
        lin = opened(browser, url)
        phone = open_on_phone(browser)
        at_rejects(phone, mei)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        phone.locator(".reject").nth(1).tap()
        wait_for_text(phone, "#place", "^2 of 29")
        name = phone.inner_text(".one > .quiet")
        phone.locator(".one button").tap()
        phone.locator("#writing-text").fill("晚上")
        phone.locator("#writing-save").tap()
        wait_for_text(phone, "#place", "^3 of 29 · 1 rescued")
        lin.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        wait_for_text(lin, "#place", "^1 of 29 · 1 rescued")
        press_keys(lin, "j")
        expect(lin.locator(".one .note")).to_contain_text("mei wants it: 晚上")
        assert lin.inner_text(".one > .quiet") == name
        press_keys(lin, "u")
        expect(lin.locator("#notice")).to_contain_text("nothing to undo")
        lin.close()
        phone.close()


@pytest.mark.thorough
def test_a_caption_is_written_anew_beside_its_image(browser: Browser, tmp_path: Path) -> None:
    lines = ["file_name,language,caption"]
    for n, text in enumerate(["一只狗在沙滩上奔跑。", "A dog runs on the beach.", "两把伞在山上。"]):
        photo(tmp_path / "pile" / f"{n}.jpg", n, day=n + 1)
        lines.append(f"{n}.jpg,zh,{text}")
    (tmp_path / "captions.csv").write_text("\n".join(lines), "utf-8")
    captions = {"model": "captions_file", "options": {"path": str(tmp_path / "captions.csv")}}
    rules = {"render": {"size": 64}, "ambiguity": {"text_embedder": "char_ngrams"}}
    path = built(tmp_path, "recall", images=str(tmp_path / "pile"), captions=captions, **rules)
    with serve_page(path) as (_, url):
        page = opened(browser, url)
        expect(page.locator(".one h1")).to_have_text("A dog runs on the beach.")
        expect(page.locator(".one img")).to_have_js_property("complete", True)
        assert page.locator(".one img").evaluate("one => one.naturalWidth") > 0
        press_keys(page, "r")
        assert page.locator("#writing-text").input_value() == "A dog runs on the beach."
        written(page, "一只狗在海边。")
        written(page, "答错了语言")
        wait_until_saved(page)
        expect(page.locator(".one .note")).to_contain_text("一只狗在海边。")
        page.close()
    (word,) = log(path)
    images = set_files.read_set(path).tables.images.set_index("file_name")["image_id"]
    assert word.item == caption_query_id(str(images["1.jpg"]), "zh/caption", 0)
    assert (word.caption, word.note, word.name) == ("一只狗在海边。", "答错了语言", "1.jpg · zh/caption")
    second = built(tmp_path, "recall", images=str(tmp_path / "pile"), captions=captions, **rules)
    texts = [set(set_files.read_set(one).tables.queries["text"]) for one in (path, second)]
    assert second.name == "v2" and texts[1] - texts[0] == {"一只狗在海边。"} and texts[0] < texts[1]


@pytest.mark.thorough
def test_a_stage_offers_its_own_reasons(browser: Browser, tmp_path: Path) -> None:
    for n in range(4):
        photo(tmp_path / "pile" / f"{n}.jpg", n, day=n + 1, size=(160, 120) if n < 3 else (400, 20))
    (tmp_path / "pile" / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    path = built(tmp_path, "gallery", images=str(tmp_path / "pile"), select={"count": 1})
    with serve_page(path) as (_, url):
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


@pytest.mark.thorough
def test_nothing_of_a_ledger_runs(browser: Browser, gallery: Path) -> None:
    said: list[str] = []
    nasty = [*HOSTILE, "</script><script>alert(1)</script>", "'\"><svg onload=alert(1)>", "\u202egpj.exe\n" * 50]
    rows = [
        {"item": text, "kind": kind, "stage": stage, "bucket": "rejected", "reason": reason, "detail": text}
        for text in nasty
        for kind, stage, reason in (("image", "filter", "too_dark"), (text[:80], text[:80], text[:80]))
    ]
    pd.DataFrame(rows).to_parquet(gallery / "ledger.parquet")
    reseal(gallery)
    with serve_page(gallery) as (_, url):
        page = opened(browser, url, said)
        for _ in rows:
            press_keys(page, "j")
        wait_for_text(page, "#place", f"^{len(rows)} of {len(rows)}")
        assert page.locator("main script, main svg, main iframe").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        press_keys(page, "r")
        expect(page.locator("#notice")).to_contain_text("no build can accept it")
        page.close()
    assert said == []
