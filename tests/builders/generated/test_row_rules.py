"""Which rows can be objects at all, and which can be topics."""

import re

import pytest

import prompts
from builders.generated.generation_rounds import build_row_rules
from builders.generated.row_rules import ROW_REJECTION_REASONS, RowRules, normalize_text
from builders.generated.topic_pools import STRATEGIES

REFUSAL = re.compile("我无法|cannot help")
RULES = {
    language: RowRules(language, longest, prompts.load_template(f"{language}/topics").text, REFUSAL)
    for language, longest in (("zh", 10), ("en", 5))
}


@pytest.mark.parametrize(
    "text", ["猫", "意大利面", "T恤", "3D打印机", "iPhone手机", "蒙娜丽莎·画像", "第二次世界大战遗址"]
)
def test_chinese_objects_are_taken_as_they_are(text: str) -> None:
    assert RULES["zh"].find_rejection_reason(text) == ""


@pytest.mark.parametrize(
    "text", ["cat", "Peking duck", "shepherd's pie", "t-bone steak", "hot air balloon over hills", "Café"]
)
def test_english_objects_are_taken_as_they_are(text: str) -> None:
    assert RULES["en"].find_rejection_reason(text) == ""


@pytest.mark.parametrize(
    ("language", "text", "reason"),
    [
        ("zh", "", "bad_characters"),
        ("zh", "饺子，汉堡", "bad_characters"),
        ("zh", "饺子。", "bad_characters"),
        ("zh", "#饺子", "bad_characters"),
        ("zh", "（完）", "bad_characters"),
        ("zh", "饺 子", "bad_characters"),
        ("zh", "饺\u200b子", "bad_characters"),
        ("zh", "饺子\ud83d", "bad_characters"),
        ("zh", "饺子\U0001f95f", "bad_characters"),
        ("zh", "=饺子", "bad_characters"),
        ("zh", "ramen", "wrong_language"),
        ("zh", "123", "wrong_language"),
        ("zh", "艺术家工作室中正在创作的油画", "too_long"),
        ("zh", "我无法提供", "refusal"),
        ("zh", "物体", "word_of_prompt"),
        ("zh", "动物", "word_of_prompt"),
        ("zh", "你给出的每个", "word_of_prompt"),
        ("en", "拉面", "wrong_language"),
        ("en", "ramen, soup", "bad_characters"),
        ("en", "a very long row of words", "too_long"),
        ("en", "x" * 61, "too_long"),
        ("en", "Objects", "word_of_prompt"),
        ("en", "household goods", "word_of_prompt"),
        ("en", "I cannot help", "refusal"),
    ],
)
def test_what_is_no_object_has_its_reason(language: str, text: str, reason: str) -> None:
    assert RULES[language].find_rejection_reason(text) == reason
    assert reason in ROW_REJECTION_REASONS


def test_a_word_within_a_word_of_the_prompt_is_no_word_of_it() -> None:
    assert "standard" in RULES["en"].template
    assert RULES["en"].find_rejection_reason("stand") == ""
    assert RULES["en"].find_rejection_reason("ant") == ""


def test_topics_that_the_prompt_proposes_may_be_chosen_its_own_words_may_not() -> None:
    assert RULES["zh"].find_topic_rejection_reason("动物") == ""
    assert RULES["en"].find_topic_rejection_reason("animals") == ""
    assert (
        RULES["zh"].find_topic_rejection_reason("物体")
        == RULES["en"].find_topic_rejection_reason("Topic")
        == "word_of_prompt"
    )
    assert RULES["zh"].find_topic_rejection_reason("#食物") == "bad_characters"


def test_spelling_alone_makes_no_difference() -> None:
    assert normalize_text("ＢＢＱ  Grill ") == normalize_text("bbq grill")
    assert normalize_text("饺子") != normalize_text("水饺")


def test_what_the_forms_are_written_with_is_no_object_whatever_the_prompt_says() -> None:
    bare = RowRules("zh", 10, "", re.compile("我无法"))
    assert [bare.find_rejection_reason(text) for text in ("主题", "视觉元素", "物体")] == ["word_of_prompt"] * 3
    assert bare.find_rejection_reason("饺子") == ""


def test_an_object_has_as_many_characters_as_its_prompt_asks_for() -> None:
    """Of one character, 猫 is no noun of at least two, as the article's prompt asks."""
    for strategy, language, short, enough in (("by_topic", "zh", "猫", "狸猫"), ("by_topic", "en", "ox", "cat")):
        least = STRATEGIES[strategy].min_characters[language]
        asked = prompts.load_template(f"{language}/{strategy}")
        rules = build_row_rules(asked, "", None, least)
        assert (rules.find_rejection_reason(short), rules.find_rejection_reason(enough)) == ("too_short", "")
        assert rules.find_topic_rejection_reason(short) == "", "people name the topics"
        assert build_row_rules(asked, "", None).find_rejection_reason(short) == ""
    assert not STRATEGIES["self_instruct"].min_characters and not STRATEGIES["visual_elements"].min_characters
