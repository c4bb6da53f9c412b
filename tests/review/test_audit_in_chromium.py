"""The view Audit in a real browser: judged by keys, on a desk and on a phone."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from querytruth.audit.answers import load_audit, read_answers
from querytruth.audit.definition import AuditKeys
from querytruth.audit.pool import pool_set
from querytruth.audit.steps import start_audit
from querytruth.sets.set_files import StoredSet
from tests.review import test_audit_views
from tests.review.browser_pages import open_in_browser, open_on_phone, press_keys, serve_page, wait_until_saved

stored = test_audit_views.stored


@pytest.mark.slow
def test_a_person_judges_by_keys_and_undoes(browser: Browser, stored: StoredSet, tmp_path: Path) -> None:
    messages: list[str] = []
    with serve_page(stored.path) as (_, url):
        page = open_in_browser(browser, url, "nav", messages)
        page.get_by_role("link", name="Audit").click()
        page.wait_for_selector(".pair img")
        assert page.locator("img").first.get_attribute("alt") == "the image"
        press_keys(page, "2c0xu")
        wait_until_saved_or_undone(page)
        expect(page.locator("#place")).to_have_text("4 of 16 · 3 answered")
        press_keys(page, "o")
        expect(page.locator("#large")).to_be_visible()
        page.close()
        phone = open_on_phone(browser)
        phone.goto(url)
        phone.get_by_role("link", name="Audit").tap()
        phone.wait_for_selector(".pair img")
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        phone.get_by_role("button", name="Cannot tell").tap()
        wait_until_saved(phone)
        phone.close()
    answers = read_answers(stored.path, load_audit(stored.path, "audit")[0])
    assert sorted(answers.grades.values()) == [0, 2] and len(answers.undetermined) == 2 and messages == []


def wait_until_saved_or_undone(page: object) -> None:
    expect(page.locator("#saved")).to_have_text("taken back: 1 decision")  # type: ignore[attr-defined]


@pytest.mark.slow
def test_cards_of_an_audit_go_on_while_it_is_judged(browser: Browser, stored: StoredSet, tmp_path: Path) -> None:
    run, keys = tmp_path / "searcher.trec", AuditKeys(name="goal", depth=4, until="recall=0.9")
    start_audit(stored.path, pool_set(stored.path, [run], 4), keys, None)
    with serve_page(stored.path) as (_, url):
        page = open_in_browser(browser, url, "nav", [])
        page.get_by_role("link", name="Audit").click()
        page.locator("select[name=audit]").select_option("goal")
        expect(page.locator("#place")).to_have_text("1 of 5 · 0 answered")
        expect(page.locator("#stated")).to_contain_text("95% confidence")
        for answered in range(1, 10):  # five cards are held at a time
            expect(page.locator("#place")).to_have_text(re.compile(rf"^{answered} of \d+ · {answered - 1} answered"))
            press_keys(page, "x")
        expect(page.locator("#stated")).to_contain_text("(9 judged)")
        page.screenshot(path=tmp_path / "goal.png")
        page.close()
