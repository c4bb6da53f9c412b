"""`apply` says on what people differ: disputed pairs of an audit are left out, other differences are counted."""

import json
from dataclasses import replace
from pathlib import Path

from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import read_set
from tests.cli.conftest import Run
from tests.review.server.pages import open_client
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables


def answer(image: str, relevance: int, reviewer: str, second: int, view: str = "audit") -> QueryDecision:
    at = f"2026-01-01T00:00:{second:02}+00:00"
    return QueryDecision(
        query_id_of("dog"), "a dog, wet", "grade", image_id_of(image), relevance=relevance, reviewer=reviewer,
        view=view, source="a_1", at=at,
    )  # fmt: skip


def grades_of(path: Path) -> dict[str, int]:
    qrels = read_set(path).tables.qrels
    mine = qrels[qrels["query_id"] == query_id_of("dog")]
    return dict(zip(mine["image_id"], mine["relevance"].astype(int), strict=True))


def test_a_disputed_pair_keeps_its_grade_and_is_named_until_a_third_answers(tmp_path: Path, run: Run) -> None:
    folder = publish_small_set(tmp_path, small_tables()).path.parent
    append_decisions(folder, [answer("beach", 0, "lin", 1), answer("beach", 2, "kim", 2), answer("cat", 1, "lin", 3)])
    _, said = run("apply", "small", "--out", "sets")
    assert "1 pair of an audit is left out" in said and image_id_of("beach") in said
    grades = grades_of(folder / "v2")
    assert grades[image_id_of("beach")] == 1 and grades[image_id_of("cat")] == 1
    append_decisions(folder, [answer("beach", 0, "bo", 4)])
    _, said = run("apply", "small", "--out", "sets")
    assert "left out" not in said and grades_of(folder / "v3")[image_id_of("beach")] == 0


def test_other_differences_are_counted_and_the_last_decision_holds(tmp_path: Path, run: Run) -> None:
    folder = publish_small_set(tmp_path, small_tables()).path.parent
    append_decisions(folder, [answer("beach", 0, "lin", 1, "pairs"), answer("beach", 2, "kim", 2, "pairs")])
    printed, _ = run("apply", "small", "--out", "sets", "--json")
    summary = json.loads(printed)
    assert (summary["disputed"], summary["disagreements"]) == ([], 1)
    assert grades_of(folder / "v2")[image_id_of("beach")] == 2


def test_the_review_page_leaves_the_same_answers_out(tmp_path: Path) -> None:
    tables = small_tables()
    alike = tables.queries.assign(labels=[["dog"]] * len(tables.queries))  # an answer holds for the other queries, too
    stored = publish_small_set(tmp_path, replace(tables, queries=alike))
    append_decisions(stored.path.parent, [answer("beach", 0, "lin", 1), answer("beach", 2, "kim", 2)])
    page = open_client(stored)
    assert "more judgments follow" not in page.get("/decisions").text
    append_decisions(stored.path.parent, [answer("beach", 0, "bo", 4)])
    assert "3 more judgments follow" in page.get("/decisions").text
