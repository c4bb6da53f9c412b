"""Names that are the same text are one; names that only look the same are told apart by their code points."""

import pytest

from builders.generated.row_rules import normalize_text
from querytruth.sets.query_texts import describe_code_points, find_alike_names, find_joined_names, join_spellings


@pytest.mark.parametrize(
    "other",
    [
        "cafe\u0301 bar",
        "café  bar",
        "café\u00a0bar",
        "\ufeffcafé bar ",
        "ca\u200bfé bar",
        "cafe\u200d\u0301 bar",
        "café\u3000bar",
    ],
)
def test_the_same_text_in_another_spelling_is_joined(other: str) -> None:
    assert join_spellings(other) == "café bar"
    assert find_joined_names(["café bar", other, "tea"]) == {"café bar": "café bar", other: "café bar"}
    assert normalize_text(other) == normalize_text("café bar")


def test_a_name_of_its_own_stays_as_it_is() -> None:
    assert find_joined_names(["Wild Bird ", "cafe\u0301", "Dog", "dog"]) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cat", "сat"),
        ("OPERA", "ΟPERA"),
        ("ＴＶ", "TV"),
        ("part IV", "part Ⅳ"),
        ("Сat", "cat"),
        ("face", "fаcе"),
    ],
)
def test_names_that_look_the_same_are_found_in_either_order(one: str, other: str) -> None:
    for names in ([one, "dog", other], [other, "dog", one]):
        found = find_alike_names(names)
        assert found is not None and set(found) == {one, other}


def test_names_that_differ_to_the_eye_are_not() -> None:
    assert find_alike_names(["cat", "кот", "Dog", "dog", "dogs", "狗", "T恤", "cafe", "café", "cafe\u0301"]) is None


def test_the_code_points_are_those_that_the_other_does_not_have() -> None:
    assert describe_code_points("сat", "cat") == "U+0441 CYRILLIC SMALL LETTER ES"
    assert describe_code_points("cafe\u0301", "café") == "U+0065 LATIN SMALL LETTER E, U+0301 COMBINING ACUTE ACCENT"
