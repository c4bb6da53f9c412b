"""What is new: strictly over the cut is not, whatever the batches and blocks, and what is near it is flagged."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.generated.object_pools import NoveltyFilter, NoveltyVerdict
from querytruth.array_types import Vectors
from querytruth.backends.models import nearest_neighbours
from querytruth.backends.models.embedders import char_ngrams

ANGLES = {
    "north": 0,
    "north too": 0,
    "nearly north": 30,
    "between": 22.5,
    "north east": 45,
    "east": 90,
    "far east": 93,
    "south": 180,
}


def compass(texts: Sequence[str]) -> Vectors:
    """Directions in a plane: a similarity is the cosine of the angle between."""
    angles = np.radians([ANGLES[text] for text in texts])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def test_what_is_too_close_to_the_pool_is_no_new_object_and_the_nearest_is_named() -> None:
    novelty = NoveltyFilter(compass, threshold=0.85)
    novelty.add(["north", "south"])
    assert novelty.classify(["nearly north", "east"]) == [NoveltyVerdict(False, 8660, "north"), NoveltyVerdict(True)]


def test_a_batch_is_judged_one_after_the_other() -> None:
    novelty = NoveltyFilter(compass, threshold=0.85)
    assert novelty.classify(["east", "far east", "north"]) == [
        NoveltyVerdict(True),
        NoveltyVerdict(False, 9986, "east"),
        NoveltyVerdict(True),
    ]
    assert novelty.classify(["far east"]) == [NoveltyVerdict(False, 9986, "east")]


def test_what_was_rejected_stands_in_nobody_s_way() -> None:
    novelty = NoveltyFilter(compass, threshold=0.8)
    novelty.add(["north"])
    assert [verdict.is_new for verdict in novelty.classify(["nearly north", "north east"])] == [False, True]


def test_the_cut_itself_still_passes_and_is_flagged_as_near() -> None:
    assert NoveltyFilter(compass, threshold=0.866).classify(["north", "nearly north"])[1] == NoveltyVerdict(
        True, 8660, "north"
    )
    assert NoveltyFilter(compass, threshold=0.8659).classify(["north", "nearly north"])[1] == NoveltyVerdict(
        False, 8660, "north"
    )
    assert NoveltyFilter(compass, threshold=0.9).classify(["north", "nearly north"])[1] == NoveltyVerdict(True), (
        "0.034 below is not near"
    )
    assert NoveltyFilter(compass, threshold=0.89).classify(["north", "nearly north"])[1] == NoveltyVerdict(
        True, 8660, "north"
    )


def test_of_equals_the_oldest_is_named() -> None:
    novelty = NoveltyFilter(compass, threshold=0.85)
    novelty.add(["south", "north", "north too"])
    assert novelty.classify(["nearly north"]) == [NoveltyVerdict(False, 8660, "north")]


def test_of_the_pool_and_the_batch_the_pool_is_the_older() -> None:
    novelty = NoveltyFilter(compass, threshold=0.92)
    novelty.add(["north"])
    assert novelty.classify(["north east", "between"]) == [NoveltyVerdict(True), NoveltyVerdict(False, 9239, "north")]


def test_nothing_is_encoded_before_a_question_and_each_text_once() -> None:
    encoded: list[str] = []

    def encode(texts: Sequence[str]) -> Vectors:
        encoded.extend(texts)
        return compass(texts)

    novelty = NoveltyFilter(encode, threshold=0.85)
    novelty.add(["north"])
    novelty.add(["south"])
    assert not encoded and novelty.classify([]) == [] and not encoded
    novelty.classify(["east"])
    novelty.classify(["nearly north"])
    assert encoded == ["north", "south", "east", "nearly north"]


def crowd(count: int, dimensions: int = 24, seed: int = 0) -> dict[str, Vectors]:
    """Rows of length one, many of them close to each other, with noise of single precision."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(count // 6, 1), dimensions))
    rows = centres[rng.integers(0, len(centres), count)] + rng.standard_normal((count, dimensions)) * 0.25
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return {f"text {number}": row for number, row in enumerate(rows)}


@pytest.mark.parametrize("block", [1, 700, 1 << 24])
@pytest.mark.parametrize("batch", [1, 5, 300])
def test_neither_batches_nor_blocks_change_a_verdict(block: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = crowd(300)

    def verdicts(block: int, batch: int) -> list[NoveltyVerdict]:
        monkeypatch.setattr(nearest_neighbours, "_PRODUCTS_PER_BLOCK", block)
        novelty = NoveltyFilter(lambda texts: np.stack([rows[text] for text in texts]), 0.85)
        texts = list(rows)
        novelty.add(texts[:50])
        return [v for at in range(50, 300, batch) for v in novelty.classify(texts[at : at + batch])]

    expected = verdicts(5000, 17)
    assert verdicts(block, batch) == expected
    assert 20 < sum(verdict.is_new for verdict in expected) < 230


def test_the_verdicts_are_those_of_comparing_all_with_all() -> None:
    rows = crowd(200, seed=3)
    found = NoveltyFilter(lambda texts: np.stack([rows[text] for text in texts]), 0.8).classify(list(rows))
    kept: list[str] = []
    for text, verdict in zip(rows, found, strict=True):
        scores = [round(float(rows[text].astype(float) @ rows[other].astype(float)) * 10_000) for other in kept]
        best = max(scores, default=-10_000)
        assert verdict.is_new == (best <= 8000)
        if best > 7700:
            assert (verdict.score, verdict.nearest) == (best, kept[scores.index(best)])
        else:
            assert (verdict.score, verdict.nearest) == (None, "")
        kept += [text] if verdict.is_new else []


@settings(max_examples=30)
@given(st.lists(st.text("红黄猫狗的小大", min_size=1, max_size=4), max_size=40), st.integers(1, 9))
def test_by_spelling_the_same_holds_for_any_words(words: list[str], batch: int) -> None:
    encode = char_ngrams.CharNgramEmbedder().encode_texts
    whole = NoveltyFilter(encode, 0.6).classify(words)
    parts = NoveltyFilter(encode, 0.6)
    assert [v for at in range(0, len(words), batch) for v in parts.classify(words[at : at + batch])] == whole


def test_texts_that_no_embedder_knows_apart_cost_no_more_memory_than_the_pool() -> None:
    novelty = NoveltyFilter(lambda texts: np.ones((len(texts), 4), np.float32) / 2, 0.85)
    novelty.add([f"text {number}" for number in range(5000)])
    assert novelty.classify(["another", "and another"]) == [NoveltyVerdict(False, 10_000, "text 0")] * 2
