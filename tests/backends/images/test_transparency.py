"""Transparent parts lie on white, as on a page, unless that would lose the drawing."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from querytruth.array_types import GreyImage
from querytruth.backends.images.image_reading import ScannedImage, read_image
from querytruth.backends.images.rendering import render_image
from querytruth.backends.models.request_images import decode_upright
from tests.drawn_views import whole_hash
from tests.images import encode_image

CLEAR = (0, 0, 0, 0)
CORNER, MIDDLE = (3, 3), (60, 60)


def icon(colour: tuple[int, ...], ground: tuple[int, ...] = CLEAR, number: int = 0) -> Image.Image:
    image = Image.new("RGBA", (120, 120), ground)
    ImageDraw.Draw(image).ellipse((20 + number, 20, 100, 100 - number), fill=colour)
    return image


def shown(data: bytes) -> GreyImage:
    return np.asarray(Image.open(io.BytesIO(render_image(data, 120, "longer_side"))).convert("L"))


def test_white_drawings_lie_on_black_and_stay_different_images(tmp_path: Path) -> None:
    found = []
    for number in range(3):
        data = encode_image(icon((255, 255, 255, 255), number=4 * number))
        assert shown(data)[CORNER] < 10 and shown(data)[MIDDLE] > 245
        sent = decode_upright(data)
        assert isinstance(sent, Image.Image) and sent.getpixel(CORNER) == (0, 0, 0), "a model sees it, too"
        (tmp_path / f"{number}.png").write_bytes(data)
        found.append(read_image(tmp_path / f"{number}.png"))
    assert len({one.pixels for one in found}) == 3
    assert all(whole_hash(one) and one.contrast and one.contrast > 0.5 for one in found), "no blank"


@pytest.mark.parametrize(
    "image",
    [
        icon((0, 0, 0, 255)),
        icon((200, 30, 30, 255)),
        icon((255, 255, 255, 255), (255, 255, 255, 255)),  # opaque
        icon((255, 255, 255, 255)).convert("RGB").convert("RGBA"),
        Image.new("RGBA", (120, 120), CLEAR),  # nothing is visible
        icon((180, 180, 180, 255)),  # grey is seen on white
    ],
    ids=["black", "red", "white on white", "white on black", "clear", "grey"],
)
def test_all_others_lie_on_white(image: Image.Image) -> None:
    flat = Image.new("RGB", image.size, "white")
    flat.paste(image, mask=image)
    expected = np.asarray(flat.convert("L")).astype(int)
    assert np.abs(shown(encode_image(image)).astype(int) - expected)[CORNER] < 8


def test_grey_and_palette_files_follow_the_same_rule() -> None:
    white = icon((255, 255, 255, 255))
    for data in (
        encode_image(white.convert("LA")),
        encode_image(white, "WEBP", lossless=True),
        encode_image(white.convert("P"), "GIF", transparency=white.convert("P").getpixel(CORNER)),
    ):
        assert shown(data)[CORNER] < 10 and shown(data)[MIDDLE] > 245


def test_what_transparent_pixels_hide_makes_no_other_image(read: Callable[[bytes], ScannedImage]) -> None:
    """Two programs store other colours below full transparency; both show the same."""
    one, other = icon((200, 30, 30, 255), (0, 0, 0, 0)), icon((200, 30, 30, 255), (90, 200, 10, 0))
    assert encode_image(one) != encode_image(other)
    assert read(encode_image(one)).pixels == read(encode_image(other)).pixels
    assert read(encode_image(one)).pixels != read(encode_image(icon((200, 30, 30, 200)))).pixels
