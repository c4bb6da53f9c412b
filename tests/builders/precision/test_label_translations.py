"""Names that a model proposed: what people should look at, and what becomes of their verdicts."""

import pandas as pd
import pytest

from builders.precision.label_translations import (
    ProposedName,
    accept_translations,
    find_translation_problems,
    parse_proposed_name,
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
        (reviewed(("Mouse", "鼠", "accept"), ("Rat", "鼠", "accept")), "Mouse.*'Rat' would both be '鼠' in zh"),
        (reviewed(("Dog", "狗", "accept")), "Dog.*is no label of the table"),
        (reviewed(("Mouse", "鼠标", "yes")), "has the verdict 'yes'.*accept, reject or nothing"),
        (reviewed(("Mouse", " ", "accept")), "is accepted without a name"),
        (reviewed(("Mouse", "鼠标", "accept"), language="fr"), r"language.*\['fr'\]"),
        (reviewed(("Mouse", "鼠标", "accept")).drop(columns="proposal"), "proposal.*lacks"),
    ],
)
def test_what_cannot_be_taken_over_is_one_line(filled: pd.DataFrame, message: str) -> None:
    with pytest.raises(UserError, match=message):
        accept_translations(LABELS, filled)
