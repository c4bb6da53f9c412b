"""What is proposed for some queries at a time is what is proposed for all at once."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from builders.recall.candidate_pairs import VectorProposals, WordProposals
from builders.recall.caption_index import AnswerIndex, CaptionIndex, build_answer_index
from builders.recall.confusable_images import find_confusable_images
from builders.recall.confusable_scores import QueryImageVectors
from querytruth.array_types import Vectors
from tests.builders.recall.album_captions import source_pairs
from tests.builders.recall.test_ambiguity import RULES, plane, world

PARTS = [(start, min(start + 7, 40)) for start in range(0, 40, 7)]


def two_captions_an_image() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """40 captions; the first 20 of 40 images have two each."""
    queries, _, images = world({f"{n:02}": f"thing number{n} of kind{n % 9}" for n in range(40)}, language="en")
    image_ids = list(images["image_id"])
    return queries, source_pairs(list(queries["query_id"]), [*image_ids[:20], *image_ids[:20]]), images


def test_each_measure_proposes_the_same_for_some_queries_as_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = build_answer_index(*two_captions_an_image(), None)
    vectors = plane(*np.random.default_rng(3).integers(0, 360, 40))
    whole = [set(np.concatenate(one.propose(0, 40, 2))) for one in measures(answers, vectors)]
    monkeypatch.setattr("builders.recall.candidate_pairs._QUERIES_AT_ONCE", 7)
    assert whole == [
        {key for part in PARTS for keys in one.propose(*part, 2) for key in keys} for one in measures(answers, vectors)
    ]
    assert all(40 < len(keys) < 40 * 20 for keys in whole)


def measures(answers: AnswerIndex, vectors: Vectors) -> list[WordProposals | VectorProposals]:
    return [WordProposals(answers), VectorProposals(answers, vectors, 1)]


def test_pairs_that_the_words_cover_are_the_same_for_some_queries_as_for_all() -> None:
    queries, qrels, images = two_captions_an_image()
    answers = build_answer_index(queries.assign(text=[f"a ball{n % 9}" for n in range(40)]), qrels, images, None)
    index = CaptionIndex(answers, None)
    whole, *parts = (
        np.stack(index.find_covered_pairs(answers.judged_keys, 99, range(*part))) for part in [(0, 40), *PARTS]
    )
    assert whole.shape[1] > 100
    assert np.concatenate(parts, axis=1).tolist() == whole.tolist()


@pytest.mark.parametrize("candidates", [0, 3])
@pytest.mark.parametrize("spaces", ["captions", "images", "queries images"])
def test_what_is_found_does_not_depend_on_how_many_queries_are_searched_at_once(
    spaces: str, candidates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, qrels, images = two_captions_an_image()
    rng = np.random.default_rng(3)
    sight = QueryImageVectors(**{space: plane(*rng.integers(0, 90, 40)) for space in spaces.split()})
    rules = replace(RULES, candidate_count=candidates, max_listed=40)
    whole = find_confusable_images(queries, qrels, images, rules, sight)
    monkeypatch.setattr("builders.recall.candidate_pairs._QUERIES_AT_ONCE", 7)
    in_parts = find_confusable_images(queries, qrels, images, rules, sight)
    assert len(whole.candidates) > 100
    pd.testing.assert_frame_equal(in_parts.candidates, whole.candidates)


def test_what_is_found_in_two_languages_is_what_is_found_in_each() -> None:
    queries, qrels, images = two_captions_an_image()
    queries["language"] = ["zh" if n % 3 else "en" for n in range(40)]
    rng = np.random.default_rng(3)
    captions, seen, of_images = (plane(*rng.integers(0, 90, 40)) for _ in range(3))
    rules = replace(RULES, candidate_count=3, max_listed=40)
    mixed, shuffled = rng.permutation(40), rng.permutation(40)
    sight = QueryImageVectors(captions[mixed], seen[mixed], of_images[shuffled])
    both = find_confusable_images(queries.iloc[mixed], qrels, images.iloc[shuffled], rules, sight).candidates
    parts = []
    for language in ("en", "zh"):
        rows = np.flatnonzero(queries["language"] == language)
        some, sight = queries.iloc[rows], QueryImageVectors(captions[rows], seen[rows], of_images)
        of_some = qrels[qrels["query_id"].isin(some["query_id"])]
        parts.append(find_confusable_images(some, of_some, images, rules, sight).candidates)
    order = ["query_id", "image_id"]
    each = pd.concat(parts).sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(both.sort_values(order, ignore_index=True), each)
