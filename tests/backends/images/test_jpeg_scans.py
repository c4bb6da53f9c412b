"""A small JPEG of many scans costs no minutes: it is refused before it is decoded, and ordinary files are not."""

from pathlib import Path

import pytest
from PIL import Image

from querytruth.backends.images import image_decoding
from querytruth.backends.images.image_reading import read_image
from querytruth.backends.images.jpeg_files import exceeds_scan_work
from querytruth.backends.images.rendering import RenderingError, render_image
from tests.images import encode_image

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
