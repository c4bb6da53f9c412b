"""What the tests in a real browser share: Chromium itself, the command that serves a page, and waiting."""

import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


@contextmanager
def serve_page(
    path: Path, reviewer: str = "lin", options: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`querytruth review PATH` as a person starts it; the process, and the address that it prints."""
    who = [] if path.suffix == ".csv" else ["--reviewer", reviewer]  # a table keeps no names
    command = [sys.executable, "-m", "querytruth", "review", str(path), "--no-open", *who, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        match = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
        assert match, "the address comes first"
        yield process, match[0]
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


def open_in_browser(
    browser: Browser, url: str, selector: str, messages: list[str] | None = None, **options: Any
) -> Page:
    """A page of its own in which something is there; what it says and what fails in it is added to `messages`."""
    page = browser.new_context(viewport={"width": 1280, "height": 860}, **options).new_page()
    if messages is not None:
        collect_messages(page, messages)
    page.goto(url)
    page.wait_for_selector(selector)
    return page


def open_on_phone(browser: Browser, url: str = "", selector: str = "") -> Page:
    """A page on a phone; of the address, in which something is there, if they are given."""
    page = browser.new_context(viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True).new_page()
    if url:
        page.goto(url)
        page.wait_for_selector(selector)
    return page


def collect_messages(page: Page, messages: list[str]) -> None:
    """Add what the page says, asks and fails at."""
    page.on("console", lambda message: messages.append(message.text))
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    page.on("pageerror", lambda error: messages.append(str(error)))


def wait_for_text(page: Page, selector: str, pattern: str) -> None:
    """Until the element's text matches. (Playwright's own waiting would have to evaluate text, which the page's policy
    forbids to it, too.)"""
    expect(page.locator(selector)).to_have_text(re.compile(pattern), timeout=10_000)


def wait_until_saved(page: Page) -> None:
    wait_for_text(page, "#saved", "^saved$")


def press_keys(page: Page, keys: str) -> None:
    press(page, *keys)


def press(page: Page, *keys: str, place: str = "") -> None:
    """Press keys one after another; `place`: what the counter of cards says then."""
    for key in keys:
        page.keyboard.press(key)
    if place:
        wait_for_text(page, "#place", place)


def write(page: Page, text: str, *before: str, place: str = "") -> None:
    """Press the keys that open a field, type the text and press Enter."""
    press(page, *before)
    page.keyboard.type(text)
    press(page, "Enter", place=place)
