"""The answers that cover a query are found by an index, and are the same as those of all comparisons."""

import random

import numpy as np
import pandas as pd
import pytest

from builders.recall import confusable_images, confusable_scores
from builders.recall.caption_index import CaptionIndex, PhraseIndex, build_answer_index
from builders.recall.confusable_scores import CandidateCosines, ConfusableRules, QueryImageVectors
from builders.recall.phrases import find_missing_units, parse_phrases
from querytruth.array_types import FloatArray, RowIndices, Vectors
from querytruth.backends.models.nearest_neighbours import pair_cosines


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
    query, answer = (side.ravel() for side in np.meshgrid(np.arange(300), np.arange(100), indexing="ij"))
    mixed = np.random.default_rng(0).permutation(len(query))
    covered = index.are_covered(query[mixed], answer[mixed])
    others = answer[mixed] != query[mixed] // 3
    assert sorted(zip(*(side[mixed][covered & others].tolist() for side in (query, answer)), strict=True)) == expected
    assert not covered[[not index.query_phrases[one] for one in query[mixed]]].any()


def test_captions_are_compared_where_they_decide_an_order_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of candidates is that of all cosines; those of pairs that nothing ties are not computed."""
    texts = [f"a {colour} {thing}" for colour in ("red", "blue", "white") for thing in ("cup", "dog", "car", "hat")]
    queries = pd.DataFrame({"query_id": [f"q{n:02}" for n in range(12)], "text": texts})
    images = pd.DataFrame({"image_id": [f"i{n:02}" for n in range(12)], "duplicate_group": None})
    qrels = pd.DataFrame({"query_id": queries["query_id"], "image_id": images["image_id"], "relevance": 1})
    answers = build_answer_index(queries, qrels, images, None)
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((12, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    query, answer = (side.ravel() for side in np.meshgrid(np.arange(12), np.arange(12), indexing="ij"))
    score, rank_values = draw.integers(0, 3, (2, len(query))) / 2
    monkeypatch.setattr(confusable_scores, "pair_cosines", counted := CountedCosines())
    whole = CandidateCosines(answers, QueryImageVectors(vectors), query, answer)
    rules = ConfusableRules(min_score=0.9, candidate_score=0.6)
    rank = confusable_images._rank_candidates(whole, rules, score, rank_values)
    assert 0 < counted.pairs < len(query)
    likely = np.where(score >= 0.9, score, np.where(score >= 0.6, 0.0, -1.0))
    order = np.lexsort((answer, -whole.caption_cosine, -score, -rank_values, -likely, query))
    assert rank[order].tolist() == list(range(12)) * 12
    picked = whole.pick(rank < 5)
    assert np.array_equal(picked.caption_cosine, whole.caption_cosine[rank < 5])


class CountedCosines:
    """pair_cosines, with the number of pairs that it was asked for."""

    def __init__(self) -> None:
        self.pairs = 0

    def __call__(self, one: Vectors, other: Vectors, left: RowIndices, right: RowIndices) -> FloatArray:
        self.pairs += len(left)
        return pair_cosines(one, other, left, right)
