"""What captions of many images say is found by an index, and is the same as what all comparisons find."""

import random

import numpy as np
import pandas as pd
import pytest

from builders.recall.caption_index import CaptionIndex
from builders.recall.caption_words import parse_phrases, say_all
from tests.builders.recall.album_captions import index_captions


def test_the_index_finds_what_all_comparisons_find() -> None:
    draw = random.Random(0)
    words = ["a red dog", "two dogs", "a dog", "a brown cat", "the park", "a red kite", "one", "三只狗", "红色的狗"]
    texts = {
        f"img{number:02}": [", ".join(draw.sample(words, draw.randint(1, 4))) for _ in range(2)] for number in range(40)
    }
    answers = index_captions(texts)
    captions = CaptionIndex(answers)
    said = [[phrase for text in texts[image] for phrase in parse_phrases(text)] for image in answers.image_ids]
    expected = {
        (query, answer)
        for query, text in enumerate(answers.texts)
        for answer in range(answers.count)
        if answer != answers.own_answer[query] and say_all(said[answer], parse_phrases(text))
    }
    queries = np.arange(len(answers.texts))
    found = answers.pairs_of_keys(captions.find_covering(queries, 99))
    assert set(zip(*(side.tolist() for side in found), strict=True)) == expected and len(expected) > 20
    first, _ = answers.pairs_of_keys(captions.find_covering(queries, 1))
    assert first.tolist() == sorted({query for query, _ in expected})


def test_descriptions_say_what_captions_leave_out_and_are_no_caption() -> None:
    answers = index_captions({"a": ["a dog in the park"], "b": ["a dog"]})
    described = pd.DataFrame({"image_id": ["b", "gone"], "text": ["a dog in the park and a bench", "nothing"]})
    captions = CaptionIndex(answers, described)
    assert answers.pairs_of_keys(captions.find_covering(np.array([0]), 9)) == (0, 1)
    assert (captions.answer_words.toarray().sum(axis=1) == [2, 1]).all(), "of captions alone, to which lines are fitted"
    assert captions.find_closest_text(0, 1) == ("a dog in the park and a bench", -1, [])
    assert CaptionIndex(answers).find_closest_text(0, 1) == ("a dog", 1, ["park"])


def test_the_background_is_the_mean_cosine_of_what_two_images_say() -> None:
    answers = index_captions({"a": ["a red dog"], "b": ["a red cat"], "c": ["a boat"]})
    captions = CaptionIndex(answers)
    rows = captions.answer_words.toarray() * captions.rarity
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert captions.measure_background() == pytest.approx((rows @ rows.T)[np.triu_indices(3, 1)].mean(), abs=1e-4)
    assert CaptionIndex(index_captions({"a": ["a dog"]})).measure_background() == 1, "one image has no other"


def test_a_group_is_contradicted_where_captions_state_only_other_values() -> None:
    answers = index_captions(
        {"a": ["two black dogs in the snow"], "b": ["three white dogs"], "c": ["dogs", "black dogs on sand"]}
    )
    captions = CaptionIndex(answers)
    groups = list(captions.values.groups)

    def contradicted(query: int, answer: int) -> set[str]:
        found = captions.contradict(np.array([query]), np.array([answer]))[0]
        return {group for group, one in zip(groups, found.tolist(), strict=True) if one}

    assert contradicted(0, 1) == {"number", "colour"}
    assert contradicted(0, 2) == {"place"}
    assert captions.refute(np.array([0, 1, 2]), np.array([2, 0, 0])).tolist() == [True, True, False]
