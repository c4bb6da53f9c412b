"""The page of an audit in a real browser: it fits a phone and a desk, whatever a name or a text holds."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from querytruth.audit.page import PAGE_LANGUAGES, render_audit_page
from tests.review.browser_pages import collect_messages
from tests.small_sets import COLOURS, image_id_of, make_whole_manifest, small_tables

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202e\"'&" + "长" * 80


def build_report() -> dict[str, Any]:
    """A report with a hostile name in every place that takes a text."""
    ends = {"value": 0.5, "low": 0.2, "high": 0.9}
    pair = {
        "query_id": "q", "image_id": image_id_of(next(iter(COLOURS))), "text": HOSTILE, "language": "en",
        "grade": 1, "grade_of_set": None, "grade_of_judge": 0, "reason_of_judge": HOSTILE, "note": HOSTILE,
        "reviewers": [HOSTILE],
    }  # fmt: skip
    rates = dict.fromkeys(("kappa", "kappa_relevant", "relevant_by_people", "relevant_by_judge"), 0.5)
    agreement = {**rates, "sensitivity": ends, "specificity": ends, "confusion": {"0": {"0": 4, "1": 1}, "1": {"1": 5}}}
    measures = ("missing_share", "multiplier", "missing", "wrong_share")
    return {
        "name": "audit",
        "audit_id": "a_1",
        "unit": "pairs",
        "set": {"name": HOSTILE, "version": 1, "content_digest": "0" * 64},
        "answers": {"sampled": 9, "answered": 8, "cannot_tell": 1, "disputed": [["q", "i"]], "judged_twice": 3,
                    "same": 2, "kappa": None},
        "truth": [{"measure": name, **ends, "if_undetermined": [0.1, 0.6]} for name in measures],
        "figures": [{"system": system, "metric": "p@10", "before": 0.1, **ends} for system in (HOSTILE, "b")],
        "slices": [{"aspect": "style", "value": HOSTILE, "measure": "missing_share", "answered": 4, "estimate": 0.5,
                    "low": 0.2, "high": 0.9}],
        "found": {"missing": {"number": 1, "pairs": [pair]}, "wrong": {"number": 0, "pairs": []}},
        "judge": {"name": HOSTILE, "revision": "", "digest": "judge_1", "agreement": agreement},
        "outside": {"pairs": 100, "drawn": 5, "answered": 5, "relevant": 0, "at_most": 45.0},
        "strata": [{"stratum": "first_ranks.yes", "pairs": 10, "drawn": 4}],
    }  # fmt: skip


@pytest.mark.thorough
def test_whatever_a_text_holds_is_shown_as_text() -> None:
    for language in PAGE_LANGUAGES:
        page = render_audit_page(build_report(), small_tables().images, make_whole_manifest(), {}, language)
        assert "<script" not in page and "<img" not in page
        assert page.count("&lt;script&gt;alert(1)") >= 9


@pytest.mark.slow
def test_the_page_fits_a_phone_and_a_desk(browser: Browser, tmp_path: Path) -> None:
    messages: list[str] = []
    for language in PAGE_LANGUAGES:
        html = render_audit_page(build_report(), small_tables().images, make_whole_manifest(), {}, language)
        (tmp_path / "page.html").write_text(html, "utf-8")
        for width in (390, 1280):
            page = browser.new_page(viewport={"width": width, "height": 900})
            collect_messages(page, messages)
            page.on("request", lambda request: messages.append(request.url) if "page.html" not in request.url else None)
            page.goto((tmp_path / "page.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            dots = page.locator(".metrics .mark-symbol path").evaluate_all(
                "all => all.map(one => one.getBoundingClientRect().width)"
            )
            assert len(dots) == 4 and all(size > 5 for size in dots)
    assert messages == []
