"""The status of a case by the ranks of its images, and what shows nothing is never a pass."""

import difflib
import math
from pathlib import Path
from typing import Any

import pytest

from querytruth.backends.search_systems import SearchHit
from querytruth.checks.answers import NO_IMAGE
from querytruth.checks.golden_file import GoldenCase
from querytruth.checks.verdicts import (
    GATE_QUERIES,
    CheckedCase,
    CheckReport,
    check_floors,
    judge_case,
    list_notes,
    read_lock,
    write_lock,
)
from querytruth.errors import UserError
from querytruth.evaluation.sample_size import plan_for_discordance
from querytruth.evaluation.system_answers import SystemAnswer


def judge(names: str, before: dict[str, int] | None = None, failure: str = "", **keys: Any) -> CheckedCase:
    """A case by the letters that the search answers with; a capital letter is no image of the folder."""
    ids = [NO_IMAGE + name if name.isupper() else name for name in names]
    hits = tuple(SearchHit(name, 1 - place / 10) for place, name in enumerate(ids))
    case = GoldenCase(**{"query": "dog", **keys})
    return judge_case(case, case.within or 3, SystemAnswer(hits, failure=failure, detail="slow"), before or {})


@pytest.mark.parametrize(
    ("names", "keys", "status", "line"),
    [
        ("abc", {"must": ["a", "c"]}, "pass", "a: rank 1; c: rank 3"),
        ("abcd", {"must": ["a", "d"]}, "fail", "a: rank 1; d: rank 4; d must be within 3"),
        ("abcd", {"must": "d", "within": 4}, "pass", "d: rank 4"),
        ("abc", {"any": ["x", "c"]}, "pass", "x: not found; c: rank 3"),
        ("abc", {"any": ["x", "y"]}, "fail", "x: not found; y: not found; one of x, y must be within 3"),
        ("abc", {"must_not": ["x", "b"]}, "fail", "b: rank 2; b must not be within 3"),
        ("abcx", {"must_not": ["x"]}, "pass", "x: rank 4"),
        ("abc", {"must_not": ["x"]}, "pass", "as expected"),
        ("", {"nothing": True}, "pass", "as expected"),
        ("ab", {"nothing": True}, "fail", "no result expected, 2 found; the first is a"),
        ("ab", {"nothing": True, "score": 0.95}, "fail", "no result expected, 1 found; the first is a (above 0.95)"),
        ("ab", {"nothing": True, "score": 1.0}, "pass", "as expected"),
        ("abcd", {"must": "d", "known_failure": "text"}, "known failure",
         "d: rank 4; d must be within 3; known failure: text"),
        ("d", {"must": "d", "known_failure": "text"}, "fixed", "d: rank 1; known failure: text"),
        ("XYd", {"must": "d"}, "pass", "d: rank 3"),
        ("XYZd", {"must": "d"}, "fail", "d: rank 4; no result is an image of the folder (such as 'X')"),
        ("", {"must_not": "d"}, "fail", "no result"),
        ("XYZ", {"must_not": "d", "known_failure": "text"}, "fail",
         "no result is an image of the folder (such as 'X'); known failure: text"),
    ],
)  # fmt: skip
def test_a_case_has_one_of_four_statuses(names: str, keys: dict[str, Any], status: str, line: str) -> None:
    case = judge(names, **keys)
    assert (case.status, str(case)) == (status, line)


@pytest.mark.parametrize("keys", [{"must": "a"}, {"must_not": "a"}, {"nothing": True}])
def test_a_query_without_an_answer_fails_whatever_was_expected(keys: dict[str, Any]) -> None:
    for known in ("", "since May"):
        case = judge("", failure="timeout", known_failure=known, **keys)
        assert case.status == "fail" and "no answer: timeout slow" in str(case)


def test_a_result_without_a_score_is_not_taken_to_be_below_a_score() -> None:
    case = GoldenCase(query="a unicorn", nothing=True, score=0.3)
    found = judge_case(case, 3, SystemAnswer((SearchHit("a", 0.1), SearchHit("b", None))), {})
    assert found.status == "fail" and str(found) == "the results have no scores"


def test_ranks_stand_beside_those_of_the_lock_file() -> None:
    case = judge("xyzab", before={"a": 1, "b": 0, "x": 1, "n": 2}, must=["a", "b", "x", "z"], must_not=["n", "o"])
    ranks = "a: rank 1, now 4; b: not found, now 5; x: rank 1; z: rank 3; n: rank 2, now not found"
    assert str(case).startswith(ranks)


def test_more_results_in_front_never_make_a_case_pass_and_a_lost_one_neither() -> None:
    """The law of figures: unknown results in front of an answer, and the loss of a right one, help no expectation."""
    order = ["fail", "pass"]
    for keys in ({"must": ["a", "b"]}, {"any": ["a", "b"]}):
        for names in ("abc", "cab", "ccab", "xyab"):
            for worse in ("X" + names, names.replace("a", "")):
                assert order.index(judge(worse, **keys).status) <= order.index(judge(names, **keys).status)


def test_floors_are_means_over_the_cases_that_expect_an_image() -> None:
    cases = [
        judge("abc", must=["a", "b"]),
        judge("xyzb", must=["b"]),
        judge("b", any=["c", "b"]),
        judge("", nothing=True),
    ]
    found = {one.query: str(one) for one in check_floors({"hit@3": 0.5, "r@3": 0.9, "rr@10": 0.5}, cases)}
    assert found == {
        "floor of hit@3": "0.667 over 3 cases, floor 0.5",
        "floor of r@3": "0.500 over 3 cases, floor 0.9",
        "floor of rr@10": "0.750 over 3 cases, floor 0.5",
    }
    assert [one.status for one in check_floors({"hit@3": 0.5, "r@3": 0.9}, cases)] == ["pass", "fail"]
    assert math.isclose(float(found["floor of rr@10"][:5]), (1 + 1 / 4 + 1) / 3, abs_tol=1e-3)


def test_a_fixed_failure_fails_only_a_strict_check() -> None:
    cases = [judge("d", must="d", known_failure="text"), judge("abc", must="a")]
    reports = [CheckReport("golden.yaml", "mine", "", "2026-11-29", cases, [], strict) for strict in (False, True)]
    assert [len(report.failures) for report in reports] == [0, 1]
    assert str(reports[0]) == "mine: 1 pass, 1 fixed" and reports[1].to_json()["is_failed"] is True


def test_the_queries_of_a_gate_are_those_that_plan_size_counts() -> None:
    assert plan_for_discordance(0.2, 0.05).queries == GATE_QUERIES
    outside, plan = list_notes([judge("aXY", must="a")])
    assert outside.startswith("2 of 3 results are not images of the folder (such as 'X')") and "627" in plan


CASES = [
    GoldenCase(query="红色的雨伞", must=("p07.jpg", "p12.jpg")),
    GoldenCase(query="a: \"unicorn\" #1", nothing=True),
    GoldenCase(query="dog", any=("a.jpg",)),
]  # fmt: skip


def write_ranks(path: Path, *answers: str | None) -> str:
    ranks, _ = read_lock(path)
    found = [
        SystemAnswer(failure="timeout") if names is None else SystemAnswer(tuple(map(SearchHit, names.split())))
        for names in answers
    ]
    cases = [judge_case(case, 10, one, ranks.get(case.query, {})) for case, one in zip(CASES, found, strict=True)]
    write_lock(path, CheckReport("golden.yaml", "mine", "3f2a", "2026-11-29", cases, []))
    return path.read_text("utf-8")


def test_a_moved_image_is_one_line_of_a_diff(tmp_path: Path) -> None:
    path = tmp_path / "golden.lock"
    before = write_ranks(path, "p07.jpg p12.jpg", "", "b.jpg")
    after = write_ranks(path, "x y p07.jpg p12.jpg", "", "b.jpg a.jpg")
    changed = [line for line in difflib.unified_diff(before.splitlines(), after.splitlines(), n=0) if line[1] == " "]
    assert changed == [
        "-    p07.jpg: 1",
        "-    p12.jpg: 2",
        "+    p07.jpg: 3",
        "+    p12.jpg: 4",
        "-    a.jpg: not found",
        "+    a.jpg: 2",
    ]
    assert read_lock(path) == (
        {"红色的雨伞": {"p07.jpg": 3, "p12.jpg": 4}, CASES[1].query: {"results": 0}, "dog": {"a.jpg": 2}},
        "3f2a",
    )


def test_a_case_without_an_answer_keeps_its_ranks(tmp_path: Path) -> None:
    path = tmp_path / "golden.lock"
    write_ranks(path, "p07.jpg", "", "a.jpg")
    write_ranks(path, None, "", "x a.jpg")
    assert read_lock(path)[0]["红色的雨伞"] == {"p07.jpg": 1, "p12.jpg": 0}
    assert read_lock(path)[0]["dog"] == {"a.jpg": 2}


def test_no_file_is_no_ranks_and_another_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "golden.lock"
    assert read_lock(path) == ({}, "")
    for text in (
        "- a",
        "cases: {a: 3}\nfingerprint: a",
        "cases: {a: {b.jpg: often}}\nfingerprint: a",
        "<<<<<<< HEAD\n[",
    ):
        path.write_text(text)
        with pytest.raises(UserError, match="lock file"):
            read_lock(path)
