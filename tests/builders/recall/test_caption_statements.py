"""Two dogs are not three, a black dog is not a white one, and snow is not sand."""

import numpy as np
import pandas as pd
import pytest

from builders.recall.caption_index import build_answer_index
from builders.recall.caption_statements import StatementIndex, list_statements


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Two black dogs run in the snow.", {"count dog 2", "colour dog black", "place snow"}),
        (
            "A man in red walks his tan dog.",
            {"count person 1", "count dog 1", "colour clothes red", "colour dog brown"},
        ),
        ("a man and a woman", {"count person 2"}),
        ("dogs", {"count dog 2", "count dog 3", "count dog 4"}),
        ("两只黑色的狗在雪地里跑", {"count dog 2", "colour dog black", "place snow"}),
        ("一个穿红色衣服的男人", {"count person 1", "colour clothes red"}),
    ],
)
def test_counts_colours_and_places_are_read(text: str, stated: set[str]) -> None:
    assert list_statements(text) == stated


def contradictions(query: str, captions: list[str]) -> dict[str, float]:
    texts = [query, *captions]
    ids = [f"q{number}" for number in range(len(texts))]
    queries = pd.DataFrame({"query_id": ids, "text": texts})
    qrels = pd.DataFrame({"query_id": ids, "image_id": ["own", *["other"] * len(captions)], "relevance": 1})
    images = pd.DataFrame({"image_id": ["other", "own"], "duplicate_group": None})
    measured = StatementIndex(build_answer_index(queries, qrels, images, None)).measure(np.array([0]), np.array([0]))
    return {name.removesuffix("_contradiction"): float(column[0]) for name, column in measured.items()}


@pytest.mark.parametrize(
    ("query", "captions", "expected"),
    [
        ("two dogs play", ["three dogs play", "three dogs"], {"count": 1.0}),
        ("dogs play", ["three dogs play"], {}),
        ("a black dog runs", ["a white dog runs", "a dog runs"], {"colour": 0.5}),
        ("a black dog runs", ["a black and white dog runs"], {}),
        ("a dog in the snow", ["a dog on the sand", "a dog at the beach"], {"place": 1.0}),
        ("a dog in the snow", ["a dog runs"], {}),
        ("两只狗在草地上", ["一只狗在雪地里"], {"count": 1.0, "place": 1.0}),
    ],
)
def test_another_count_colour_or_place_contradicts_and_silence_does_not(
    query: str, captions: list[str], expected: dict[str, float]
) -> None:
    assert contradictions(query, captions) == {"count": 0.0, "colour": 0.0, "place": 0.0} | expected
