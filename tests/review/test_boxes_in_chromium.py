"""The boxes of a precision set over its images, in a real browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from tests.review.browser_pages import open_in_browser, press, serve_page


@pytest.mark.slow
def test_boxes_lie_over_their_image_until_b_hides_them(browser: Browser, make_world: Callable[..., Path]) -> None:
    path = build_set(load_definition(make_world(images=True), [], "precision")).path
    messages: list[str] = []
    with serve_page(path) as (_, url):
        page = open_in_browser(browser, url, ".tile", messages)
        page.goto(url.partition("?")[0] + "queries?search=a%20picture%20of%20a%20dog&level=1")
        page.wait_for_selector(".tile .boxes rect")
        frame, box = (page.locator(f".tile:first-child {name}").bounding_box() for name in (".frame", ".boxes rect"))
        assert frame is not None and box is not None
        # 100 x 80 pixels in a frame of 4 : 3: the image is as high as the frame less bars; the dog is 60 x 40 at (5, 5)
        scale = min(frame["width"] / 100, frame["height"] / 80)
        left = frame["x"] + (frame["width"] - 100 * scale) / 2
        top = frame["y"] + (frame["height"] - 80 * scale) / 2
        assert box["width"] == pytest.approx(60 * scale, abs=4)
        assert box["height"] == pytest.approx(40 * scale, abs=4)
        assert box["x"] == pytest.approx(left + 5 * scale, abs=4)
        assert box["y"] == pytest.approx(top + 5 * scale, abs=4)
        assert page.locator(".tile:first-child .boxes rect").count() == 1, "not the person's, nor the car's"
        page.keyboard.press("b")
        expect(page.locator(".tile:first-child .boxes")).to_be_hidden()
        page.reload()
        page.wait_for_selector(".tile .boxes", state="attached")
        expect(page.locator(".tile:first-child .boxes")).to_be_hidden()
        press(page, "b", "o")
        expect(page.locator("#large .boxes rect")).to_be_visible()
        page.close()
    assert [text for text in messages if "favicon" not in text] == []
