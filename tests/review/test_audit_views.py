"""The view Audit: drawn pairs, blind, whose answers the audit's report counts."""

from pathlib import Path
from typing import Any

import pytest

from querytruth.audit.answers import load_audit, read_answers
from querytruth.audit.definition import AuditKeys
from querytruth.audit.pool import pool_set
from querytruth.audit.steps import start_audit
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import UndeterminedPair
from querytruth.sets.set_files import StoredSet, read_set
from tests.review.server.pages import ReviewClient, open_client
from tests.small_sets import COLOURS, image_id_of, publish_small_set, query_id_of, small_tables


@pytest.fixture
def stored(tmp_path: Path) -> StoredSet:
    """A set with an audit of all its 16 pairs."""
    stored = publish_small_set(tmp_path, small_tables())
    run = tmp_path / "searcher.trec"
    queries = [query_id_of(name) for name in ("dog", "狗", "cat", "none")]
    rows = [f"{query} Q0 {image_id_of(name)} 0 {-rank} x" for query in queries for rank, name in enumerate(COLOURS)]
    run.write_text("\n".join(rows) + "\n")
    start_audit(stored.path, pool_set(stored.path, [run], 4), AuditKeys(depth=4), None)
    return stored


def queue(page: ReviewClient, state: str = "all") -> dict[str, Any]:
    return page.queue("audit", audit="audit", state=state)


def answer(page: ReviewClient, key: str, grade: int | None, note: str = "") -> Any:
    return page.post("/api/audit/decide", {"view": "audit", "key": key, "grade": grade, "note": note})


def test_a_card_tells_nothing_but_query_image_and_the_own_answer(stored: StoredSet) -> None:
    page = open_client(stored)
    keys = queue(page)["keys"]
    assert len(keys) == 16 and 'href="/audit"' in page.get("/queries").text
    shown = page.card(keys[0], "audit")
    assert set(shown) == {"key", "query_id", "text", "language", "image", "done"}
    assert set(shown["image"]) == {"image_id", "own"} and shown["image"]["own"] is None
    text = page.get("/audit").text + page.get("/api/audit/cards", params={"key": keys}).text
    assert not any(hint in text for hint in ("searcher", "judged_relevant", "first_ranks", "detector", "relevance"))


def test_answers_are_in_the_log_and_the_report_counts_them(stored: StoredSet) -> None:
    page = open_client(stored)
    one, other, third = queue(page)["keys"][:3]
    answer(page, one, 2, "clear")
    answer(page, other, None)
    answer(page, third, 0)
    assert queue(page)["done"][:4] == [1, 1, 1, 0] and len(queue(page, "open")["keys"]) == 13
    collected = read_answers(stored.path, load_audit(stored.path, "audit")[0])
    assert sorted(collected.grades.values()) == [0, 2] and len(collected.undetermined) == 1
    assert page.card(one, "audit")["image"]["own"] == {"grade": 2, "note": "clear"}
    undone = page.undo("audit").json()["card"]
    assert undone["key"] == third and undone["image"]["own"] is None
    page.undo("audit")
    assert [line.decision for line in read_decisions(stored.path.parent, UndeterminedPair)] == ["cannot_tell", "undo"]
    collected = read_answers(stored.path, load_audit(stored.path, "audit")[0])
    assert list(collected.grades.values()) == [2] and not collected.undetermined


def test_two_people_judge_blind_and_a_third_sees_what_they_differ_on(stored: StoredSet) -> None:
    lin, kim, bo = (open_client(stored, name) for name in ("lin", "kim", "bo"))
    one, other = queue(lin)["keys"][:2]
    for page, grades in ((lin, (2, 0)), (kim, (0, 0))):
        answer(page, one, grades[0])
        answer(page, other, grades[1])
    assert bo.card(one, "audit")["image"]["own"] is None
    assert queue(lin, "disputed")["keys"] == queue(kim, "disputed")["keys"] == []
    assert queue(bo, "disputed")["keys"] == [one]
    assert "2 judged by two people, 1 with the same answer, kappa 0.00" in bo.get("/audit").text
    answer(bo, one, 1)
    assert queue(bo, "disputed")["keys"] == []
    answers = read_answers(stored.path, load_audit(stored.path, "audit")[0])
    assert answers.grades[tuple(one.split("/")[1:])] == 1 and not answers.disputed  # type: ignore[index]


def test_what_is_no_answer_to_a_drawn_pair_is_refused(stored: StoredSet) -> None:
    page = open_client(stored)
    key = queue(page)["keys"][0]
    assert "the grades of this set are 0, 1, 2" in answer(page, key, 3).json()["error"]
    for wrong in ("", "audit", "audit/q/i", f"other/{key.partition('/')[2]}"):
        assert answer(page, wrong, 1).status_code == 409, wrong
    assert page.post("/api/audit/decide", {"view": "audit", "key": key}).status_code == 422
    assert page.undo("audit").status_code == 409 and page.log == []
    assert page.keys("audit", audit="../x") == []


def test_a_version_without_an_audit_has_no_such_view(tmp_path: Path) -> None:
    page = open_client(read_set(publish_small_set(tmp_path, small_tables()).path))
    assert 'href="/audit"' not in page.get("/queries").text and page.get("/audit").status_code == 404
