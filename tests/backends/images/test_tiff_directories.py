"""The image of a TIFF is not always its first directory, and a camera's raw data are no image."""

import io
import struct
from collections.abc import Callable

import pytest
from PIL import Image

from querytruth.backends.images.image_headers import UnusableImage, find_image_page
from querytruth.backends.images.image_reading import ScannedImage
from querytruth.backends.images.rendering import RenderingError, render_image

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
