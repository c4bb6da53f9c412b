"""The page of a leaderboard: complete, escaped, small, without scripts, and fit for a phone."""

from typing import Any

import pytest

from querytruth.review.board_pages import BOARD_TEXTS, render_leaderboard

HOSTILE = "<script>alert(1)</script>\u202e\"'&" + "长" * 60


def build_board(systems: int = 3, values: int = 30) -> dict[str, Any]:
    """A board whose slice has more values than are shown."""
    rows = [
        {"slice": "topic", "value": f"topic-{n}", "queries": 100 + n, "mean": 0.5, "metric": "ndcg@10"}
        for n in range(values)
    ]
    one = {
        "mean": 0.75, "low": 0.5, "high": 1.0, "at_least": 0.75, "at_most": 0.8,
        "best_rank": 1, "worst_rank": systems, "kind": "system",
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


@pytest.mark.parametrize("language", BOARD_TEXTS)
def test_a_board_shows_ranks_intervals_groups_and_conditions_as_text(language: str) -> None:
    page = render_leaderboard(build_board(), language)
    assert f'<html lang="{language}">' in page and BOARD_TEXTS[language]["rank"].format(rank="1-3") in page
    assert "<script" not in page and page.count("&lt;script&gt;alert(1)") >= 4
    assert all(
        text in page for text in ("0.7500", "0.5000", "1.0000", "few queries", "@1 1,234", "ffffffffffff", "2.5")
    )
    assert "topic-29" in page and "topic-10" in page and "topic-9<" not in page  # the twenty with the most queries


def test_a_long_board_stays_small() -> None:
    assert len(render_leaderboard(build_board(systems=100, values=300)).encode()) < 1_000_000
