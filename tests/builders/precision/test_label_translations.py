"""Names that a model proposed: what people should look at, and what becomes of their verdicts."""

import pandas as pd
import pytest

from builders.precision.label_translations import (
    ProposedName,
    accept_translations,
    describe_context,
    find_neighbours,
    find_translation_problems,
    is_named_within,
    parse_proposed_name,
    parse_sense,
)
from querytruth.errors import UserError

LABELS = pd.DataFrame({"id": ["1", "2", "3"], "name": ["Mouse", "Rat", "Cup "], "en": ["mouse", "rat", "cup"]})


@pytest.mark.parametrize(
    ("reply", "language", "expected"),
    [
        ("“鼠标”。\n因为……", "zh", ProposedName("鼠标")),
        ("\n  杯子 ", "zh", ProposedName("杯子")),
        ("mouse; mice; a", "en", ProposedName("mouse", "mice", "a")),
        ("Scissors; scissors; -", "en", ProposedName("Scissors", "scissors", "")),
        ("orange", "en", ProposedName("orange")),
        ("", "en", ProposedName()),
    ],
)
def test_a_reply_is_a_name_whatever_is_around_it(reply: str, language: str, expected: ProposedName) -> None:
    assert parse_proposed_name(reply, language) == expected


def test_each_problem_is_named_and_a_good_name_has_none() -> None:
    sources = ["mouse", "rat", "cup", "mug", "tv", "desk lamp", "sofa", "bird"]
    words = ["鼠标", "老鼠", "杯子", "杯子", "television", "放在桌子上的照明用的灯", "沙发/长椅", ""]
    backs = ["mice", "mouse", "a Cup", "cups", "", "desk-lamps", "couch", ""]
    assert find_translation_problems(sources, words, backs, "zh") == [
        ["changed_meaning"],
        ["homonym"],
        ["duplicate"],
        ["duplicate", "homonym"],
        ["not_in_language", "too_long"],
        ["too_long"],
        ["several_names", "changed_meaning"],
        ["no_reply"],
    ]
    assert find_translation_problems(["T恤", "苹果"], ["T-shirt", "apple"], ["T恤", "苹果"], "en") == [[], []]
    assert find_translation_problems(["tv"], ["TV"], [""], "zh") == [[]], "TV is what people type"


def test_a_word_of_another_sense_is_named_whatever_it_is_called_back() -> None:
    sources, words, backs = (
        ["crane", "mouse", "mouse", "bat"],
        ["鹤", "鼠标", "老鼠", "球拍"],
        ["crane", "computer mouse"] * 2,
    )
    assert find_translation_problems(sources, words, backs, "zh", [False, True, None, True]) == [
        ["other_sense"],
        [],
        ["homonym"],
        ["changed_meaning"],
    ]
    assert find_translation_problems(["mouse"], ["鼠标"], ["computer mouse"], "zh") == [["changed_meaning"]]
    assert find_translation_problems(["鼠标"], ["mouse"], ["电脑鼠标"], "en", [True]) == [[]]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("mouse", "computer mouse", True), ("Baseball bats", "bat", True), ("电脑鼠标", "鼠标", True),
        ("cat", "catfish", False), ("鼠", "鼠标", False), ("", "mouse", False), ("crane", "heron", False),
    ],
)  # fmt: skip
def test_a_name_within_another_says_the_same_more_precisely(one: str, other: str, expected: bool) -> None:
    assert is_named_within(one, other) is expected and is_named_within(other, one) is expected


@pytest.mark.parametrize(
    ("reply", "language", "expected"),
    [("是。", "zh", True), ("“否”", "zh", False), ("不是", "zh", False), ("Yes.", "en", True), ("**No**", "en", False),
     ("也许", "zh", None), ("nothing", "en", None), ("", "en", None)],
)  # fmt: skip
def test_a_sense_is_confirmed_denied_or_neither(reply: str, language: str, expected: bool | None) -> None:
    assert parse_sense(reply, language) is expected


def test_neighbours_share_most_images_for_how_often_they_are_there() -> None:
    """A person is on all images, and tells less of a crane than a truck, which is on its images alone."""
    images = {
        1: "crane truck person",
        2: "crane truck person",
        3: "dog person",
        4: "dog person",
        5: "cup person",
        6: "cup",
    }
    names = ["crane", "truck", "person", "dog", "cup", "rare"]
    rows = [(image, names.index(name) + 10) for image, some in images.items() for name in some.split() * 2]
    boxes = pd.DataFrame(rows, columns=["image", "category"])
    categories = pd.DataFrame({"id": [number + 10 for number in range(6)], "name": names})
    found = dict(zip(names, find_neighbours(boxes, categories), strict=True))
    assert found == {
        "crane": ["truck", "person"], "truck": ["crane", "person"], "person": ["crane", "truck", "dog"],
        "dog": ["person"], "cup": [], "rare": [],
    }  # fmt: skip
    assert find_neighbours(boxes.head(0), categories) == [[]] * 6
    assert (
        describe_context("vehicle", ["truck"], "en")
        == "It belongs to “vehicle”. On the same images there often is “truck”. "
    )
    assert describe_context("", [], "zh") == ""


def reviewed(*rows: tuple[str, str, str], language: str = "zh") -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["name", "proposal", "verdict"]).assign(language=language)


def test_only_accepted_names_go_into_the_table() -> None:
    filled = reviewed(("Mouse", " 鼠标 ", "accept"), ("Rat", "老鼠", "reject"), ("Cup", "杯子", ""))
    table, undecided = accept_translations(LABELS.assign(zh=["", "大鼠", ""]), filled)
    assert table["zh"].tolist() == ["鼠标", "大鼠", ""] and undecided == 1
    assert table["en"].tolist() == ["mouse", "rat", "cup"] and table["parent"].tolist() == [""] * 3
    english = reviewed(("Cup", "mug", "Accept"), language="en").assign(plural="mugs", article="a")
    table, _ = accept_translations(LABELS, english)
    assert table.loc[2, ["en", "plural", "article"]].tolist() == ["mug", "mugs", "a"]


@pytest.mark.parametrize(
    ("filled", "message"),
    [
        (reviewed(("Mouse", "鼠", "accept"), ("Rat", "鼠", "accept")), "Mouse.*the same name as 'Rat': '鼠' in zh"),
        (reviewed(("Dog", "狗", "accept")), "Dog.*is not a label of the table"),
        (reviewed(("Mouse", "鼠标", "yes")), "has the verdict 'yes'.*write accept or reject"),
        (reviewed(("Mouse", " ", "accept")), "is accepted but has no proposal"),
        (reviewed(("Mouse", "鼠标", "accept"), language="fr"), r"language.*\['fr'\]"),
        (reviewed(("Mouse", "鼠标", "accept")).drop(columns="proposal"), "proposal.*is missing"),
    ],
)
def test_what_cannot_be_taken_over_is_one_line(filled: pd.DataFrame, message: str) -> None:
    with pytest.raises(UserError, match=message):
        accept_translations(LABELS, filled)
