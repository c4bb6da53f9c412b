"""Texts that ask the same are one card: judged once for all of them, edited and dropped one by one."""

from pathlib import Path
from typing import Any

import pytest

from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import StoredSet
from tests.review.recall_sets import images_table, qrels_table, queries_table
from tests.review.server.pages import ReviewClient, open_client
from tests.small_sets import publish_tables

TEXTS = {"q_zh": "狗", "q_en": "dog", "q_zs": "一张狗的图片"}
OTHERS = [{"query_id": query, "text": TEXTS[query]} for query in ("q_zs", "q_en")]


def publish_dogs(folder: Path) -> StoredSet:
    """“狗” in three wordings with two right images, “猫” with one; img_4 is judged for none."""
    queries = [
        {"query_id": "q_zh", "text": "狗", "style": "word", "labels": ["dog"]},
        {"query_id": "q_en", "text": "dog", "style": "word", "language": "en", "labels": ["dog"]},
        {"query_id": "q_zs", "text": "一张狗的图片", "style": "sentence", "labels": ["dog"]},
        {"query_id": "q_cat", "text": "猫", "style": "word", "labels": ["cat"]},
    ]
    rows = [(query, f"img_{image}", 3 - image) for query in TEXTS for image in (1, 2)]
    frames = {
        "queries": queries_table(queries),
        "images": images_table(["1", "2", "3", "4"]),
        "qrels": qrels_table([*rows, ("q_cat", "img_3", 2)], "detector"),
    }
    return publish_tables(folder, "dogs", frames)


@pytest.fixture
def page(tmp_path: Path) -> ReviewClient:
    return open_client(publish_dogs(tmp_path))


def decide(page: ReviewClient, decision: str, query: str = "q_zh", others: Any = OTHERS, **more: Any) -> dict[str, Any]:
    answer = page.decide(query, TEXTS[query], decision, others=others, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["card"]


def shown(card: dict[str, Any]) -> dict[str, tuple[int | None, Any]]:
    return {one["image_id"]: (one["grade"], one["grades"]) for one in card["images"]}


def grades(page: ReviewClient, image: str) -> dict[str, int]:
    rows = page.publish().tables.qrels
    rows = rows[rows["image_id"] == image]
    return dict(zip(rows["query_id"].astype("str"), rows["relevance"].tolist(), strict=True))


@pytest.mark.thorough
def test_texts_that_ask_the_same_are_one_card_with_all_texts(page: ReviewClient) -> None:
    assert sorted(page.keys("queries")) == ["q_cat", "q_zh"]
    card = page.card("q_zh")
    assert [(one["text"], one["language"], one["style"]) for one in card["queries"]] == [
        ("狗", "zh", "word"), ("一张狗的图片", "zh", "sentence"), ("dog", "en", "word"),
    ]  # fmt: skip
    assert shown(card) == {"img_1": (2, None), "img_2": (1, None)}
    for filters in ({"search": "DOG"}, {"language": "en"}, {"search": "q_zs"}, {"topic": "dog"}):
        assert page.get("/api/queries/queue", params=filters).json()["keys"] == ["q_zh"]
    assert len(page.keys("pairs", source="sample")) == 3, "each pair once"


def test_one_judgment_is_stored_once_and_holds_for_all_texts(page: ReviewClient) -> None:
    card = decide(page, "grade", image_id="img_4", relevance=2)
    assert shown(card)["img_4"] == (2, None) and [d.query_id for d in page.log] == ["q_zh"]
    assert "2 more judgments follow" in page.get("/decisions").text
    assert grades(page, "img_4") == {"q_zh": 2, "q_en": 2, "q_zs": 2}


def test_all_right_keeps_every_text_and_confirms_each_image_once(page: ReviewClient) -> None:
    decide(page, "keep", accept=["img_1", "img_2"])
    targets = [(d.query_id, d.image_id) for d in page.log]
    assert targets == [("q_zh", "img_1"), ("q_zh", "img_2"), ("q_zh", None), ("q_zs", None), ("q_en", None)]
    assert page.keys("queries", state="decided") == ["q_zh"]
    assert page.undo().json()["card"]["undone"] == 5, "one action is taken back as one"


def test_a_marked_text_is_dropped_or_edited_alone_and_stays_so_when_the_rest_is_kept(page: ReviewClient) -> None:
    decide(page, "drop", "q_zs", others=[])
    decide(page, "edit", "q_en", others=[], new_text="a dog")
    others = [OTHERS[0], {"query_id": "q_en", "text": "a dog"}]
    card = decide(page, "keep", others=others)
    assert [one["own"]["decision"] for one in card["queries"]] == ["keep", "drop", "edit"]
    texts = page.publish().tables.queries["text"]
    assert texts.tolist() == ["猫", "a dog", "狗"]


def test_one_text_judged_otherwise_is_shown_as_a_conflict_until_all_are_judged_again(page: ReviewClient) -> None:
    decide(page, "grade", image_id="img_4", relevance=2)
    card = decide(page, "grade", "q_en", others=[], image_id="img_4", relevance=0)
    assert shown(card)["img_4"] == (2, {"q_zh": 2, "q_zs": 0, "q_en": 0})
    html = page.get("/decisions").text
    assert "“狗” 2, “dog” 0" in html and 'href="/queries#q_zh"' in html
    card = decide(page, "grade", image_id="img_4", relevance=1)
    assert shown(card)["img_4"] == (1, None) and "“狗” 2" not in page.get("/decisions").text
    assert grades(page, "img_4") == {"q_zh": 1, "q_en": 1, "q_zs": 1}


def test_two_reviewers_who_differ_on_any_text_are_one_dispute(page: ReviewClient) -> None:
    decide(page, "grade", "q_en", others=[], image_id="img_4", relevance=2)
    mei = open_client(page.stored, "mei")
    decide(mei, "grade", "q_en", others=[], image_id="img_4", relevance=0)
    (key,) = page.keys("pairs", source="disagreements")
    card = page.card(key, "pairs")
    assert key == "q_zh/img_4" and [one["verdict"] for one in card["disputed_by"]] == ["2", "0"]
    decide(page, "grade", image_id="img_4", relevance=1, view="disagreements")
    assert page.keys("pairs", source="disagreements") == []
    assert grades(page, "img_4") == {"q_zh": 1, "q_en": 1, "q_zs": 1}


def test_a_text_that_changed_meanwhile_or_asks_something_else_is_refused(page: ReviewClient) -> None:
    decide(page, "edit", "q_en", others=[], new_text="a dog")
    answer = page.decide("q_zh", "狗", "keep", others=OTHERS)
    assert answer.status_code == 409 and "now reads “a dog”" in answer.json()["error"]
    answer = page.decide("q_zh", "狗", "keep", others=[{"query_id": "q_cat", "text": "猫"}])
    assert answer.status_code == 409 and "is a different query" in answer.json()["error"]
    answer = page.decide("q_zh", "狗", "edit", others=[OTHERS[0]], new_text="x")
    assert answer.status_code == 409 and "one text is edited at a time" in answer.json()["error"]


def test_a_line_that_names_one_query_is_applied_by_the_next_build_to_all_that_ask_the_same(page: ReviewClient) -> None:
    decision = QueryDecision(
        "q_en", "dog", "grade", "img_4", relevance=2, reviewer="lin", view="queries", at="2026-01-01"
    )
    append_decisions(page.stored.path.parent, [decision])
    assert page.card("q_zh")["images"][0]["grade"] == 2
    assert grades(page, "img_4") == {"q_zh": 2, "q_en": 2, "q_zs": 2}
