"""Quality scores: each tells good images from poor ones of its kind, whatever their size."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from querytruth.array_types import GreyImage
from querytruth.backends.images.image_quality import QualityScores, compute_quality_scores, find_content_boxes


def scene(width: int = 300, height: int = 200, seed: int = 1) -> Image.Image:
    """Something like a photo: a sky that runs from shade to shade, and below it things of all sizes, with edges."""
    rng = np.random.default_rng(seed)
    sky = np.linspace(150, 235, height)[:, None] + np.linspace(0, 12, width)[None, :]
    image = Image.fromarray((sky + rng.normal(0, 1.5, sky.shape)).clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(400):
        x, y = rng.uniform(0, width), height * (1 - 0.55 * rng.power(2))
        side = width * 0.15 * rng.power(0.4)
        draw.ellipse((x, y, x + side, y + side * rng.uniform(0.4, 1)), fill=int(rng.integers(10, 220)))
    shaded = np.asarray(image, np.float32) + rng.normal(0, 2, (height, width))
    return Image.fromarray(shaded.clip(0, 255).astype(np.uint8))


def page(width: int = 300, height: int = 380) -> Image.Image:
    image = Image.new("L", (width * 4, height * 4), 255)
    draw = ImageDraw.Draw(image)
    for line in range(6, height // 6 - 4):
        draw.text((100, line * 24), "what was measured, and how it was " * 2, fill=0, font=ImageFont.load_default(18))
    return image.reduce(4)


def grey(image: Image.Image) -> GreyImage:
    return np.asarray(image)


def score(image: GreyImage) -> QualityScores:
    return compute_quality_scores(image[None])[0]


def test_brightness_is_the_mean() -> None:
    assert score(np.full((150, 200), 51, np.uint8)).brightness == pytest.approx(0.2)
    dark = scene().point(lambda value: value // 10)
    assert score(grey(dark)).brightness < 0.1 < score(grey(scene())).brightness < 0.9


def test_contrast_is_near_0_for_what_is_nearly_uniform_and_1_for_half_black_half_white() -> None:
    half = np.zeros((150, 200), np.uint8)
    half[:, 100:] = 255
    assert score(half).contrast == pytest.approx(1)
    faint = scene().point(lambda value: 120 + value // 25)
    assert score(grey(faint)).contrast < 0.05 < score(grey(scene())).contrast


def test_sharpness_falls_with_the_blur() -> None:
    blurred = [scene().filter(ImageFilter.GaussianBlur(sigma * 300 / 512)) for sigma in (0, 1, 2, 3, 5)]
    found = [score(grey(image)).sharpness for image in blurred]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.5 and found[3] < 0.47


def test_sharpness_is_the_same_for_an_image_of_another_size() -> None:
    large = scene(1200, 800)
    sizes = [large.resize((side, side * 2 // 3), Image.Resampling.LANCZOS) for side in (160, 200, 250, 320)]
    found = [score(grey(image)).sharpness for image in sizes]
    assert max(found) - min(found) < 0.12
    small = score(grey(large.resize((80, 53), Image.Resampling.LANCZOS)))
    assert small.sharpness < 0.3, "80 pixels are a blur at 512"


@pytest.mark.parametrize(
    "shade", [lambda v: v, lambda v: 255 - v, lambda v: 30 + v * 4 // 5], ids=["light", "dark", "grey"]
)
def test_flatness_is_high_for_a_page_and_low_for_a_scene_with_sky(shade: Any) -> None:
    assert score(grey(page().point(shade))).flatness > 0.5
    assert score(grey(scene().point(shade))).flatness < 0.35


def test_no_even_pattern_of_lines_is_overlooked() -> None:
    """Rows looked at in even steps would all fall on the same shade."""
    for period in range(2, 40):
        lines = np.tile((np.arange(200) % period < (period + 1) // 2)[:, None] * np.uint8(255), (1, 250))
        assert score(lines).contrast > 0.8, period


def test_a_uniform_image_is_flat_and_not_sharp() -> None:
    assert score(np.full((150, 200), 255, np.uint8)) == (1.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("shape", [(1, 1), (2, 60), (4, 60), (60, 4)])
def test_a_strip_too_narrow_for_steps_both_ways_is_flat_and_not_sharp(shape: tuple[int, int]) -> None:
    noise = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    assert score(noise)[2:] == (0.0, 1.0)


def test_between_bars_there_is_always_something_left() -> None:
    line = np.linspace(0, 255, 12).astype(np.uint8)
    for lines in range(4, 60):
        for bar in range(1, lines // 2 + 1):
            image = np.tile(line, (lines, 1))
            image[bar : lines - bar] = 255 - line
            for turned in (image, np.ascontiguousarray(image.T)):
                ((left, top, right, bottom),) = find_content_boxes([turned])
                assert left < right and top < bottom


@given(arrays(np.uint8, st.tuples(st.integers(1, 60), st.integers(1, 60))))
def test_every_image_scores_between_0_and_1(image: GreyImage) -> None:
    assert all(0 <= score <= 1 for score in score(image))


def test_images_of_one_size_have_the_same_scores_together_as_alone() -> None:
    images = [grey(scene(seed=seed)) for seed in (1, 2)] + [np.full((200, 300), 255, np.uint8)]
    assert compute_quality_scores(np.stack(images)) == [score(image) for image in images]
    assert compute_quality_scores(np.stack(images)[:, :3]) == [score(image[:3]) for image in images], (
        "too flat for steps"
    )
