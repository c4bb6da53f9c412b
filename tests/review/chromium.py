"""What the tests in a real browser share: Chromium itself, the command that serves a page, and waiting."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


@contextmanager
def served(path: Path, reviewer: str = "lin") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`querytruth review PATH` as a person starts it; the process, and the address that it prints."""
    who = [] if path.suffix == ".csv" else ["--reviewer", reviewer]  # a table keeps no names
    words = [sys.executable, "-m", "querytruth", "review", str(path), "--no-open", *who]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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


def opened(browser: Browser, url: str, selector: str, said: list[str] | None = None, **how: Any) -> Page:
    """A page of its own in which something is there; what it says and what fails in it is added to `said`."""
    page = browser.new_context(viewport={"width": 1280, "height": 860}, **how).new_page()
    if said is not None:
        listen(page, said)
    page.goto(url)
    page.wait_for_selector(selector)
    return page


def on_a_phone(browser: Browser) -> Page:
    return browser.new_context(viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True).new_page()


def listen(page: Page, said: list[str]) -> None:
    """Add what the page says, asks and fails at."""
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("pageerror", lambda error: said.append(str(error)))


def until(page: Page, selector: str, pattern: str) -> None:
    """Until the element's text matches. (Playwright's own waiting would have to evaluate text, which the page's policy
    forbids to it, too.)"""
    expect(page.locator(selector)).to_have_text(re.compile(pattern), timeout=10_000)


def saved(page: Page) -> None:
    until(page, "#saved", "^saved$")


def pressed(page: Page, keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
