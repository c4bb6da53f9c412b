"""The answers that cover a query are found by an index, and are the same as those of all comparisons."""

import random

import numpy as np
import pandas as pd

from builders.recall.caption_index import CaptionIndex, PhraseIndex, build_answer_index
from builders.recall.phrases import find_missing_units, parse_phrases


def test_an_answer_has_the_units_with_the_head_that_they_belong_to() -> None:
    said = ["a brown dog in the park", "a brown horse and a black dog", "two brown dogs", "a cat"]
    index = PhraseIndex([parse_phrases(text) for text in said])
    found = {
        text: index.find_answers(parse_phrases(text)).tolist() for text in ("a brown dog", "a dog", "the", "a bird")
    }
    assert found == {"a brown dog": [0, 2], "a dog": [0, 1, 2], "the": [], "a bird": []}


def test_the_index_finds_what_all_comparisons_find() -> None:
    draw = random.Random(0)
    words = ["a", "red", "brown", "two", "dog", "dogs", "man", "in", "the", "park", "snow", "and", "on"]
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 7))) for _ in range(300)]
    queries = pd.DataFrame({"query_id": [f"q{n:03d}" for n in range(300)], "text": texts})
    images = pd.DataFrame({"image_id": [f"i{n:03d}" for n in range(100)], "duplicate_group": None})
    qrels = pd.DataFrame({"query_id": queries["query_id"], "image_id": [f"i{n // 3:03d}" for n in range(300)]})
    answers = build_answer_index(queries, qrels.assign(relevance=1), images, None)
    index = CaptionIndex(answers, None)
    query, answer = index.find_covered_pairs(answers.judged_keys, 1000)
    expected = [
        (one, other)
        for one, phrases in enumerate(index.query_phrases)
        for other in range(100)
        if phrases and other != one // 3 and not find_missing_units(phrases, index.answer_phrases[other])
    ]
    assert len(expected) > 100
    assert list(zip(query.tolist(), answer.tolist(), strict=True)) == expected
    first, _ = index.find_covered_pairs(answers.judged_keys, 1)
    assert first.tolist() == np.unique([one for one, _ in expected]).tolist()
