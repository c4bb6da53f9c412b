"""How near a query is to another image: by words and by vectors, of which the spread is that of random pairs."""

import numpy as np
import pytest

from builders.recall.caption_index import CaptionIndex
from builders.recall.pair_features import CentredVectors, PairFeatures
from querytruth.backends.models.embedders.char_ngrams import CharNgramEmbedder
from tests.builders.recall.test_caption_index import index

CAPTIONS = {
    "a": ["a red kite over the beach", "a child by the sea"],
    "b": ["a child by the sea", "a red kite over the beach"],
    "c": ["a bench", "a kite"],
    "d": ["two dogs run"],
}


def measure(query: int, answer: int) -> dict[str, float]:
    answers = index(CAPTIONS)
    vectors = CharNgramEmbedder().encode_texts(answers.texts.tolist())
    pairs = PairFeatures(answers, CaptionIndex(answers), vectors)
    return dict(zip(pairs.names, pairs.measure(np.array([query]), np.array([answer]))[0].tolist(), strict=True))


def test_words_that_are_missing_or_shared_are_counted_and_rare_ones_weigh_more() -> None:
    same, other = measure(0, 1), measure(0, 2)
    assert (same["covered"], same["missing"], same["shared"]) == (1, 0, 1)
    assert other["missing"] == 3 and 0 < other["covered"] < 1 / 3, "kite is said of three images, red and beach of two"
    assert same["captions"] == pytest.approx(np.log(2), abs=1e-4) and measure(0, 3)["captions"] == 0
    assert measure(5, 3)["covered"] == 0


def test_cosines_are_those_of_numpy() -> None:
    answers = index(CAPTIONS)
    vectors = CharNgramEmbedder().encode_texts(answers.texts.tolist())
    centred = vectors - vectors.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    spread = CentredVectors(vectors).spread
    sums = [centred[:2].sum(axis=0), centred[4:6].sum(axis=0)]
    expected = [(centred[4:6] @ centred[0]).max(), sums[0] @ sums[1] / np.prod([np.linalg.norm(one) for one in sums])]
    found = measure(0, 2)
    assert [found["nearest"] * spread, found["images"] * spread] == pytest.approx(expected, abs=2e-3)


def test_unrelated_vectors_of_one_cone_have_cosines_near_zero_and_a_spread_of_one() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((500, 32)).astype(np.float32) + 3
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (vectors @ vectors.T).mean() > 0.8
    centred = CentredVectors(vectors)
    rows = np.arange(500)
    cosines = (centred[rows] @ centred[rows].T)[np.triu_indices(500, 1)]
    assert abs(cosines.mean()) < 0.01 and cosines.std() == pytest.approx(centred.spread, rel=0.05)


def test_a_zero_vector_stays_zero() -> None:
    vectors = np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float32)
    assert CentredVectors(vectors)[np.array([0])].tolist() == [[0, 0]]
