"""Images on their way to a model: what it takes goes as it is, the rest is enlarged, padded or refused."""

import io

import pytest
from PIL import Image

from querytruth.backends.models.chat import Failure
from querytruth.backends.models.request_images import encode_for_endpoint, fit_for_model
from tests.images import encode_image


def png(width: int, height: int) -> bytes:
    return encode_image(Image.new("RGB", (width, height), "navy"))


def sent_size(width: int, height: int) -> tuple[int, int]:
    sent = encode_for_endpoint(png(width, height))
    assert not isinstance(sent, Failure)
    return Image.open(io.BytesIO(sent[1])).size


@pytest.mark.parametrize(
    ("size", "sent"),
    [
        ((640, 480), (640, 480)),
        ((32, 6000), (32, 6000)),
        ((28, 40), (32, 46)),
        ((31, 31), (32, 32)),
        ((28, 8000), (41, 8000)),
        ((9000, 40), (9000, 46)),
    ],
)
def test_an_image_has_the_shape_that_families_of_models_take(size: tuple[int, int], sent: tuple[int, int]) -> None:
    assert sent_size(*size) == sent
    assert min(sent) >= 32 and max(sent) <= 200 * min(sent)


def test_what_models_take_is_sent_byte_for_byte() -> None:
    assert encode_for_endpoint(png(33, 200)) == ("image/png", png(33, 200))


@pytest.mark.parametrize("size", [(16, 16), (27, 400), (5000, 2)])
def test_an_image_without_one_patch_is_refused_for_good(size: tuple[int, int]) -> None:
    refused = encode_for_endpoint(png(*size))
    assert isinstance(refused, Failure)
    assert (refused.reason, refused.kind) == ("image_too_small", "final") and f"{size[0]} x {size[1]}" in refused.detail
    assert isinstance(fit_for_model(Image.new("RGB", size)), Failure), "in process, too"


def test_padding_is_white_and_the_image_in_its_middle() -> None:
    padded = fit_for_model(Image.new("RGB", (8000, 30), "navy"))
    assert isinstance(padded, Image.Image) and padded.size == (8000, 41)
    assert padded.getpixel((0, 0)) == (255, 255, 255) and padded.getpixel((4000, 20)) == (0, 0, 128)
