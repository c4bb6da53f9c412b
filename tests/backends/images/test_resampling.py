"""Resampling: the same picture as Pillow's LANCZOS makes, exactly the same on every processor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from backends.images.resampling import _steps, resample


def photo(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    """Soft shapes with some grain: what a photo is to a filter."""
    rng = np.random.default_rng(7)
    bands = len(Image.new(mode, (1, 1)).getbands())
    coarse = rng.integers(0, 256, (max(1, size[1] // 6), max(1, size[0] // 6), bands), dtype=np.uint8)
    rows = [Image.fromarray(coarse[..., band]).resize(size, Image.Resampling.BICUBIC) for band in range(bands)]
    return Image.merge(mode, rows) if bands > 1 else rows[0]


def apart(one: Image.Image, other: Image.Image) -> float:
    """The greatest difference of two values, and a hundred times the mean one where that is more."""
    differences = np.abs(np.asarray(one, np.int16) - np.asarray(other, np.int16))
    return float(max(differences.max(), 100 * differences.mean()))


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("size", [(90, 60), (60, 90), (300, 200), (30, 20)])
def test_the_image_is_that_of_pillows_lanczos(mode: str, size: tuple[int, int]) -> None:
    image = photo(size, mode)
    ours = resample(image, (48, 48), (0, 0, *size))
    assert (ours.mode, ours.size) == (mode, (48, 48))
    assert apart(ours, image.resize((48, 48), Image.Resampling.LANCZOS)) <= 2  # it rounds twice


def test_a_part_that_ends_within_pixels_is_met_exactly() -> None:
    image, box = photo((120, 90)), (10.25, 3.5, 99.75, 80.0)
    assert apart(resample(image, (40, 32), box), image.resize((40, 32), Image.Resampling.LANCZOS, box)) <= 2


def test_a_far_smaller_image_is_averaged_first_and_looks_the_same() -> None:
    image = photo((900, 700))
    ours = resample(image, (32, 24), (0, 0, 900, 700))
    assert apart(ours, image.resize((32, 24), Image.Resampling.LANCZOS)) < 40, "0.4 levels on average"


def test_what_has_the_size_already_is_left_alone() -> None:
    image = photo((32, 32))
    assert resample(image, (32, 32), (0, 0, 32, 32)) is image


@given(st.integers(1, 600), st.floats(0.01, 8), st.floats(0, 0.4), st.floats(0.6, 1))
@settings(max_examples=60, deadline=None)
def test_every_sum_is_exact_in_single_precision(outputs: int, scale: float, first: float, last: float) -> None:
    """Multiples of 2^-15 below 512 have at most 24 bits: then no order of adding, and no processor, changes a sum."""
    inputs = max(1, int(outputs * scale))
    for step in _steps(inputs, outputs, first * inputs, last * inputs):
        assert np.all(step.down * 2**15 == np.rint(step.down * 2**15))
        assert np.abs(step.down).sum(axis=1).max() * 255 < 512
        assert np.allclose(step.down.sum(axis=1), 1, atol=0.001), "white stays white"
