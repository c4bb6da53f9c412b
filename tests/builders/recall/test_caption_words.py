"""What a caption says: two captions say the same in other words, or one says more than the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.recall.caption_words import ValueReader, list_words, parse_phrases, restore_words, say_all

READER = ValueReader()


def says(said: str, asked: str) -> bool:
    return say_all(parse_phrases(said), parse_phrases(asked))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("海滩上有一双拖鞋。", "在海滩上拍到的一双拖鞋"),
        ("一辆蓝色的越野车，在夜晚的街道上。", "夜晚的街道上有一辆蓝色的越野车、两只狗和一个人。"),
        ("公园里的狗", "两只棕色的狗在公园里奔跑"),
        ("一个小男孩骑着一辆自行车。", "一个小男孩骑着一辆紫色的自行车。"),
        ("戴着墨镜的小孩", "戴墨镜的小孩。"),
        ("一只狗在海滩上奔跑", "奔跑，一只狗，海滩"),
        ("A person rides a dirt bike .", "Two people ride their dirt bikes in the snow"),
        ("a dog on the beach", "A man is on the BEACH with two brown dogs"),
        ("A pair of blue slippers", "On a shop shelf, there are three pairs of blue slippers and a clock."),
        ("ｄｏｇｓ", "dog"),
        ("two people in red at the airport", "At the airport, two old people in red and a bus."),
        ("a man in a red coat", "a man in a red coat and a blue hat"),
        ("两只鸟", "两只白色的鸟和三只黑色的鸟"),
    ],
)
def test_a_text_that_says_as_much_or_more_says_all(asked: str, said: str) -> None:
    assert says(said, asked)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("红色的狗", "蓝色的狗"),
        ("红色的狗和蓝色的猫", "蓝色的狗和红色的猫"),
        ("两只狗在公园里", "公园里的狗"),
        ("一朵花", "一个花瓶"),
        ("穿白色上衣的人在海滩上", "海滩上的人"),
        ("two red dogs", "a red dog"),
        ("a flower", "a flower pot"),
        ("two pairs of blue slippers", "two dogs and blue slippers"),
        ("two people in red", "two people, a person in red and a person in white"),
        ("by day", "on a snowy day"),
        ("两只鸟", "四只鸟，两只白色的鸟"),
        ("没有人的街道", "有人的街道"),
        ("a brown dog", "a brown horse and a black dog"),
        ("the", "a cat"),
    ],
)
def test_what_differs_or_is_nothing_is_not_said(asked: str, said: str) -> None:
    assert not says(said, asked)


def test_words_are_stems_in_english_and_characters_in_chinese() -> None:
    assert list_words(parse_phrases("Two dogs are running on the grass.")) == ["two", "dog", "run", "grass"]
    assert list_words(parse_phrases("一只狗在草地奔跑")) == ["狗", "草", "地", "奔", "跑"]


def test_words_are_shown_as_they_are_written() -> None:
    assert restore_words("Two running horses", {"hors", "run"}) == ["running", "horses"]
    assert restore_words("红色的狗，在海滩上", {"红", "色", "海", "滩"}) == ["红色", "海滩"]


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Two black dogs run in the snow.", {"number", "colour", "kind", "place"}),
        ("a man and a woman", {"sex", "age", "kind"}),
        ("两只黑色的狗在雪地里跑", {"number", "colour", "kind", "place"}),
        ("a lamp", set()),
    ],
)
def test_values_of_groups_are_read(text: str, stated: set[str]) -> None:
    bits = READER.read(text)
    assert {group for group, values in READER.groups.items() if bits & values} == stated


@given(st.text(st.sampled_from("一两红狗猫花瓶的在上有和，。 abs-'ing一只"), max_size=30), st.text(max_size=20))
def test_every_text_says_what_it_says_and_any_text_can_be_read(text: str, more: str) -> None:
    assert says(text, text) == bool(parse_phrases(text))
    assert all(parse_phrases(text)) and all(parse_phrases(more))
    assert READER.read(more) >= 0
