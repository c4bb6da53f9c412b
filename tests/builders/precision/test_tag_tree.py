import pytest

from builders.precision.tag_tree import choose_article


@pytest.mark.parametrize("word", ["umbrella", "Apple", "orange", "urn", "hourglass", "heirloom", "unidentified object"])
def test_a_vowel_that_is_heard_has_an(word: str) -> None:
    assert choose_article(word) == "an"


@pytest.mark.parametrize(
    "word", ["car", "Unicycle", "used car", "utensil", "USB stick", "one-way sign", "house", "ewe"]
)
def test_a_consonant_that_is_heard_has_a(word: str) -> None:
    assert choose_article(word) == "a"
