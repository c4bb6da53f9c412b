"""Image headers: what a file is, how large and of how many frames, without decoding any."""

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from querytruth.backends.images.image_headers import check_png, count_gif_frames, read_webp_size, sniff_format
from tests.images import encode_image


def saved(kind: str, mode: str = "RGB", size: tuple[int, int] = (60, 40), **options: Any) -> bytes:
    return encode_image(Image.effect_noise(size, 80).convert(mode), kind, **options)


def frames(number: int) -> list[Image.Image]:
    return [Image.effect_noise((60, 40), 80) for _ in range(number)]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_format_is_told_by_its_first_bytes(kind: str) -> None:
    assert sniff_format(saved(kind)) == kind


@pytest.mark.parametrize(
    "head", [b"", b"<html>", b"RIFF....AVI ", b"P6 10 10 255", b"\x00\x00\x00\x18ftypmp42", b"%PDF-1.7"]
)
def test_what_is_none_of_the_six_is_none(head: bytes) -> None:
    assert sniff_format(head) is None


def test_a_big_tiff_is_a_tiff() -> None:
    assert sniff_format(saved("TIFF", big_tiff=True)) == "TIFF"


@pytest.mark.parametrize("options", [{}, {"lossless": True}, {"save_all": True, "append_images": frames(3)}])
def test_a_webp_says_its_size_in_three_ways(options: dict[str, Any]) -> None:
    assert read_webp_size(saved("WEBP", **options)) == (60, 40)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_the_frames_of_a_gif_are_counted(number: int) -> None:
    data = saved("GIF", save_all=True, append_images=frames(number)[1:], comment=b"a comment " * 60)
    assert count_gif_frames(data, 100) == number
    assert count_gif_frames(data, 3) == min(number, 4), "counting stops"


@pytest.mark.thorough
def test_a_gif_without_end_is_not_counted_for_ever() -> None:
    head = saved("GIF", "L")
    body = head[head.index(b",\x00\x00") : -1]
    assert count_gif_frames(head[:-1] + body * 50_000, 1000) == 1001


def test_a_gif_cut_anywhere_is_found_out() -> None:
    data = saved("GIF", save_all=True, append_images=frames(3))
    for end in range(11, len(data) - 1, 97):
        with pytest.raises((ValueError, IndexError)):
            count_gif_frames(data[:end], 100)


def test_a_png_with_any_bit_of_its_image_turned_is_found_out() -> None:
    data = saved("PNG", "L")
    check_png(data)
    for place in range(8, len(data), 13):
        with pytest.raises((ValueError, struct.error)):
            check_png(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
    for end in range(8, len(data), 13):
        with pytest.raises(ValueError):
            check_png(data[:end])


def test_damage_to_a_png_s_metadata_does_not_cost_the_image() -> None:
    data = saved("PNG", exif=Image.Exif().tobytes() + b"a block")
    check_png(data.replace(b"a block", b"A block"))


@given(st.sampled_from([b"GIF89a", b"GIF89a\x01\x00\x01\x00\x80\x00\x00"]), st.binary(max_size=200))
def test_rubbish_ends_a_walk(magic: bytes, rubbish: bytes) -> None:
    for walk in (lambda data: count_gif_frames(data, 10), check_png, read_webp_size):
        with contextlib.suppress(ValueError, IndexError, struct.error):
            walk(magic + rubbish)  # type: ignore[no-untyped-call]
