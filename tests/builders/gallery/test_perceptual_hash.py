"""Perceptual hashes: imagehash's bits, found for all eight turns at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from builders.gallery.perceptual_hash import SIDE, coefficients, outline, perceptual_hashes

Grey = np.ndarray[Any, np.dtype[np.uint8]]


def turns(picture: Grey) -> list[Grey]:
    """The picture really turned: rotated 0, 90, 180, 270 degrees counter-clockwise, and its mirror image likewise."""
    return [np.rot90(side, quarter) for side in (picture, np.fliplr(picture)) for quarter in range(4)]


def blotches(seed: int, blur: int = 8) -> Grey:
    small = np.random.default_rng(seed).integers(0, 256, (blur, blur), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def hashes_of(picture: Grey) -> list[int] | None:
    return perceptual_hashes(coefficients(picture))


def test_the_bits_are_imagehash_s() -> None:
    imagehash = pytest.importorskip("imagehash", reason="the reference implementation is not installed")
    for seed in range(300):
        picture = blotches(seed, 4 + seed % 29)
        hashes = hashes_of(picture)
        assert hashes is not None
        assert f"{hashes[0]:016x}" == str(imagehash.phash(Image.fromarray(picture))), seed


DOT = np.full((SIDE, SIDE), 33, np.uint8)
DOT[0, -1] = 0


@given(arrays(np.uint8, (SIDE, SIDE)))
@example(DOT)  # near the least that a picture must show: all of its turns do, or none
def test_the_hash_of_a_turn_is_the_hash_of_the_turned_picture(picture: Grey) -> None:
    hashes = hashes_of(picture)
    of_turned = [hashes_of(turned) for turned in turns(picture)]
    if hashes is None:
        assert of_turned == [None] * 8
    else:
        assert hashes == [found[0] if found else None for found in of_turned]


@given(st.integers(0, 10_000))
def test_a_picture_that_is_its_own_mirror_image_has_the_hash_of_its_mirror_image(seed: int) -> None:
    half = blotches(seed)[:, : SIDE // 2]
    hashes = hashes_of(np.hstack([half, np.fliplr(half)]))
    assert hashes is not None and hashes[0] == hashes[4], "bits of nothing but rounding errors would differ"


def test_what_shows_nothing_to_tell_it_by_has_no_hash() -> None:
    ramp = np.tile(np.arange(0, 256, 8, dtype=np.uint8), (SIDE, 1))
    nearly = 200 + np.random.default_rng(1).integers(0, 3, (SIDE, SIDE), dtype=np.uint8)
    for picture in (np.full((SIDE, SIDE), 255, np.uint8), ramp, ramp.T, nearly):
        assert hashes_of(picture) is None
    assert hashes_of(blotches(1)) is not None


def test_eight_turns_have_eight_hashes_far_apart() -> None:
    hashes = hashes_of(blotches(3))
    assert hashes is not None and len(set(hashes)) == 8
    assert min((one ^ two).bit_count() for n, one in enumerate(hashes) for two in hashes[:n]) > 10
    assert all(0 <= found < 2**64 for found in hashes)


def test_an_outline_tells_how_strong_the_frequencies_are() -> None:
    one, brighter, other = (
        np.frombuffer(outline(coefficients(picture)), np.int8).astype(np.int64)
        for picture in (blotches(1), blotches(1) // 2 + 90, blotches(2))
    )
    assert len(one) == 64 and one[0] == 0
    assert abs(np.sqrt(one @ one) - 127) < 3
    assert one @ brighter > 0.99 * 127**2, "neither brightness nor contrast counts"
    assert abs(one @ other) < 0.6 * 127**2
    assert outline(coefficients(np.full((SIDE, SIDE), 9, np.uint8))) == bytes(64)
