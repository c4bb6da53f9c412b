"""Perceptual hashes: imagehash's bits."""

import numpy as np
import pytest
from PIL import Image

from querytruth.array_types import GreyImage
from querytruth.backends.images.perceptual_hashes import (
    MAX_GREY_SIDE,
    _weights,
    compute_perceptual_hashes,
    dct_coefficients,
)

SIDE = 32


def blotches(seed: int, blur: int = 8) -> GreyImage:
    small = np.random.default_rng(seed).integers(0, 256, (blur, blur), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def look(image: GreyImage) -> int | None:
    return compute_perceptual_hashes(dct_coefficients(image)[None])[0]


def test_the_bits_are_imagehash_s() -> None:
    imagehash = pytest.importorskip("imagehash", reason="the reference implementation is not installed")
    apart = 0
    for seed in range(300):
        image = blotches(seed, 4 + seed % 29)
        found = look(image)
        assert found is not None
        apart += (found ^ int(str(imagehash.phash(Image.fromarray(image))), 16)).bit_count()
    assert apart <= 2, "of 19,200, for what lies right beside the median"


def test_an_image_of_any_size_has_the_hash_that_imagehash_finds() -> None:
    """Which rounds its resized image to whole grey levels, once across and once down; ours is not rounded."""
    imagehash = pytest.importorskip("imagehash", reason="the reference implementation is not installed")
    apart = []
    for seed in range(100):
        width, height = np.random.default_rng(seed).integers(20, MAX_GREY_SIDE + 1, 2).tolist()
        image = Image.fromarray(blotches(seed, 12)).resize((width, height), Image.Resampling.BICUBIC)
        found = look(np.asarray(image))
        assert found is not None
        apart.append((found ^ int(str(imagehash.phash(image)), 16)).bit_count())
    assert max(apart) <= 2 and sum(apart) <= 40


@pytest.mark.parametrize("side", [1, 2, 31, 32, 33, 160, 319, MAX_GREY_SIDE])
def test_every_sum_is_a_whole_number_that_single_precision_holds(side: int) -> None:
    """So that no processor's order of summing makes a difference."""
    weights = _weights(side).astype(np.float64)
    assert (weights == np.rint(weights)).all()
    assert 255 * np.maximum(weights, 0).sum(axis=1).max() < 2**24
    assert 255 * np.maximum(-weights, 0).sum(axis=1).max() < 2**24
    image = np.random.default_rng(side).integers(0, 256, (side, 50), dtype=np.uint8)
    exact = weights.astype(np.int64) @ image @ _weights(50).astype(np.int64).T
    assert (dct_coefficients(image) == exact.ravel()).all()


def test_many_at_once_are_what_each_is_alone() -> None:
    images = [blotches(seed) for seed in range(20)] + [np.full((SIDE, SIDE), 200, np.uint8)]
    low = np.array([dct_coefficients(image) for image in images])
    assert compute_perceptual_hashes(low) == [look(image) for image in images]
    assert compute_perceptual_hashes(low[:0]) == []
    assert (dct_coefficients(np.stack(images)) == low).all()


def test_what_shows_nothing_to_tell_it_by_has_no_hash() -> None:
    ramp = np.tile(np.arange(0, 256, 8, dtype=np.uint8), (SIDE, 1))
    nearly = 200 + np.random.default_rng(1).integers(0, 3, (SIDE, SIDE), dtype=np.uint8)
    for image in (np.full((SIDE, SIDE), 255, np.uint8), ramp, ramp.T, nearly):
        assert look(image) is None
    assert look(blotches(1)) is not None
