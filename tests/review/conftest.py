"""A real browser for the tests that want one."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.review.browser_pages import CHROMIUM, FLAGS


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of a module, not of the session: while it is open, no other test can run an event loop of its own."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: chromium)")
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()
