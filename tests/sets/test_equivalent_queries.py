"""Which queries ask the same: for labels, of an image, for an object; and which only seem to."""

from typing import Any

import pandas as pd

from querytruth.sets.query_texts import group_equivalent_queries
from tests.review.recall_sets import queries_table


def groups(rows: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    return set(group_equivalent_queries(queries_table(rows)).values())


def test_languages_styles_and_wordings_of_the_same_labels_ask_the_same_chinese_first() -> None:
    rows = [
        {"query_id": "q_1", "text": "dog", "language": "en", "style": "word", "labels": ["dog"]},
        {"query_id": "q_2", "text": "一张狗的图片", "style": "sentence", "labels": ["dog"]},
        {"query_id": "q_3", "text": "狗", "style": "word", "labels": ["dog"]},
        {"query_id": "q_4", "text": "狗&猫", "style": "word", "labels": ["dog", "cat"]},
        {"query_id": "q_5", "text": "cat and dog", "language": "en", "labels": ["cat", "dog"]},
    ]
    assert groups(rows) == {("q_3", "q_2", "q_1"), ("q_4", "q_5")}


def test_captions_of_one_image_in_one_style_ask_the_same() -> None:
    rows = [
        {"query_id": "q_1", "text": "Three dogs", "language": "en", "source_image_id": "img_dog"},
        {"query_id": "q_2", "text": "狗 沙滩", "style": "keywords", "source_image_id": "img_dog"},
        {"query_id": "q_3", "text": "三只狗在沙滩", "source_image_id": "img_dog"},
        {"query_id": "q_4", "text": "三只狗在沙滩", "source_image_id": "img_other"},
    ]
    assert groups(rows) == {("q_3", "q_1"), ("q_2",), ("q_4",)}


def test_an_object_of_two_topics_is_asked_for_twice() -> None:
    rows = [
        {"query_id": "q_1", "text": "Cup", "topic": "kitchen"},
        {"query_id": "q_2", "text": "cup ", "topic": "kitchen"},
        {"query_id": "q_3", "text": "cup", "topic": "sports"},
    ]
    assert groups(rows) == {("q_1", "q_2"), ("q_3",)}


def test_a_query_of_which_nothing_is_known_asks_for_itself() -> None:
    rows = [{"query_id": "q_1", "text": "a", "labels": []}, {"query_id": "q_2", "text": "a"}]
    assert groups(rows) == {("q_1",), ("q_2",)}
    bare = queries_table(rows).drop(columns=["labels", "topic", "source_image_id"])
    assert group_equivalent_queries(bare) == {"q_1": ("q_1",), "q_2": ("q_2",)}
    assert group_equivalent_queries(pd.DataFrame(columns=bare.columns)) == {}
