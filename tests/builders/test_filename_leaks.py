"""File names in which a query's words stand."""

import pytest

from builders.lint import find_leaking_file_names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("dog", "my_dog_01.jpg"),
        ("dog", "DOGS.png"),
        ("A dog on the beach.", "2024/a-dog-on-the-beach (3).jpg"),
        ("T-shirt", "t_shirt.jpg"),
        ("狗", "狗001.jpg"),
        ("三只狗", "海边的三只狗.jpg"),
        ("穿T恤的人", "穿T恤的人2.png"),
        ("Straße", "strasse.jpg"),
    ],
)
def test_a_name_that_holds_the_text(text: str, name: str) -> None:
    assert find_leaking_file_names([text, "nothing of it"], ["0001.jpg", name]) == [name]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("dog", "hotdogma.jpg"),
        ("a dog", "a-brown-dog.jpg"),
        ("cat", "cattle.jpg"),
        ("tv", "tv.jpg"),
        ("狗", "dog.jpg"),
        ("三只狗", "三只猫.jpg"),
        ("12", "12.jpg"),
        ("", ".jpg"),
        ("...", "....jpg"),
        ("a dog on the beach that runs", "a dog.jpg"),
    ],
)
def test_a_name_that_does_not(text: str, name: str) -> None:
    assert find_leaking_file_names([text], [name]) == []


def test_many_long_texts_are_no_burden() -> None:
    texts = [f"a brown dog runs along the beach at the place that has the name {n:x}" for n in range(100_000)]
    assert find_leaking_file_names([*texts, "狗" * 300], [f"{n:06}.jpg" for n in range(20_000)]) == []
