"""What a caption says: two captions say the same in other words, or one says more than the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.recall.phrases import distinguishing_units, find_missing_units, parse_phrases


def missing(asked: str, said: str) -> list[str]:
    return find_missing_units(parse_phrases(asked), parse_phrases(said))


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
def test_a_text_that_says_as_much_or_more_lacks_nothing(asked: str, said: str) -> None:
    assert missing(asked, said) == []


@pytest.mark.parametrize(
    ("asked", "said", "words"),
    [
        ("红色的狗", "蓝色的狗", ["红"]),
        ("红色的狗和蓝色的猫", "蓝色的狗和红色的猫", ["红", "蓝"]),
        ("两只狗在公园里", "公园里的狗", ["两"]),
        ("一朵花", "一个花瓶", ["花"]),
        ("穿白色上衣的人在海滩上", "海滩上的人", ["上", "白", "穿", "色", "衣"]),
        ("two red dogs", "a red dog", ["two"]),
        ("a flower", "a flower pot", ["flower"]),
        ("two pairs of blue slippers", "two dogs and blue slippers", ["two"]),
        ("two people in red", "two people, a person in red and a person in white", ["red"]),
        ("by day", "on a snowy day", ["daytim"]),
        ("两只鸟", "四只鸟，两只白色的鸟", ["两", "鸟"]),
        ("没有人的街道", "有人的街道", ["没"]),
    ],
)
def test_what_differs_is_told(asked: str, said: str, words: list[str]) -> None:
    assert missing(asked, said) == sorted(words)


def test_colours_numbers_and_the_like_tell_apart_and_nouns_do_not() -> None:
    assert distinguishing_units(missing("红色的狗", "蓝色的狗")) == ["红"]
    assert distinguishing_units(missing("two men", "a man")) == ["two"]
    assert distinguishing_units(missing("一个男人在滑雪", "一个女人在滑雪")) == ["男"]
    assert distinguishing_units(missing("a snowy street", "a street")) == [*missing("a snowy street", "a street")]
    assert distinguishing_units(missing("一只大狗", "一只狗")) == []
    assert distinguishing_units(missing("a couch", "a sofa")) == []


@given(st.text(st.sampled_from("一两红狗猫花瓶的在上有和，。 abs-'ing一只"), max_size=30), st.text(max_size=20))
def test_every_text_says_what_it_says_and_more_never_says_less(text: str, more: str) -> None:
    assert missing(text, text) == []
    assert missing(text, f"{text}。{more}") == []
    assert all(parse_phrases(text))


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_read(text: str) -> None:
    parse_phrases(text)
