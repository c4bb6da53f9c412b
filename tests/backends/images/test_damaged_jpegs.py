"""JPEG files whose data are damaged: every viewer shows them, with made-up pixels where codes are lost."""

import io
import struct
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from querytruth.backends.images.image_reading import ScannedImage
from querytruth.backends.images.jpeg_files import read_plain_jpeg_header
from querytruth.backends.images.rendering import render_image
from tests.drawn_views import whole_hash
from tests.images import encode_image


def photo_like(seed: int, size: tuple[int, int] = (320, 240)) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    return Image.fromarray(values).resize(size, Image.Resampling.BICUBIC)


def encoded(seed: int, **options: object) -> bytes:
    return encode_image(photo_like(seed), "JPEG", quality=90, **options)


def coded_from(data: bytes) -> int:
    header = read_plain_jpeg_header(data)
    assert header is not None
    return header.coded_from


def cut_and_closed(data: bytes, share: float) -> bytes:
    """The first codes with an end mark, as a broken download that a program saved again."""
    start = coded_from(data)
    return data[: start + int((len(data) - start) * share)] + b"\xff\xd9"


def with_hole(data: bytes) -> bytes:
    middle = (coded_from(data) + len(data)) // 2
    return data[:middle] + data[middle + 200 :]


def zeroed(data: bytes) -> bytes:
    middle = (coded_from(data) + len(data)) // 2
    return data[:middle] + bytes(300) + data[middle + 300 :]


def test_every_file_that_is_cut_and_closed_again_is_damaged(read: Callable[[bytes], ScannedImage]) -> None:
    for seed in range(20):
        data = encoded(seed)
        assert read(data).reason is None
        for share in (0.1, 0.5, 0.9):
            found = read(cut_and_closed(data, share))
            assert (found.reason, found.detail) == ("damaged", "Corrupt JPEG data: premature end of data segment")
            assert (found.width, found.height) == (320, 240) and found.sha256 and whole_hash(found)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}, {"keep_rgb": True}])
@pytest.mark.parametrize("damage", [with_hole, zeroed, lambda data: cut_and_closed(data, 0.6)])
def test_holes_and_zeros_are_damage_in_every_kind_of_jpeg(
    read: Callable[[bytes], ScannedImage], damage: Callable[[bytes], bytes], options: dict[str, object]
) -> None:
    data = encoded(3, **options)
    assert read(data).reason is None
    assert read(damage(data)).reason in ("damaged", "cannot_be_decoded")


def test_damage_is_found_in_files_that_pillow_opens(read: Callable[[bytes], ScannedImage]) -> None:
    cmyk = encode_image(photo_like(1).convert("CMYK"), "JPEG", quality=90)
    padded = encoded(1)[:2] + b"\xff" + encoded(1)[2:]
    for data in (cmyk, padded):
        assert read(data).reason is None
        assert read(data[: len(data) * 2 // 3] + b"\xff\xd9").reason == "damaged"


def test_bytes_between_the_codes_and_the_end_are_no_damage_if_they_are_few(
    read: Callable[[bytes], ScannedImage],
) -> None:
    data = encoded(5)
    assert read(data[:-2] + bytes(8) + data[-2:]).reason is None, "padding of a camera"
    assert read(data + bytes(500)).reason is None, "rubbish behind the image"
    assert read(data[:-2] + bytes(400) + data[-2:]).reason == "damaged", "codes that fit nowhere"


def with_chroma_table(data: bytes, add: int) -> bytes:
    """The same codes with other steps between colours."""
    tables = [place for place in range(2, len(data)) if data.startswith(b"\xff\xdb", place)]
    chroma = tables[1] + 5
    return data[:chroma] + bytes(value + add for value in data[chroma : chroma + 64]) + data[chroma + 64 :]


def test_the_same_luma_with_other_colours_is_no_duplicate_by_pixels(read: Callable[[bytes], ScannedImage]) -> None:
    data = encoded(7)
    recoloured = with_chroma_table(data, 9)
    difference = np.asarray(Image.open(io.BytesIO(data)), int) - np.asarray(Image.open(io.BytesIO(recoloured)))
    assert abs(difference).max() > 20, "people see it"
    one, other = read(data), read(recoloured)
    assert whole_hash(one) and (whole_hash(one) ^ whole_hash(other)).bit_count() <= 8
    assert one.pixels != other.pixels


def test_one_changed_byte_anywhere_is_another_image(read: Callable[[bytes], ScannedImage]) -> None:
    """In every 50th byte of the codes, one bit, which often changes colours alone."""
    data = encoded(7)
    whole = read(data).pixels
    for place in range(coded_from(data), len(data) - 2, 50):
        if data[place] == 0xFF or data[place - 1] == 0xFF:
            continue
        assert read(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]).pixels != whole, place


@pytest.mark.thorough
def test_tables_in_one_segment_or_in_two_are_the_same_pixels(read: Callable[[bytes], ScannedImage]) -> None:
    data = encoded(7)
    first = data.index(b"\xff\xdb")
    second = data.index(b"\xff\xdb", first + 2)
    joined = b"\xff\xdb" + struct.pack(">H", 2 + 2 * 65) + data[first + 4 : first + 69] + data[second + 4 : second + 69]
    other = data[:first] + joined + data[second + 69 :]
    assert other != data and read(other).pixels == read(data).pixels


@pytest.mark.parametrize(
    "options",
    [{}, {"progressive": True}, {"restart_marker_rows": 1}, {"exif": b"Exif\0\0thumbnail \xff\xd8 \xff\xd9 of it"}],
)
def test_a_file_that_lacks_its_end_mark_alone_is_whole(
    read: Callable[[bytes], ScannedImage], options: dict[str, object]
) -> None:
    """A camera or a download left out the last two bytes: every pixel is there, and the file is its closed twin."""
    whole = encoded(3, **options)
    for cut in (whole[:-2], whole[:-1]):
        found, rendered = read(cut), Image.open(io.BytesIO(render_image(cut, 64, "longer_side")))
        assert (found.reason, found.width, rendered.size) == (None, 320, (64, 48))
    assert read(whole[:-2]).pixels == read(whole).pixels, "the same codes"
    assert read(whole[:-60]).reason == "cannot_be_decoded", "this one lacks codes"


def test_a_file_of_four_layers_may_lack_its_end_mark_too(read: Callable[[bytes], ScannedImage]) -> None:
    out = io.BytesIO()
    photo_like(1).convert("CMYK").save(out, "JPEG", quality=90)
    assert read(out.getvalue()[:-2]).reason is None
    assert read(out.getvalue()[:-200]).reason == "cannot_be_decoded"


def test_a_file_cut_between_two_scans_is_not_whole(read: Callable[[bytes], ScannedImage]) -> None:
    """All codes up to there are good; what would make the image sharp, or gives its colours, is missing."""
    whole = encoded(3, progressive=True)
    scans = [place for place in range(len(whole)) if whole.startswith(b"\xff\xda", place)]
    assert len(scans) > 3
    for place in scans[1:]:
        assert read(whole[:place]).reason == "cannot_be_decoded"
