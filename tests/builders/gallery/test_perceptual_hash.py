"""Perceptual hashes: imagehash's bits, found for all eight turns at once."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from querytruth.array_types import GreyImage
from querytruth.backends.images.perceptual_hashes import (
    MAX_GREY_SIDE,
    PerceptualHash,
    _weights,
    compute_perceptual_hashes,
    dct_coefficients,
)

SIDE = 32


def turns(image: GreyImage) -> list[GreyImage]:
    """The image really turned: rotated 0, 90, 180, 270 degrees counter-clockwise, and its mirror image likewise."""
    return [np.rot90(side, quarter) for side in (image, np.fliplr(image)) for quarter in range(4)]


def blotches(seed: int, blur: int = 8) -> GreyImage:
    small = np.random.default_rng(seed).integers(0, 256, (blur, blur), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def look(image: GreyImage, turn: int = 0) -> PerceptualHash:
    return compute_perceptual_hashes(dct_coefficients(image, turn)[None])[0]


def hashes_of(image: GreyImage) -> list[int] | None:
    found = look(image)
    return None if found.phash is None or found.turned is None else [found.phash, *found.turned]


def test_the_bits_are_imagehash_s() -> None:
    imagehash = pytest.importorskip("imagehash", reason="the reference implementation is not installed")
    apart = 0
    for seed in range(300):
        image = blotches(seed, 4 + seed % 29)
        found = look(image).phash
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
        found = look(np.asarray(image)).phash
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


@given(st.integers(0, 10_000), st.integers(1, 70), st.integers(1, 70))
def test_a_turn_s_coefficients_are_the_turned_image_s(seed: int, height: int, width: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)
    for turn, turned in enumerate(turns(image)):
        assert (dct_coefficients(image, turn) == dct_coefficients(turned)).all(), turn


def test_many_at_once_are_what_each_is_alone() -> None:
    images = [blotches(seed) for seed in range(20)] + [np.full((SIDE, SIDE), 200, np.uint8)]
    low = np.array([dct_coefficients(image) for image in images])
    assert compute_perceptual_hashes(low) == [look(image) for image in images]
    assert compute_perceptual_hashes(low[:0]) == []
    for turn in range(8):
        alone = [dct_coefficients(image, turn) for image in images]
        assert (dct_coefficients(np.stack(images), turn) == alone).all(), turn


DOT = np.full((SIDE, SIDE), 33, np.uint8)
DOT[0, -1] = 0


@given(arrays(np.uint8, (SIDE, SIDE)))
@example(DOT)  # near the least that an image must show: all of its turns do, or none
def test_the_hash_of_a_turn_is_the_hash_of_the_turned_image(image: GreyImage) -> None:
    hashes = hashes_of(image)
    of_turned = [hashes_of(turned) for turned in turns(image)]
    if hashes is None:
        assert of_turned == [None] * 8
    else:
        assert hashes == [found[0] if found else None for found in of_turned]


@given(st.integers(0, 10_000))
def test_an_image_that_is_its_own_mirror_image_has_the_hash_of_its_mirror_image(seed: int) -> None:
    half = blotches(seed)[:, : SIDE // 2]
    hashes = hashes_of(np.hstack([half, np.fliplr(half)]))
    assert hashes is not None and hashes[0] == hashes[4], "bits of nothing but rounding errors would differ"


def test_what_shows_nothing_to_tell_it_by_has_no_hash() -> None:
    ramp = np.tile(np.arange(0, 256, 8, dtype=np.uint8), (SIDE, 1))
    nearly = 200 + np.random.default_rng(1).integers(0, 3, (SIDE, SIDE), dtype=np.uint8)
    for image in (np.full((SIDE, SIDE), 255, np.uint8), ramp, ramp.T, nearly):
        assert hashes_of(image) is None
    assert hashes_of(blotches(1)) is not None


def test_eight_turns_have_eight_hashes_far_apart() -> None:
    hashes = hashes_of(blotches(3))
    assert hashes is not None and len(set(hashes)) == 8
    assert min((one ^ two).bit_count() for n, one in enumerate(hashes) for two in hashes[:n]) > 10
    assert all(0 <= found < 2**64 for found in hashes)


def outline(image: GreyImage) -> np.ndarray[Any, np.dtype[np.int64]]:
    found = look(image).outline
    assert found is not None
    return np.frombuffer(found, np.int8).astype(np.int64)


def test_an_outline_tells_how_strong_the_frequencies_are() -> None:
    one, brighter, other = outline(blotches(1)), outline(blotches(1) // 2 + 90), outline(blotches(2))
    assert len(one) == 64 and one[0] == 0
    assert abs(np.sqrt(one @ one) - 127) < 3
    assert one @ brighter > 0.99 * 127**2, "neither brightness nor contrast counts"
    assert abs(one @ other) < 0.6 * 127**2
