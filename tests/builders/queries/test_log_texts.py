"""What looks private in a query, what only looks like it, and which texts are one question, or none."""

import pytest

from builders.queries.log_texts import (
    build_question_key,
    find_absurdity,
    find_private_kind,
    normalise_query,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("photos of anna.b@mail.example.org", "email"),
        ("anna (at) example (dot) org", "email"),
        ("４１１１ １１１１ １１１１ １１１１", "card_number"),  # full-width digits
        ("4111-1111-1111-1111", "card_number"),
        ("身份证 11010519491231002X", "id_number"),
        ("078-05-1120", "id_number"),
        ("DE89 3704 0044 0532 0130 00", "id_number"),
        ("打电话 138 0013 8000", "telephone"),
        ("+49 30 1234567", "telephone"),
        ("010-62345678", "telephone"),
        ("password: hunter22", "secret"),
        ("sk-abcdefghijkl1234567890", "secret"),
        ("aK3hG7bN2mQ9xR5tY8wZ1c", "secret"),
        ("order 123456789012", "long_number"),
    ],
)
def test_private_texts_have_a_reason(text: str, kind: str) -> None:
    assert find_private_kind(normalise_query(text)) == kind


@pytest.mark.parametrize(
    "text", ["1920x1080 wallpaper", "iphone 13 pro", "2019-2020", "red car 1967", "cat at the beach", "4111 1111 1111",
             "password icon", "antidisestablishmentarianism", "10,000 steps", "3.14159265"],
)  # fmt: skip
def test_harmless_texts_have_none(text: str) -> None:
    assert find_private_kind(text) is None


def test_a_kind_that_a_definition_leaves_out_is_let_through() -> None:
    assert find_private_kind("part 123456789", ["email"]) is None


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
    [("https://example.com/a", "is_url"), ("www.example.com", "is_url"), (r"C:\a\b", "is_path"), ("?!…", "no_content"),
     ("a" * 12, "repeated_characters"), ("x " * 200, "too_long"), ("🐶", None), ("❤️", None), ("7", None)],
)  # fmt: skip
def test_absurd_texts_have_a_reason(text: str, reason: str | None) -> None:
    assert find_absurdity(normalise_query(text)) == reason
