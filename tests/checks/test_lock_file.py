"""golden.lock is read in a diff: a line per image, the same bytes for the same ranks."""

import difflib
from pathlib import Path

import pytest

from querytruth.backends.search_systems import SearchHit
from querytruth.checks.golden_file import GoldenCase
from querytruth.checks.lock_file import read_lock, write_lock
from querytruth.checks.verdicts import CheckReport, judge_case
from querytruth.errors import UserError
from querytruth.evaluation.system_answers import SystemAnswer

CASES = [
    GoldenCase(query="红色的雨伞", must=("p07.jpg", "p12.jpg")),
    GoldenCase(query="a: \"unicorn\" #1", nothing=True),
    GoldenCase(query="dog", any=("a.jpg",)),
]  # fmt: skip


def write(path: Path, *answers: str | None) -> str:
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
    before = write(path, "p07.jpg p12.jpg", "", "b.jpg")
    after = write(path, "x y p07.jpg p12.jpg", "", "b.jpg a.jpg")
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
    write(path, "p07.jpg", "", "a.jpg")
    write(path, None, "", "x a.jpg")
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
