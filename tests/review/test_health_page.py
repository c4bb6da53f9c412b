"""The health page: the course of a run as plots, warnings with their cause, and other runs beside it."""

import re
from typing import Any

import pytest

from builders.generated.generation_journal import ReplyRecord, ReplyRow, Wave
from builders.generated.generator_health import HealthMonitor, count_new_by_round, render_health_page
from querytruth.review import plots as plot_geometry
from querytruth.review.page_parts import pages_in
from querytruth.sets.ledger import Ledger
from tests.review.page_reader import ParsedPage

FOOD = ("饺子", "汉堡", "烤鸭", "拉面", "米线", "春卷", "寿司", "披萨")


def waves(count: int, *, head: str = "", longer: bool = False) -> list[Wave]:
    """One topic's rounds, five rows each; its objects name `head`, or grow longer from round to round."""
    made = []
    for number in range(1, count + 1):
        texts = [chr(0x4E00 + 40 * number + n) * (2 + (number // 3 if longer else 0)) + head for n in range(4)]
        rows = (*(ReplyRow("食物", text) for text in texts), ReplyRow("食物", "饺子", "known"))
        made.append([ReplyRecord(number, "食物", "key", "stop", 20, rows)])
    return made


def summary(of: list[Wave], **changed: Any) -> dict[str, Any]:
    watch, course = HealthMonitor({"食物": FOOD}, "zh"), []
    for wave in of:
        watch.add(wave)
        course.append(watch.compute_health().plot_point)
    rows = [row for wave in of for heard in wave for row in heard.rows]
    ledger = Ledger()
    ledger.record_stage("objects_replies", "reply", len(of), len(of))
    told = {
        "stage": "objects",
        "strategy": "self_instruct",
        "language": "zh",
        "journal": "objects-0123456789abcdef.jsonl",
        "is_current": True,
        "models": [{"role": "objects", "name": "stub", "revision": "", "parameters": {}}],
        "rows": {"accepted": sum(not row.reason for row in rows), "known": sum(bool(row.reason) for row in rows)},
        "stops": {"barren": 2, "round_limit": 3},
        "tokens": 20 * len(of),
        "funnel": ledger.funnel(),
        "health": {
            **watch.compute_health().as_dict(),
            "warnings": [vars_of(w) for w in watch.compute_health().warnings],
        },
        "course": course,
        "new_by_round": count_new_by_round(of),
    }
    return {**told, **changed}


def vars_of(warning: Any) -> dict[str, str]:
    return {"code": warning.code, "text": warning.text}


def seen(run: dict[str, Any], runs: list[dict[str, Any]] | None = None) -> ParsedPage:
    return ParsedPage(render_health_page("everyday", run, runs or [run]))


def lines(page: ParsedPage) -> list[list[float]]:
    """The heights of the four curves, from the bottom up, in pixels."""
    drawn = [
        attributes["d"] for tag, attributes in page.tags if tag == "path" and attributes.get("stroke-width") == "2"
    ]
    drawn = [path for path in drawn if "L" in path and "Z" not in path]
    return [[110 - float(point.split(",")[1]) for point in re.split("[ML]", line)[1:]] for line in drawn]


def test_a_healthy_run_has_its_four_curves_its_topics_and_no_warning() -> None:
    page = seen(summary(waves(12)))
    assert "No warning" in page.text and "Runs side by side" not in page.text
    new, _, _, found = lines(page)
    assert new == pytest.approx([88] * 12) and found[-1] > 90 and found == sorted(found)
    assert "New rows 80%" in page.text and "Most frequent 20%" in page.text and "Objects found 48" in page.text
    assert "食物 48 new of 12 questions" in page.text
    assert "12knownalready in a pool" in page.text
    assert "barren (2 topics), round limit (3 topics)" in page.text


def test_a_collapse_is_told_with_its_cause_and_to_be_seen_in_its_curve() -> None:
    page = seen(summary(waves(12, head="教堂")))
    assert "collapse. 80% of the last 60 rows name 教堂: the model repeats itself" in page.text
    assert lines(page)[2][-1] > 110 * 0.25 / 0.8, "over the line at 25%"
    assert "objects.from_model" in page.text and "No warning" not in page.text


def test_a_drift_is_told_and_its_curve_leaves_people_s_level() -> None:
    page = seen(summary(waves(24, longer=True)))
    assert "drift." in page.text and "longer than the first rows and than people's rows" in page.text
    lengths = lines(page)[1]
    assert lengths[-1] > 2 * lengths[0]
    assert "people's 2" in page.text


def test_other_runs_stand_beside_it_with_the_same_figures() -> None:
    current = summary(waves(12))
    other = summary(
        waves(12, head="教堂"), strategy="visual_elements", journal="objects-fedcba98.jsonl", is_current=False
    )
    page = seen(current, [current, other])
    assert "self instruct012345stub124880%" in page.text
    assert "visual elementsfedcbastub124880%" in page.text and "教堂 80%5collapse" in page.text
    marked = [attributes for tag, attributes in page.tags if tag == "tr" and attributes.get("class") == "now"]
    assert len(marked) == 1


def test_a_stage_that_asked_nothing_says_so() -> None:
    run = summary([], strategy="by_topic", stage="topics", stops={"topics_of_people": 1})
    text = seen(run).text
    assert "No question was asked." in text and "No warning" not in text
    assert "People named the topics" in text


def test_hostile_words_stay_words_and_nothing_is_loaded_or_run() -> None:
    run = summary(waves(3))
    run["new_by_round"] = {"<script>alert(1)</script>": [1, 0, 2], "\u202e}{{7*7}}": [1]}
    page = seen(run)
    assert "<script>alert(1)</script>" in page.text and "{{7*7}}" in page.text
    assert not [tag for tag, _ in page.tags if tag in ("script", "img", "iframe", "link")]


def test_a_thousand_rounds_are_a_strip_of_sixty_bars_that_add_up() -> None:
    run = summary(waves(2))
    run["new_by_round"] = {"食物": [1] * 1000}
    page = seen(run)
    bars = [attributes for tag, attributes in page.tags if tag == "i" and "height" in attributes.get("style", "")]
    assert len(bars) == 59 and "1,000 new of 1,000 questions" in page.text


def test_a_curve_of_nothing_is_none_and_one_of_one_value_is_level() -> None:
    assert plot_geometry.draw_curve("New", [], 1.0, {}) is None
    level = plot_geometry.draw_curve("New", [(1, 0.25)], 1.0, {"cut": 0.5})
    assert level is not None and level["last"] == 0.25 and "<path" in level["svg"]


def test_a_chinese_page_says_all_but_names_in_chinese() -> None:
    """The stage, why it stopped, why rows were rejected, the plots, the warnings and what to do about them."""
    run = summary(waves(40, head="猫", longer=True))
    with pages_in("zh"):
        page = ParsedPage(render_health_page("tiny", run, [run, run]))
    allowed = {"querytruth", "tiny", "stub", "objects.from_model", "max_length"}
    assert set(re.findall(r"[A-Za-z][A-Za-z_.]{3,}", page.text)) - allowed == set()
