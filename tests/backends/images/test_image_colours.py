"""Colours: whatever a file stores them as, they come out as the eye would see them, on white."""

import io
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cykooz_resizer import CpuExtensions, Resizer
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from querytruth.backends.images import image_colours as resampling
from querytruth.backends.images.image_colours import CropBox, ImageSize, convert_to_srgb, flatten_to_8_bits, resample
from tests.images import draw_noise, encode_image

Colour = tuple[int, int, int]
ORANGE = (230, 120, 40)


def profile(primaries: list[tuple[float, float, float]], gamma: float) -> bytes:
    """An ICC profile (version 2) of a display with these primaries (XYZ, D50) and this gamma."""

    def padded(data: bytes) -> bytes:
        return data + bytes(-len(data) % 4)

    def fixed(values: tuple[float, ...]) -> bytes:
        return b"".join(struct.pack(">i", round(value * 65536)) for value in values)

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256))
    described = b"desc\0\0\0\0" + struct.pack(">I", 10) + b"a profile" + bytes(1 + 8 + 3 + 67)
    tags = {b"desc": described, b"wtpt": b"XYZ \0\0\0\0" + fixed((0.9642, 1.0, 0.8249))}
    for channel, xyz in zip((b"r", b"g", b"b"), primaries, strict=True):
        tags[channel + b"XYZ"], tags[channel + b"TRC"] = b"XYZ \0\0\0\0" + fixed(xyz), curve
    table, body = struct.pack(">I", len(tags)), b""
    for tag, data in tags.items():
        table += tag + struct.pack(">II", 128 + 4 + 12 * len(tags) + len(body), len(data))
        body += padded(data)
    size = 128 + len(table) + len(body)
    head = struct.pack(">I4sI4s4s4s", size, b"none", 0x02100000, b"mntr", b"RGB ", b"XYZ ") + bytes(12) + b"acsp"
    return head + bytes(28) + fixed((0.9642, 1.0, 0.8249)) + bytes(48) + table + body


ADOBE_RGB = profile([(0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457)], 2.19921875)
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def colour_of(image: Image.Image, data: Any = None) -> Colour:
    red, green, blue = convert_to_srgb(flatten_to_8_bits(image), data).getpixel((1, 1))  # type: ignore[misc]
    return red, green, blue


def through(image: Image.Image, kind: str, **options: Any) -> Image.Image:
    """The image after a file of that format."""
    back = Image.open(io.BytesIO(encode_image(image, kind, **options)))
    back.load()
    return back


def near(one: Colour, other: Colour, most: int = 2) -> bool:
    return all(abs(a - b) <= most for a, b in zip(one, other, strict=True))


def test_a_profile_is_seen_through() -> None:
    """Adobe RGB's (200, 50, 50) is a stronger red in sRGB: Lindbloom's matrices give (234, 48, 49)."""
    assert near(colour_of(Image.new("RGB", (4, 4), (200, 50, 50)), ADOBE_RGB), (234, 48, 49), 3)
    assert colour_of(Image.new("RGB", (4, 4), "white"), ADOBE_RGB) == (255, 255, 255)


@pytest.mark.parametrize(
    "data",
    [
        None,
        SRGB,
        b"",
        b"rubbish",
        ADOBE_RGB[:200],
        ADOBE_RGB.replace(b"RGB XYZ ", b"CMYKLab "),
        ADOBE_RGB + bytes(5 << 20),
        "text",
    ],
    ids=["none", "srgb", "empty", "rubbish", "cut", "another_space", "huge", "text"],
)
def test_a_profile_that_says_nothing_changes_nothing(data: Any) -> None:
    assert colour_of(Image.new("RGB", (4, 4), ORANGE), data) == ORANGE


def test_a_profile_of_colour_does_not_touch_a_grey_image() -> None:
    assert colour_of(Image.new("L", (4, 4), 90), ADOBE_RGB) == (90, 90, 90)


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_ink_is_ink(kind: str) -> None:
    """JPEGs store it inverted, as Adobe does; TIFFs do not."""
    image = through(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), kind)
    assert image.mode == "CMYK"
    assert near(colour_of(image), (255, 0, 0), 3)


def test_lab_colours_are_converted() -> None:
    image = through(Image.new("LAB", (4, 4), (138, 209, 198)), "TIFF")  # L 54.3, a 80.8, b 69.9 (D50): sRGB's red
    assert near(colour_of(image), (255, 0, 0), 6)


@pytest.mark.parametrize("grey", [0, 90, 128, 255])
def test_sixteen_bits_are_scaled(grey: int) -> None:
    image = Image.fromarray(np.full((4, 4), grey * 257, np.uint16))
    for back in (image, through(image, "PNG"), through(image, "TIFF")):
        assert colour_of(back) == (grey, grey, grey)


def tiff(pixels: np.ndarray[Any, Any], bits: int, zero_is_black: int) -> Image.Image:
    """A grey TIFF of 4 x 4 pixels in one strip."""
    tags = {256: 4, 257: 4, 258: bits, 259: 1, 262: zero_is_black, 277: 1, 278: 4, 279: pixels.nbytes}
    start = 8 + 2 + 12 * (len(tags) + 1) + 4
    entries = sorted((tags | {273: start}).items())
    directory = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
    data = b"II*\0" + struct.pack("<IH", 8, len(entries)) + directory + bytes(4) + pixels.tobytes()
    back = Image.open(io.BytesIO(data))
    back.load()
    return back


def test_a_tiff_is_read_as_its_tags_say() -> None:
    tenth = np.full((4, 4), 6553, np.uint16)
    assert colour_of(tiff(tenth, 16, 1)) == (25, 25, 25)
    assert colour_of(tiff(tenth, 16, 0)) == (230, 230, 230), "zero is white"
    assert colour_of(tiff(np.full((4, 4), 0xCCCCCCCC, np.uint32), 32, 1)) == (204, 204, 204), "unsigned"


def test_white_of_twelve_bits_is_4095() -> None:
    two_pixels = bytes([0x80, 0x08, 0x00])  # 0x800 twice
    assert colour_of(tiff(np.frombuffer(two_pixels * 8, np.uint8), 12, 1)) == (128, 128, 128)


@pytest.mark.parametrize("white", [1, 255, 65535])
def test_floats_take_the_usual_range_that_holds_them(white: float) -> None:
    image = Image.fromarray((np.linspace(0.2, 0.9, 16).reshape(4, 4) * white).astype(np.float32))
    values = np.asarray(flatten_to_8_bits(image))
    assert abs(int(values.min()) - 51) <= 1
    assert abs(int(values.max()) - 230) <= 1


def test_floats_without_a_usual_range_are_stretched_and_no_numbers_are_black() -> None:
    image = Image.fromarray(np.array([[-5.0, 5.0], [np.nan, np.inf]], np.float32))
    assert np.asarray(flatten_to_8_bits(image)).tolist() == [[0, 255], [0, 255]]
    assert np.asarray(flatten_to_8_bits(Image.fromarray(np.full((2, 2), np.nan, np.float32)))).tolist() == [
        [0, 0],
        [0, 0],
    ]
    assert np.asarray(flatten_to_8_bits(Image.fromarray(np.full((2, 2), -3.0, np.float32)))).tolist() == [
        [0, 0],
        [0, 0],
    ]


def clear(mode: str) -> Image.Image:
    """Half transparent red (or grey 0), as that mode stores it."""
    red = Image.new("RGBA", (4, 4), (255, 0, 0, 128))
    return red if mode == "RGBA" else Image.new("LA", (4, 4), (0, 128))


def test_transparent_parts_lie_on_white() -> None:
    assert near(colour_of(clear("RGBA")), (255, 127, 127), 1)
    assert near(colour_of(clear("LA")), (127, 127, 127), 1)
    assert near(colour_of(through(clear("RGBA"), "WEBP", lossless=True)), (255, 127, 127), 1)
    assert near(colour_of(clear("RGBA").convert("RGBa")), (255, 127, 127), 2), "premultiplied"


@pytest.mark.parametrize("alpha", [0, 255])
def test_palettes_with_transparency_lie_on_white(alpha: int) -> None:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, *ORANGE])
    back = through(image, "PNG", transparency=bytes([255, alpha]))
    assert back.mode == "P"
    assert colour_of(back) == (ORANGE if alpha else (255, 255, 255))


@pytest.mark.parametrize(
    ("image", "value"),
    [
        (Image.new("L", (4, 4), 77), 77),
        (Image.new("RGB", (4, 4), ORANGE), ORANGE),
        (Image.new("1", (4, 4), 0), 0),
        (Image.fromarray(np.full((4, 4), 30000, np.uint16)), 30000),
    ],
)
def test_the_one_transparent_colour_of_a_png_is_white(image: Image.Image, value: Any) -> None:
    back = through(image, "PNG", transparency=value)
    assert colour_of(back) == (255, 255, 255)


def test_one_bit_is_black_and_white() -> None:
    assert colour_of(Image.new("1", (4, 4), 1)) == (255, 255, 255)
    assert flatten_to_8_bits(Image.new("1", (4, 4), 0)).mode == "L"


def test_what_is_plain_already_is_not_copied() -> None:
    """An image of 50 megapixels takes 200 MB as it is."""
    image = Image.new("RGB", (4, 4), ORANGE)
    assert flatten_to_8_bits(image) is image


LANCZOS = Image.Resampling.LANCZOS


def photo(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    """Soft shapes with some grain: what a photo is to a filter."""
    rng = np.random.default_rng(7)
    bands = len(Image.new(mode, (1, 1)).getbands())
    coarse = rng.integers(0, 256, (max(1, size[1] // 6), max(1, size[0] // 6), bands), dtype=np.uint8)
    rows = [Image.fromarray(coarse[..., band]).resize(size, Image.Resampling.BICUBIC) for band in range(bands)]
    return Image.merge(mode, rows) if bands > 1 else rows[0]


def apart(one: Image.Image, other: Image.Image) -> float:
    """The greatest difference of two values, and thirty times the mean one where that is more."""
    differences = np.abs(np.asarray(one, np.int16) - np.asarray(other, np.int16))
    return float(max(differences.max(), 30 * differences.mean()))


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("size", [(90, 60), (60, 90), (300, 200), (200, 300), (30, 20), (40, 300), (1, 700), (700, 1)])
def test_the_image_is_that_of_pillows_lanczos(mode: str, size: tuple[int, int]) -> None:
    image = photo(size, mode)
    ours = resample(image, (48, 48), (0, 0, *size))
    assert (ours.mode, ours.size) == (mode, (48, 48))
    assert apart(ours, image.resize((48, 48), LANCZOS)) <= 2


@pytest.mark.parametrize("size", [(320, 240), (240, 320), (400, 100), (100, 400), (900, 700), (60, 40)])
def test_directions_follow_each_other_as_in_pillow(size: tuple[int, int]) -> None:
    # Where values are cut off at black and white between the two directions, the order of these matters.
    image = draw_noise(size, 200)
    assert apart(resample(image, (128, 128), (0, 0, *size)), image.resize((128, 128), LANCZOS)) <= 2


def test_a_part_that_ends_within_pixels_is_met_exactly() -> None:
    image, box = photo((120, 90)), (10.25, 3.5, 99.75, 80.0)
    assert apart(resample(image, (40, 32), box), image.resize((40, 32), LANCZOS, box)) <= 2


def test_where_the_library_is_missing_it_is_pillow_that_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    image, box = photo((120, 90)), (10.25, 3.5, 99.75, 80.0)
    monkeypatch.setattr(resampling, "Resizer", None)
    assert resample(image, (40, 32), box) == image.resize((40, 32), LANCZOS, box)


def test_what_has_the_size_already_is_left_alone() -> None:
    image = photo((32, 32))
    assert resample(image, (32, 32), (0, 0, 32, 32)) is image


def with_instructions(extensions: CpuExtensions, image: Image.Image, size: ImageSize, box: CropBox) -> bytes:
    """As a processor does it that has these instructions at most."""

    class Limited(Resizer):
        def __init__(self) -> None:
            super().__init__()
            self.cpu_extensions = extensions
            assert self.cpu_extensions is extensions, "the library took others"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampling, "Resizer", Limited)
        return resample(image, size, box).tobytes()


def instructions_here() -> list[CpuExtensions]:
    """Those of this processor, beside plain Rust, which every processor runs."""
    flags = set(Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split())
    known = {"sse4_1": CpuExtensions.sse4_1, "avx2": CpuExtensions.avx2, "asimd": CpuExtensions.neon}
    return [extensions for flag, extensions in known.items() if flag in flags]


@given(
    st.sampled_from(["L", "RGB", "CMYK"]),
    st.tuples(st.integers(1, 200), st.integers(1, 200)),
    st.tuples(st.integers(1, 200), st.integers(1, 200)),
    st.tuples(st.floats(0, 0.4), st.floats(0, 0.4), st.floats(0.6, 1), st.floats(0.6, 1)),
    st.integers(0, 2**32),
)
@settings(max_examples=40)
def test_bytes_are_of_no_processor(mode: str, stored: ImageSize, size: ImageSize, part: CropBox, seed: int) -> None:
    bands = len(Image.new(mode, (1, 1)).getbands())
    values = np.random.default_rng(seed).integers(0, 256, (stored[1], stored[0], bands), dtype=np.uint8)
    image = Image.frombytes(mode, stored, values.tobytes())
    for box in ((0, 0, *stored), (part[0] * stored[0], part[1] * stored[1], part[2] * stored[0], part[3] * stored[1])):
        plain = with_instructions(CpuExtensions.none, image, size, box)
        for extensions in instructions_here():
            assert with_instructions(extensions, image, size, box) == plain, extensions


def test_no_thread_is_started() -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = threads()
    resample(photo((900, 700)), (300, 300), (0, 0, 900, 700))
    assert threads() == before and threading.active_count() <= before
