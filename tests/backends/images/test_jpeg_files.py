"""JPEG files read the fast way and scan by scan: the same pixels, and no more work than an image is worth."""

import io
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, JpegImagePlugin

from querytruth.backends.images import image_decoding
from querytruth.backends.images.image_reading import read_image
from querytruth.backends.images.jpeg_files import (
    JpegHeader,
    choose_reduction,
    decode_reduced,
    exceeds_scan_work,
    read_plain_jpeg_header,
    read_tables,
)
from querytruth.backends.images.rendering import RenderingError, render_image
from tests.images import draw_noise, encode_image, make_exif


def saved(mode: str = "RGB", size: tuple[int, int] = (90, 60), **options: Any) -> bytes:
    return encode_image(draw_noise(size).convert(mode), "JPEG", **options)


def segment(mark: int, text: bytes) -> bytes:
    return struct.pack(">HH", mark, len(text) + 2) + text


def with_exif() -> bytes:
    return saved(exif=make_exif({0x0112: 6}), comment=b"a comment", icc_profile=b"colours" * 20_000)


def by_pillow(data: bytes) -> JpegHeader:
    """What Pillow's parser finds, as ours says it; the tables as they are found in any file."""
    image = JpegImagePlugin.JpegImageFile(io.BytesIO(data))
    assert image.fp is not None
    exif, coded_from, has_one_scan = image.info.get("exif", b""), image.fp.tell(), not image.info.get("progressive")
    return JpegHeader(*image.size, image.layers, coded_from, exif, read_tables(data, coded_from), has_one_scan)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(saved(), id="baseline"),
        pytest.param(saved("L"), id="grey"),
        pytest.param(saved(size=(900, 601), progressive=True), id="progressive"),
        pytest.param(saved(quality=100, subsampling=0, restart_marker_rows=1), id="restarts"),
        pytest.param(saved(keep_rgb=True), id="RGB values"),
        pytest.param(with_exif(), id="metadata"),
    ],
)
def test_a_plain_header_is_what_pillow_finds(data: bytes) -> None:
    assert read_plain_jpeg_header(data) == by_pillow(data)


def frame(data: bytes) -> int:
    return max(data.find(b"\xff\xc0\x00"), data.find(b"\xff\xc2\x00"))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:2] + b"\xff" + data[2:],  # padding
        lambda data: data[:2] + b"rubbish" + data[2:],
        lambda data: data[:2] + b"\xff\x01" + data[2:],  # a mark without a segment
        lambda data: data[:2] + data,  # a second beginning
        lambda data: data[:2] + segment(0xFFE5, b"")[:2] + b"\x00\x01" + data[2:],  # shorter than its own length
        lambda data: data[: frame(data)] + data[frame(data) : frame(data) + 19] + data[frame(data) :],  # two frames
        lambda data: data[: frame(data)] + data[frame(data) + 19 :],  # none
        lambda data: data.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x0c"),  # 12 bits
        lambda data: data.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc9\x00\x11\x08"),  # arithmetic codes
        lambda data: data.replace(b"\xff\xc0\x00\x11\x08\x00\x3c", b"\xff\xc0\x00\x11\x08\x00\x00"),  # no height yet
        lambda data: data.replace(b"\xff\xc0\x00\x11", b"\xff\xc0\x00\x12"),
        lambda data: data[: frame(data) + 8],
        lambda data: data[:2],
        lambda data: data[:2] + b"\xff\xd9" + data,
        lambda data: saved("CMYK"),
    ],
)
def test_what_is_out_of_the_ordinary_is_left_to_pillow(change: Any) -> None:
    assert read_plain_jpeg_header(change(saved())) is None


@pytest.mark.parametrize(
    ("scale", "sizes"),
    [
        (8, [(4000, 3000), (1280, 960), (1280, 640)]),
        (4, [(1280, 639), (1279, 960), (640, 480)]),
        (2, [(640, 319), (320, 240)]),
        (1, [(319, 240), (320, 159), (9000, 50)]),
    ],
)
def test_an_image_is_reduced_as_far_as_160_pixels_by_80_are_left(scale: int, sizes: list[tuple[int, int]]) -> None:
    assert {choose_reduction(size) for size in sizes} == {choose_reduction(size[::-1]) for size in sizes} == {scale}


@pytest.mark.parametrize("scale", [1, 2, 4, 8])
@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.thorough
def test_the_small_image_is_pillows_draft(scale: int, mode: str) -> None:
    data = saved(mode, (203 * scale - 1, 170 * scale + 1))
    plain = read_plain_jpeg_header(data)
    assert plain is not None
    image = Image.open(io.BytesIO(data))
    image.draft(mode, (image.width // scale, image.height // scale))
    grey, samples, _ = decode_reduced(data, plain)
    differences = np.abs(grey.astype(int) - np.asarray(image.convert("L")))
    assert np.quantile(differences, 0.98) <= 6 and differences.mean() < 1, (
        "but for colours that are cut off at 0 and 255"
    )
    assert (samples is None) == (mode == "L")


@pytest.mark.thorough
def test_an_image_still_too_long_is_reduced_further() -> None:
    data = saved("L", (4000, 1500))
    whole = np.asarray(Image.open(io.BytesIO(data)), float)
    header = read_plain_jpeg_header(data)
    assert header is not None
    grey, *_ = decode_reduced(data, header)
    assert grey.shape == (94, 250)
    assert abs(grey[:90].astype(float) - whole[:1440].reshape(90, 16, 250, 16).mean((1, 3))).mean() < 2


def test_a_scan_header_that_is_longer_than_the_file_is_left_to_pillow() -> None:
    data = bytearray(saved())
    data[data.find(b"\xff\xda") + 2] = 0xC2
    assert read_plain_jpeg_header(bytes(data)) is None
    with pytest.raises(OSError, match="Truncated"):
        by_pillow(bytes(data))


SOWN = [saved(size=(33, 20)), with_exif()[:3000] + saved(size=(33, 20))[2:], saved("L", (33, 20), progressive=True)]


@given(st.sampled_from(SOWN), st.integers(0, 2**32))
@example(SOWN[0], 109248)  # a table of quantization that ends early
@example(SOWN[0], 3450)  # a header of the first scan with another length
def test_a_header_with_anything_changed_is_pillows_still_or_none(data: bytes, seed: int) -> None:
    """A size other than libjpeg's would have its decoder write where nothing is ours. A table that Pillow's parser
    refuses is refused by libjpeg; a changed first scan may leave open whether it is the only one."""
    rng, changed = random.Random(seed), bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(2, min(len(changed), 700))
        how = rng.randrange(4)
        if how == 0:
            changed[place] = rng.choice((rng.randrange(256), 0xFF, 0xC0, 0xC2, 0xDA, 0xE1))
        elif how == 1:
            del changed[place : place + rng.randrange(1, 20)]
        elif how == 2:
            changed[place:place] = changed[place : place + rng.randrange(1, 40)]
        else:
            changed[place:place] = b"\xff" + bytes([rng.randrange(0xC0, 0x100)]) + bytes([0, rng.randrange(20)])
    found = read_plain_jpeg_header(bytes(changed))
    if found is None:
        return
    try:
        expected = by_pillow(bytes(changed))
    except SyntaxError:
        with pytest.raises(ValueError):
            decode_reduced(bytes(changed), found)
    else:
        assert found in (expected, expected._replace(has_one_scan=False))


SIDE = 100


def progressive(repeated: int) -> bytes:
    """A progressive JPEG of 100 x 100 px whose last scan is there so many more times."""
    data = encode_image(Image.new("RGB", (SIDE, SIDE), "teal"), "JPEG", progressive=True)
    last = data.rfind(b"\xff\xda")
    return data[:-2] + data[last:-2] * repeated + data[-2:]


@pytest.fixture
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("querytruth.backends.images.image_reading.MAX_PIXELS", SIDE * SIDE)
    monkeypatch.setattr("querytruth.backends.images.rendering.MAX_PIXELS", SIDE * SIDE)


@pytest.mark.usefixtures("_small_limit")
@pytest.mark.parametrize("before", [b"", b"\xff\xff"], ids=["plain", "padded"])
def test_a_jpeg_of_many_scans_has_a_reason_and_is_not_rendered(tmp_path: Path, before: bytes) -> None:
    data = progressive(image_decoding._SCANS)
    (tmp_path / "a.jpg").write_bytes(data[:2] + before + data[2:])
    assert read_image(tmp_path / "a.jpg").reason == "too_many_scans"
    with pytest.raises(RenderingError, match="too_many_scans"):
        render_image(data, 50, "longer_side")


@pytest.mark.usefixtures("_small_limit")
@pytest.mark.parametrize("repeated", [0, 10])
def test_a_jpeg_of_a_usual_number_of_scans_is_read(tmp_path: Path, repeated: int) -> None:
    (tmp_path / "a.jpg").write_bytes(progressive(repeated))
    assert read_image(tmp_path / "a.jpg").reason is None


def test_segments_without_pixels_count_and_what_follows_the_end_does_not() -> None:
    data = progressive(0)
    first = data.find(b"\xff\xda") + 14
    most = 20 * SIDE * SIDE
    assert not exceeds_scan_work(data, SIDE * SIDE, 3, first, most)
    assert not exceeds_scan_work(data + b"\xff\xda\x00\x02" * 100, SIDE * SIDE, 3, first, most)
    comments = data[:first] + b"\x00" + b"\xff\xfe\x00\x02" * 100 + data[first:]
    assert exceeds_scan_work(comments, SIDE * SIDE, 3, first, most)
    hidden = data[:first] + b"\x00\xff\xfe\x00\x04\xff\xd9" + data[first:-2] + data[data.rfind(b"\xff\xda") : -2] * 30
    assert exceeds_scan_work(hidden, SIDE * SIDE, 3, first, most), "a comment that looks like the end hides no scan"


def test_of_a_file_of_one_scan_only_the_header_is_looked_at() -> None:
    data = encode_image(Image.new("RGB", (SIDE, SIDE)), "JPEG")
    first = data.find(b"\xff\xda") + 14
    assert not exceeds_scan_work(data[:first] + b"\xff\xda\x00\x02" * 100, SIDE * SIDE, 3, first, SIDE * SIDE)


def test_a_comment_that_looks_like_a_progressive_frame_does_not_make_a_file_one() -> None:
    data = encode_image(Image.new("RGB", (SIDE, SIDE)), "JPEG", comment=b"maker's note \xff\xc2 of a camera")
    first = data.find(b"\xff\xda") + 14
    assert not exceeds_scan_work(data[:first] + b"\xff\xda\x00\x02" * 100, SIDE * SIDE, 3, first, SIDE * SIDE)
    for gap in (b"\x00", b"\xff\xfe\x00\x00", b"\xff\xc2\x00\x02"):  # a frame may hide behind the first two
        irregular = data[:2] + gap + data[2:first] + b"\xff\xda\x00\x02" * 100
        assert exceeds_scan_work(irregular, SIDE * SIDE, 3, first + len(gap), SIDE * SIDE)
