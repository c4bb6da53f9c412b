"""The health page in a real browser: it fits a phone, draws its curves, and does what no word in it says."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from builders.generated.generator_health import render_health_page
from tests.review.browser_pages import collect_messages
from tests.review.test_health_page import summary, waves

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202e\"'&" + "长" * 80


@pytest.mark.thorough
def test_it_fits_a_phone_and_a_desk_with_whatever_a_model_wrote(browser: Browser, tmp_path: Path) -> None:
    run = summary(waves(40, head="教堂"))
    run["new_by_round"] = {HOSTILE: [5, 0, 3], "animals": [1] * 40}
    run["models"][0]["name"] = HOSTILE
    (tmp_path / "page.html").write_text(
        render_health_page("everyday", run, [run, {**run, "is_current": False}]), "utf-8"
    )
    told: list[str] = []
    for width in (390, 1280):
        page = browser.new_page(viewport={"width": width, "height": 900})
        collect_messages(page, told)
        page.on("request", lambda request: told.append(request.url) if "page.html" not in request.url else None)
        page.goto((tmp_path / "page.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = page.locator(".courses .mark-line path").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect())"
        )
        assert len(boxes) == 4 and all(box["width"] > 100 for box in boxes)
        assert boxes[2]["height"] < 130
    assert told == []
