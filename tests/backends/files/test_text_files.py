"""Text files of publishers: the language of a text, by its letters."""

import pytest

from querytruth.backends.files.text_formats import detect_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("red car", "en"),
        ("une voiture rouge à côté", "en"),
        ("红色汽车", "zh"),
        ("一辆 BMW 汽车", "zh"),
        ("欧文・斯通的书", "zh"),
        ("赤い車", "ja"),
        ("빨간 차", "ko"),
        ("красная машина", "ru"),
        ("سيارة حمراء", "ar"),
        ("🐶 7", "und"),
        ("2024", "und"),
    ],
)
def test_the_language_is_that_of_the_letters(text: str, language: str) -> None:
    assert detect_language(text) == language
