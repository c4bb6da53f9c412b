"""The pages of a leaderboard and of a history: complete, escaped, small, without scripts, and fit for a phone."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from querytruth.review.board_pages import BOARD_TEXTS, render_history, render_leaderboard

HOSTILE = "<script>alert(1)</script>\u202e\"'&" + "长" * 60


def build_board(systems: int = 3, values: int = 30) -> dict[str, Any]:
    """A board whose slice has more values than are shown."""
    rows = [
        {"slice": "topic", "value": f"topic-{n}", "queries": 100 + n, "mean": 0.5, "metric": "ndcg@10"}
        for n in range(values)
    ]
    one = {
        "mean": 0.75, "low": 0.5, "high": 1.0, "best_rank": 1, "worst_rank": systems, "kind": "system",
        "latency_ms": {"p50": 1.25, "p95": 2.5, "p99": None}, "queries_missing": 7, "warnings": ["few_queries"],
        "queries_with_a_tie_at_the_cut": {"1": 1234, "10": 0}, "conditions": {"type": "http", "sha256": "f" * 64},
        "slices": rows,
    }  # fmt: skip
    names = [HOSTILE, *(f"system-{n}" for n in range(1, systems))]
    return {
        "set": {"name": "album", "version": 2, "content_digest": "0" * 64},
        "metric": "ndcg@10",
        "queries": 452,
        "systems": [{"name": name, **one} for name in names],
        "groups": [names, ["system-1"]],
    }


def build_entries(evaluations: int) -> list[dict[str, Any]]:
    """One a day; the second half is on another version."""
    half = evaluations // 2
    return [
        {
            "at": f"2026-{1 + n // 28 % 12:02}-{1 + n % 28:02}T02:00:00+00:00", "system": HOSTILE if n % 2 else "mine",
            "version": 1 + (n >= half), "content_digest": ("a" if n < half else "b") * 64, "queries": 452,
            "figures": {"ndcg@10": [0.5, 0.4, 0.6], "hit@1": [0.25, 0.2, 0.3]}, "latency_ms": {"p95": 12.0},
        }
        for n in range(evaluations)
    ]  # fmt: skip


@pytest.mark.parametrize("language", BOARD_TEXTS)
def test_a_board_shows_ranks_intervals_groups_and_conditions_as_text(language: str) -> None:
    page = render_leaderboard(build_board(), language)
    assert f'<html lang="{language}">' in page and BOARD_TEXTS[language]["rank"].format(rank="1-3") in page
    assert "<script" not in page and page.count("&lt;script&gt;alert(1)") >= 4
    assert all(
        text in page for text in ("0.7500", "0.5000", "1.0000", "few queries", "@1 1,234", "ffffffffffff", "2.5")
    )
    assert "topic-29" in page and "topic-10" in page and "topic-9<" not in page  # the twenty with the most queries


@pytest.mark.parametrize("language", BOARD_TEXTS)
def test_a_history_breaks_its_lines_where_the_set_changes(language: str) -> None:
    page = render_history("album", build_entries(8), "hit@1", language)
    assert f'<html lang="{language}">' in page and "<script" not in page and "&lt;script&gt;" in page
    lines = re.findall(r'<path [^>]*d="(M[^"]*L[^"]*)"[^>]*stroke="var\(--accent\)"', page)
    assert len(lines) == 2 * 3 * 2  # systems, measures, versions
    assert page.count('class="mark-rule role-mark layer_0_marks"') == 2 * 3
    assert page.index(">hit@1<") < page.index(">ndcg@10<") and BOARD_TEXTS[language]["latency"] in page


def test_one_evaluation_is_a_history_and_a_long_one_stays_small() -> None:
    assert "var(--accent)" in render_history("album", build_entries(1), "ndcg@10")
    page = render_history("album", build_entries(1000), "ndcg@10")
    assert "the newest 400 of 1,000 evaluations" in page and len(page.encode()) < 1_500_000
    assert len(render_leaderboard(build_board(systems=100, values=300)).encode()) < 1_000_000


@pytest.mark.slow
def test_the_pages_fit_a_phone_and_a_desk(browser: Browser, tmp_path: Path) -> None:
    pages = {"board": render_leaderboard(build_board()), "history": render_history("album", build_entries(8), "hit@1")}
    for name, html in pages.items():
        (tmp_path / f"{name}.html").write_text(html, "utf-8")
        for width in (390, 1280):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto((tmp_path / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") == width, (name, width)
            page.close()
