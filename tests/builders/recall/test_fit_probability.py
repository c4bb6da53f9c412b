"""The probability that a caption fits another image: fitted to what people said, and only used where it applies. Its
features: words, and vectors, of which the spread is that of random pairs.
"""

from pathlib import Path

import numpy as np
import pytest

from builders.recall.caption_index import CaptionIndex, build_answer_index
from builders.recall.caption_words import ValueReader
from builders.recall.confusable_images import ConfusableRules, find_confusable_images
from builders.recall.fit_probability import LINES_FILE, MEASURES, CentredVectors, PairFeatures, choose_line, read_lines
from querytruth.array_types import Vectors
from querytruth.backends.models.embedders.char_ngrams import CharNgramEmbedder
from querytruth.errors import UserError
from tests.builders.recall.album_captions import index_captions, make_captioned_album

LINES, _ = read_lines()
CAPTIONS = {
    "a": ["a red kite over the beach", "a child by the sea"],
    "b": ["a child by the sea", "a red kite over the beach"],
    "c": ["a bench", "a kite"],
    "d": ["two dogs run"],
}


def test_shipped_lines_state_what_they_were_fitted_to_and_hold_on_other_pairs() -> None:
    assert [(one.language, one.compares_spelling) for one in LINES] == [("en", False), ("en", True), ("zh", True)]
    for one in LINES:
        assert one.fitted_on["pairs"] == 5664 and one.fitted_on["fit"] == 671 and one.fitted_on["licence"]
        assert one.fitted_on["unselected"]["pairs"] == {"en": 540, "zh": 300}[one.language]
        assert list(one.weights) == [*MEASURES, *(f"other_{group}" for group in ValueReader().groups)]
        assert one.weights["missing"] < 0 < one.weights["images"] and one.weights["other_kind"] < -1
        assert one.covered >= 0.9
        highest = one.reliability[-1]
        assert highest["from"] == 0.9 and highest["observed"] > 0.85


def test_probabilities_are_those_of_the_logistic_function() -> None:
    captions = {f"img{number}": [f"a {word} by the {word}"] for number, word in enumerate(["dog", "cat", "kite"])}
    answers = index_captions(captions)
    vectors = CharNgramEmbedder().encode_texts(answers.texts.tolist())
    pairs = PairFeatures(answers, CaptionIndex(answers), vectors)
    chosen = np.array([0, 1]), np.array([1, 2])
    features = pairs.measure(*chosen)
    log_odds = features @ np.array(list(LINES[1].weights.values())) + LINES[1].intercept
    expected = 1 / (1 + np.exp(-log_odds))
    assert LINES[1].compute_probabilities(pairs, *chosen) == pytest.approx(expected, abs=1e-4)


def test_a_line_is_of_its_language_and_of_its_kind_of_embedder_where_there_is_one() -> None:
    assert choose_line(LINES, "fr", compares_spelling=False) is None
    assert choose_line(LINES, "en", compares_spelling=False) is LINES[0]
    assert choose_line(LINES, "zh", compares_spelling=False) is LINES[2]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_captions_from_templates_are_not_scored_by_what_people_said_of_written_ones(language: str) -> None:
    album = make_captioned_album(language)
    vectors = CharNgramEmbedder().encode_texts(album.queries["text"].tolist())
    rules = ConfusableRules(lines=tuple(LINES), compares_spelling=True)
    answers = build_answer_index(album.queries, album.qrels, album.images, None)
    assert len(answers.texts) > 100
    found = find_confusable_images(album.queries, album.qrels, album.images, rules, vectors)
    assert str(found.lines[language]).startswith("unrelated images share more words than in the fitted data")
    some = slice(0, 20)
    few = find_confusable_images(album.queries[some], album.qrels[some], album.images, rules, vectors[some])
    assert few.lines[language] == "fewer than 30 captions"


def test_a_broken_file_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "lines.json").write_text(LINES_FILE.read_text("utf-8")[:-20], "utf-8")
    with pytest.raises(UserError, match="does not contain valid fitted lines"):
        read_lines(tmp_path / "lines.json")


def measure(query: int, answer: int) -> dict[str, float]:
    answers = index_captions(CAPTIONS)
    vectors = CharNgramEmbedder().encode_texts(answers.texts.tolist())
    pairs = PairFeatures(answers, CaptionIndex(answers), vectors)
    return dict(zip(pairs.names, pairs.measure(np.array([query]), np.array([answer]))[0].tolist(), strict=True))


def test_words_that_are_missing_are_counted_and_rare_ones_weigh_more() -> None:
    same, other = measure(0, 1), measure(0, 2)
    assert (same["covered"], same["missing"]) == (1, 0)
    assert other["missing"] == 3 and 0 < other["covered"] < 1 / 3, "kite is said of three images, red and beach of two"
    assert same["captions"] == pytest.approx(np.log(2), abs=1e-4) and measure(0, 3)["captions"] == 0
    assert measure(5, 3)["covered"] == 0


def centre(vectors: Vectors) -> Vectors:
    centred = vectors - vectors.mean(axis=0)
    result: Vectors = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return result


def test_the_cosine_of_two_images_is_that_of_their_mean_captions_in_units_of_the_spread() -> None:
    vectors = CharNgramEmbedder().encode_texts(index_captions(CAPTIONS).texts.tolist())
    means = centre(
        np.stack([vectors[:2].mean(axis=0), vectors[2:4].mean(axis=0), vectors[4:6].mean(axis=0), vectors[6]])
    )
    cosines = (centre(vectors) @ centre(vectors).T)[~np.eye(7, dtype=bool)]
    assert measure(0, 2)["images"] == pytest.approx(means[0] @ means[2] / cosines.std(), abs=2e-3)


def test_unrelated_vectors_of_one_cone_have_cosines_near_zero_and_a_spread_of_one() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((500, 32)).astype(np.float32) + 3
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (vectors @ vectors.T).mean() > 0.8
    left, right = np.triu_indices(500, 1)
    cosines = CentredVectors(vectors).compare(left, right)
    assert abs(cosines.mean()) < 0.05 and cosines.std() == pytest.approx(1, rel=0.05)


def test_a_zero_vector_stays_zero_and_is_nobodys_neighbour() -> None:
    vectors = CentredVectors(np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float32))
    assert vectors.vectors[0].tolist() == [0, 0]
    assert set(vectors.find_nearest(np.array([1, 2]), 3, 1)[1].tolist()) == {1, 2}
