"""What becomes of the texts that a chat model writes for a query."""

import pandas as pd
import pytest

from builders.precision.compatibility import build_compatibility
from builders.precision.phrasings import (
    Finding,
    Phrasing,
    add_phrasings,
    check_labels,
    check_question,
    choose_queries_to_reword,
    clean_phrasings,
    index_names,
    parse_phrasings,
    reject_repetitions,
    repeat_judgments,
)
from builders.precision.tag_tree import LabelConcept, TagTree
from builders.recall.caption_rules import load_cleaning_rules

TREE = TagTree(
    (
        LabelConcept("dog", "animal", "狗", "dog", "a", "dogs"),
        LabelConcept("cat", "animal", "猫", "cat", "a", "cats"),
        LabelConcept("bench", "", "长椅", "bench", "a", "benches"),
        LabelConcept("Wine, red", "", "红酒", "Wine, red", "", ""),
    ),
    (LabelConcept("animal", "", "动物", "animal", "an", "animals"),),
)
ENGLISH = index_names(TREE, build_compatibility(TREE, None), "en")
RULES, _ = load_cleaning_rules()
QUERIES = pd.DataFrame(
    [
        ("q1", "dog", "en", "word", ["dog"], None),
        ("q2", "an image of a dog", "en", "sentence", ["dog"], None),
        ("q3", "狗", "zh", "word", ["dog"], None),
        ("q4", "two dogs", "en", "word", ["dog"], "count/2"),
    ],
    columns=["query_id", "text", "language", "style", "labels", "family"],
)


def test_one_text_per_language_and_meaning_is_reworded() -> None:
    chosen = choose_queries_to_reword(QUERIES)
    assert list(chosen["query_id"]) == ["q2", "q3", "q4"], "the sentence where there is one"
    assert list(chosen.columns) == list(QUERIES.columns)


@pytest.mark.parametrize(
    ("reply", "texts"),
    [
        ("show me a dog\nany dog", ["show me a dog", "any dog"]),
        ("Here are three:\n1. a dog\n2) “my dog”\n- dog photos.", ["a dog", "my dog", "dog photos"]),
        ("<think>a cat?</think>\n**a dog**\n\n", ["a dog"]),
        ("①有狗的照片\n（2）狗狗\n3、小狗", ["有狗的照片", "狗狗", "小狗"]),
        ("2 dogs\n3 dogs", ["2 dogs", "3 dogs"]),
        ("", []),
    ],
)
def test_lines_of_a_reply(reply: str, texts: list[str]) -> None:
    assert parse_phrasings(reply) == texts


def test_texts_that_are_no_query() -> None:
    reply = "photos with a dog\nI'm sorry, I cannot help with that.\n有狗的照片\n" + "dog " * 30 + "\nany dog"
    found = clean_phrasings("q2", "en", reply, 4, RULES, "")
    reasons = [one.finding and one.finding.reason for one in found]
    assert reasons[:3] == [None, "refusal", "wrong_language"] and reasons[3] in ("repetition", "too_long")
    assert reasons[4] == "over_the_count"
    words = "please find me all of my photos from any year in which one can see somewhere, small or large, near or far"
    long = clean_phrasings("q2", "en", f"{words}, whatever else there may be, a dog", 3, RULES, "")
    assert long[0].finding == Finding("too_long")
    assert found[0].text == "photos with a dog", "nothing is cut off a query"


def test_a_text_that_another_query_has_is_repeated() -> None:
    texts = ["Dog!", "any dog", "Any  dog", "two dogs", "狗"]
    found = reject_repetitions([Phrasing("q2", "en", text) for text in texts], QUERIES)
    assert [one.finding is None for one in found] == [False, True, False, False, True]
    assert found[0].finding == Finding("repeated")


@pytest.mark.parametrize(
    ("asked", "reply", "reason", "detail"),
    [
        (["dog"], "dog", None, ""),
        (["dog"], "Dogs.", None, ""),
        (["dog"], "animal, dog", None, ""),
        (["dog", "bench"], "a dog\nbench", None, ""),
        (["dog", "bench"], "dog", "loses_label", "bench"),
        (["dog"], "dog, cat", "adds_label", "cat"),
        (["animal"], "animal, dog", "adds_label", "dog"),
        (["dog"], "dog, other: sunset, beach", "adds_thing", "sunset, beach"),
        (["dog"], "dog, other: none", None, ""),
        (["dog"], "other: hound", "loses_label", "dog"),
        (["Wine, red"], "Wine red", None, ""),
        (["dog"], "<think>cat</think>dog", None, ""),
        (["dog"], "狗", None, ""),
        (["dog"], "The text asks about a dog.", "unreadable_check", "the labels: The text asks about a dog."),
    ],
)
def test_labels_named_back(asked: list[str], reply: str, reason: str | None, detail: str) -> None:
    assert check_labels(reply, asked, ENGLISH) == (Finding(reason, detail) if reason else None)
    assert "Wine  red" in ENGLISH.listed, "a comma separates names"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        *((yes, None) for yes in ("Yes", "yes, both do.", "**Yes**", "是", "是的。", "<think>no</think>Yes")),
        *((no, "asks_something_else") for no in ("No.", "not exactly", "否", "不是", "不一样")),
        *((odd, "unreadable_check") for odd in ("", "Maybe", "It depends: yes", "nobody knows", "yesterday")),
    ],
)
def test_whether_both_ask_for_the_same(reply: str, reason: str | None) -> None:
    finding = check_question(reply)
    assert (finding and finding.reason) == reason


def test_a_phrasing_has_the_judgments_of_its_query() -> None:
    qrels = pd.DataFrame(
        {
            "query_id": pd.Categorical(["q1", "q2", "q2", "q4"]),
            "image_id": pd.Categorical(["a", "a", "b", "b"]),
            "relevance": [1, 2, 0, 1],
        }
    )
    found = [
        Phrasing("q2", "en", "any dog"),
        Phrasing("q2", "en", "x", Finding("repeated")),
        Phrasing("q3", "zh", "狗狗"),
    ]
    table, source_of = add_phrasings(QUERIES, found)
    assert list(table["query_id"]) == sorted(table["query_id"]) and len(table) == 6
    new = table[table["style"] == "llm"].set_index("text")
    assert new.at["any dog", "labels"] == ["dog"] and new.at["狗狗", "language"] == "zh"
    repeated = repeat_judgments(qrels, source_of)
    rows = repeated.astype({"query_id": "str", "image_id": "str"})
    own = rows[rows["query_id"] == new.at["any dog", "query_id"]]
    assert own[["image_id", "relevance"]].values.tolist() == [["a", 2], ["b", 0]]
    assert list(rows["query_id"]) == sorted(rows["query_id"]) and len(rows) == 6, "nothing is judged of q3"
    assert add_phrasings(QUERIES, found[:1])[1] == {new.at["any dog", "query_id"]: "q2"}, "whatever else was written"
