"""A cut on a cosine belongs to its embedder."""

import numpy as np
import pytest

from querytruth.array_types import Vectors
from querytruth.errors import UserError
from querytruth.sets.image_vectors import (
    CosineBackground,
    check_cosine_cut,
    measure_cosine_background,
    measure_image_background,
)


def texts(shift: float, count: int = 120) -> Vectors:
    """Unit vectors of unrelated texts; a shift puts all of them into one cone, as some models do."""
    rows = np.random.default_rng(0).standard_normal((count, 64)) + shift
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def background_of(vectors: Vectors) -> CosineBackground:
    background = measure_cosine_background(vectors)
    assert background is not None
    return background


def test_the_same_cut_is_fine_for_one_model_and_refused_for_another() -> None:
    spread, cone = background_of(texts(0)), background_of(texts(2.4))
    assert abs(spread.median) < 0.05 and cone.median > 0.8
    check_cosine_cut("load embedder", "objects.novelty", 0.85, spread, "all-MiniLM-L6-v2")
    with pytest.raises(UserError, match=r"0\.85 is in the range of random pairs of e5: their median is 0\.8"):
        check_cosine_cut("load embedder", "objects.novelty", 0.85, cone, "e5")


def test_a_derived_cut_lies_outside_of_the_background() -> None:
    for shift in (0, 1, 2.4, 10):
        background = background_of(texts(shift))
        cut = background.derive_cut()
        assert background.high < cut < 1
        check_cosine_cut("load embedder", "objects.novelty", cut, background, "any")


def test_few_texts_have_no_background() -> None:
    assert measure_cosine_background(texts(0, 19)) is None
    check_cosine_cut("load embedder", "objects.novelty", 0.1, None, "any")


def test_bursts_of_images_are_no_background_and_a_model_that_finds_all_alike_is_refused() -> None:
    places = np.repeat(texts(0, 12), 10, axis=0)  # 12 bursts of 10 images: 8% of the pairs are alike
    bursts = measure_image_background(places)
    assert bursts is not None and bursts.high < 0.5
    check_cosine_cut("embed images", "near_duplicates.cosine", 0.95, bursts, "clip")
    cone = measure_image_background(texts(10))
    with pytest.raises(UserError, match=r"more than 10% of them exceed 0\.99"):
        check_cosine_cut("embed images", "near_duplicates.cosine", 0.95, cone, "untrained")
    assert measure_image_background(texts(10, 99)) is None
