"""Which texts of a log are one question, or none."""

import pytest

from builders.queries.log_texts import build_question_key, find_absurdity
from querytruth.sets.text_sieve import normalise_query


def test_case_width_punctuation_and_blanks_make_no_other_question() -> None:
    spellings = [
        "Dog on the beach",
        "ＤＯＧ on　the beach!",
        "dog  on the beach",
        "“dog on the beach”",
        "dog-on-the-beach",
    ]
    assert {build_question_key(normalise_query(one)) for one in spellings} == {"dog on the beach"}
    assert build_question_key(normalise_query("红色 自行车？")) == build_question_key("红色自行车")
    assert build_question_key("c++") != build_question_key("c")
    assert build_question_key("dgo on the beach") != build_question_key("dog on the beach")  # people type it


@pytest.mark.parametrize(
    ("text", "reason"),
    [(r"C:\a\b", "is_path"), ("?!…", "no_content"),
     ("a" * 12, "repeated_characters"), ("x " * 200, "too_long"), ("🐶", None), ("❤️", None), ("7", None)],
)  # fmt: skip
def test_absurd_texts_have_a_reason(text: str, reason: str | None) -> None:
    assert find_absurdity(normalise_query(text)) == reason
