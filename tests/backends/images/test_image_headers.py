"""What stands in the head of an image file: sizes, directories of TIFF, what phones put beside the photo."""

import contextlib
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pillow_heif import register_heif_opener

from querytruth.backends.images.image_headers import (
    UnusableImage,
    check_png,
    count_gif_frames,
    find_image_page,
    read_webp_size,
    sniff_format,
)
from querytruth.backends.images.image_reading import ScannedImage, read_image
from querytruth.backends.images.rendering import RenderingError, render_image
from querytruth.backends.images.scan_parts import read_images_in_workers
from querytruth.backends.models.request_images import encode_for_endpoint
from tests.images import encode_image, make_exif


def saved(kind: str, mode: str = "RGB", size: tuple[int, int] = (60, 40), **options: Any) -> bytes:
    return encode_image(Image.effect_noise(size, 80).convert(mode), kind, **options)


def frames(number: int) -> list[Image.Image]:
    return [Image.effect_noise((60, 40), 80) for _ in range(number)]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_format_is_told_by_its_first_bytes(kind: str) -> None:
    assert sniff_format(saved(kind)) == kind


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


Entries = dict[int, list[int]]
LONG = 4


def thumbnail(**more: int) -> Entries:
    return {254: [1], 256: [160], 257: [120], 262: [2]} | {int(tag[1:]): [value] for tag, value in more.items()}


def directory(width: int, height: int, photometric: int = 2, kind: int = 0) -> Entries:
    return {254: [kind], 256: [width], 257: [height], 262: [photometric]}


def tiff(chain: list[Entries], below: list[Entries] = (), *, order: str = "<", mark: bytes = b"") -> bytes:
    """A TIFF of directories after each other, and of those below the first one; without pixels."""
    data = bytearray((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 16) + mark.ljust(8, b"\0"))
    sizes = [2 + 12 * (len(one) + (number == 0 and bool(below))) + 4 for number, one in enumerate(chain)]
    starts = [16 + sum(sizes[:number]) for number in range(len(chain) + 1)]
    places = []
    under = bytearray()
    for one in below:
        places.append(starts[-1] + 4 * len(below) + len(under))
        under += packed(one, 0, order)
    for number, one in enumerate(chain):
        following = starts[number + 1] if number + 1 < len(chain) else 0
        if number == 0 and below:
            one = one | {330: places if len(places) == 1 else [starts[-1]] * len(places)}
        data += packed(one, following, order)
    return bytes(data + struct.pack(order + f"{len(places)}I", *places) + under)


def packed(entries: Entries, following: int, order: str) -> bytes:
    rows = [struct.pack(order + "HHII", tag, LONG, len(values), values[0]) for tag, values in sorted(entries.items())]
    return struct.pack(order + "H", len(rows)) + b"".join(rows) + struct.pack(order + "I", following)


@pytest.mark.parametrize("order", ["<", ">"])
def test_raw_data_of_every_maker_are_named_as_such(order: str) -> None:
    sensor, linear = directory(6000, 4000, 32803), directory(6000, 4000, 34892)
    preview = directory(1616, 1080, 6, 1)
    for data in (
        tiff([thumbnail()], [sensor], order=order),  # NEF
        tiff([preview], [preview, sensor], order=order),  # ARW: two directories below
        tiff([thumbnail(_50706=1)], [linear], order=order),  # DNG
        tiff([directory(4000, 3000, 6), thumbnail()], order=order, mark=b"CR\2\0"),  # CR2
        tiff([directory(6000, 4000, 32803)], order=order),  # PEF
        tiff([thumbnail(), sensor], order=order),
    ):
        with pytest.raises(UnusableImage, match="its first directory is an image of"):
            find_image_page(data)


def test_the_page_that_is_no_smaller_version_is_the_image() -> None:
    page = directory(1200, 900)
    assert find_image_page(tiff([thumbnail(), page])) == 1
    assert find_image_page(tiff([thumbnail(), directory(300, 200, kind=1), page])) == 2
    assert find_image_page(tiff([page, thumbnail()])) == 0, "the usual order"
    assert find_image_page(tiff([page, directory(2400, 1800)])) == 0, "a second page may be larger"
    assert find_image_page(tiff([page], [directory(600, 450, kind=1)])) == 0, "a pyramid"
    assert find_image_page(tiff([thumbnail()])) == 0, "there is no other image"
    with pytest.raises(UnusableImage, match="160 x 120, and the image of 1200 x 900 below"):
        find_image_page(tiff([thumbnail()], [page]))


def test_hostile_directories_end() -> None:
    looped = bytearray(tiff([directory(9, 9)]))
    looped[-4:] = struct.pack("<I", 16)
    itself = tiff([directory(9, 9) | {330: [16]}])
    for data in (
        bytes(looped),
        itself,
        b"II*\0\xff\xff\xff\xff",
        b"II*\0",
        tiff([thumbnail()], [directory(9, 9)])[:70],
    ):
        assert find_image_page(data) == 0


def test_a_file_of_thumbnail_and_image_enters_as_the_image(read: Callable[[bytes], ScannedImage]) -> None:
    out = io.BytesIO()
    small, large = Image.new("RGB", (160, 120), "red"), Image.linear_gradient("L").resize((600, 450)).convert("RGB")
    small.save(out, "TIFF", save_all=True, append_images=[large], tiffinfo={254: 0})
    data = bytearray(out.getvalue())
    first = struct.unpack_from("<I", data, 4)[0]
    for place in range(first + 2, first + 2 + 12 * struct.unpack_from("<H", data, first)[0], 12):
        if struct.unpack_from("<H", data, place)[0] == 254:
            struct.pack_into("<I", data, place + 8, 1)
    found = read(bytes(data))
    assert (found.reason, found.width, found.height) == (None, 600, 450)
    rendered = Image.open(io.BytesIO(render_image(bytes(data), 300, "longer_side")))
    assert rendered.size == (300, 225) and rendered.getpixel((150, 220)) > (200, 200, 200), "its pixels, too"


def test_raw_files_have_their_own_reason_and_are_not_rendered(read: Callable[[bytes], ScannedImage]) -> None:
    raw = tiff([thumbnail()], [directory(6000, 4000, 32803)])
    found = read(raw)
    assert found.reason == "camera_raw"
    assert found.detail == "a colour filter array: its first directory is an image of 160 x 120"
    assert read(tiff([thumbnail()], [directory(900, 600)])).reason == "thumbnail_first"
    for start in (b"FUJIFILMCCD-RAW 0201", b"IIRO\x08\0\0\0", b"\0\0\0\x18ftypcrx \0\0\0\1"):
        assert read(start + bytes(99)).reason == "camera_raw"
    with pytest.raises(RenderingError, match="camera_raw"):
        render_image(raw, 50, "longer_side")


register_heif_opener()


def photo(kind: str, size: tuple[int, int] = (120, 80), orientation: int = 1) -> bytes:
    """The left half red, the right half blue, taken on a day in 2024."""
    image = Image.new("RGB", size, "red")
    image.paste("blue", (size[0] // 2, 0, *size))
    exif = make_exif({0x0112: orientation}, {0x9003: "2024:05:06 07:08:09"})
    return encode_image(image, kind, exif=exif.tobytes(), quality=90)


@pytest.mark.parametrize("kind", ["HEIF", "AVIF"])
def test_a_phone_s_photo_has_its_upright_size_and_its_day(tmp_path: Path, kind: str) -> None:
    (tmp_path / "IMG_1.HEIC").write_bytes(photo(kind, orientation=6))
    found = read_image(tmp_path / "IMG_1.HEIC")
    assert (found.reason, found.format, found.width, found.height) == (None, kind, 80, 120)
    assert found.taken_at == "2024-05-06T07:08:09"


@pytest.mark.parametrize("kind", ["HEIF", "AVIF"])
def test_a_turned_photo_is_rendered_and_sent_upright(kind: str) -> None:
    data = photo(kind, orientation=6)  # the camera's left is the top
    sent = encode_for_endpoint(data)
    assert isinstance(sent, tuple)
    assert sent[0] == "image/jpeg"
    for jpeg in (render_image(data, 512, "longer_side"), sent[1]):
        with Image.open(io.BytesIO(jpeg)) as upright:
            assert upright.size == (80, 120)
            assert upright.getpixel((40, 20))[0] > 200 > 100 > upright.getpixel((40, 100))[0]  # type: ignore[index]


def test_the_brand_decides_not_the_suffix() -> None:
    box = b"\x00\x00\x00\x18ftyp%s\x00\x00\x00\x00mif1%s"
    assert sniff_format(box % (b"mif1", b"heic")) == "HEIF"
    assert sniff_format(box % (b"mif1", b"avif")) == "AVIF"
    assert sniff_format(box % (b"isom", b"mp42")) is None, "a film"


@pytest.mark.slow
def test_a_worker_without_rights_reads_a_camera_s_24_megapixels(tmp_path: Path) -> None:
    (tmp_path / "phone.heic").write_bytes(photo("HEIF", (6000, 4000)))
    (tmp_path / "phone.avif").write_bytes(photo("AVIF"))
    found = list(read_images_in_workers([str(tmp_path / "phone.heic"), str(tmp_path / "phone.avif")]))
    assert [(one.reason, getattr(one, "width", None)) for one in found] == [(None, 6000), (None, 120)]
