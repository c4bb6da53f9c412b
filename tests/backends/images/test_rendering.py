"""Rendering: every image becomes the same kind of small JPEG, and looks as it should."""

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageOps, JpegImagePlugin

from querytruth.backends.images.rendering import make_thumbnail, read_rendered_size, render_image
from tests.images import encode_image

LANCZOS = Image.Resampling.LANCZOS
MODES = ["squash", "fit", "crop"]


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def pixels(data: bytes) -> np.ndarray[Any, np.dtype[np.int16]]:
    return np.asarray(opened(data), np.int16)


def photo(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(3)
    coarse = Image.fromarray(rng.integers(0, 256, (height // 9, width // 9, 3), dtype=np.uint8))
    return coarse.resize((width, height), Image.Resampling.BICUBIC)


def quarters(width: int = 80, height: int = 60) -> Image.Image:
    """Red and green above, blue and white below."""
    image = Image.new("RGB", (2, 2))
    image.putdata([(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)])
    return image.resize((width, height), Image.Resampling.NEAREST)


def colours_at(data: bytes, *places: tuple[int, int]) -> str:
    """The nearest of red, green, blue, white and grey at each place, by its letter; `.` is grey."""
    image = opened(data)
    seen = [image.getpixel(place) for place in places]
    known = {"R": (255, 0, 0), "G": (0, 255, 0), "B": (0, 0, 255), "W": (255, 255, 255), ".": (128, 128, 128)}
    return "".join(
        min(known, key=lambda name: sum(abs(a - b) for a, b in zip(known[name], colour, strict=True)))  # type: ignore[arg-type]
        for colour in seen
    )


def corners(data: bytes) -> str:
    """The colours of the image's quarters, row by row."""
    right, bottom = opened(data).width - 8, opened(data).height - 8
    return colours_at(data, (8, 8), (right, 8), (8, bottom), (right, bottom))


KINDS = [
    ("RGB", "JPEG"),
    ("L", "JPEG"),
    ("CMYK", "JPEG"),
    ("RGB", "PNG"),
    ("RGBA", "PNG"),
    ("LA", "PNG"),
    ("P", "PNG"),
    ("1", "PNG"),
    ("I;16", "PNG"),
    ("RGBA", "WEBP"),
    ("P", "GIF"),
    ("RGB", "BMP"),
    ("F", "TIFF"),
    ("CMYK", "TIFF"),
    ("LAB", "TIFF"),
]


@given(
    st.sampled_from(KINDS),
    st.one_of(
        st.tuples(st.integers(1, 90), st.integers(1, 90)),
        st.sampled_from([(1, 1), (1, 5000), (5000, 1), (700, 3), (2, 999)]),
    ),
    st.integers(1, 70),
    st.sampled_from(MODES),
)
@settings(max_examples=150)
@pytest.mark.thorough
def test_every_image_becomes_a_square_rgb_jpeg_without_metadata(
    kind: tuple[str, str], size: tuple[int, int], side: int, mode: str
) -> None:
    data = render_image(encode_image(Image.new(kind[0], size), kind[1]), side, mode)
    image = opened(data)
    assert (image.size, image.mode, image.format) == ((side, side), "RGB", "JPEG")
    assert set(image.info) == {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_upright_however_the_camera_was_held(kind: str, orientation: int) -> None:
    undo = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}  # what turns an upright image into the stored one
    upright = quarters()
    upright.getexif()[0x0112] = undo[orientation]
    stored = ImageOps.exif_transpose(upright)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode_image(stored, kind, exif=exif)
    assert corners(render_image(data, 64, "squash")) == corners(render_image(data, 64, "crop")) == "RGBW"
    assert corners(make_thumbnail(data, 40)) == "RGBW"
    assert opened(make_thumbnail(data, 40)).size == (40, 30)
    places = (12, 2), (12, 16), (52, 16), (12, 48), (52, 48), (52, 62)
    assert colours_at(render_image(data, 64, "fit"), *places) == ".RGBW."
    shaped = render_image(data, 64, "longer_side")
    assert corners(shaped) == "RGBW" and opened(shaped).size == (64, 48)


def test_squash_fills_fit_pads_with_grey_and_crop_takes_the_middle() -> None:
    stripes = Image.new("RGB", (300, 100), (255, 0, 0))
    stripes.paste((0, 0, 255), (100, 0, 200, 100))
    data = encode_image(stripes)
    squashed, fitted, cropped = (render_image(data, 90, mode) for mode in MODES)
    assert colours_at(squashed, (4, 4), (45, 4), (86, 4), (4, 86), (45, 86), (86, 86)) == "RBRRBR"
    assert colours_at(fitted, (45, 4), (4, 45), (45, 45), (86, 45), (45, 86)) == ".RBR."
    assert colours_at(cropped, (4, 4), (45, 45), (86, 86)) == "BBB"
    with pytest.raises(KeyError):
        render_image(data, 90, "stretch")


@pytest.mark.parametrize(
    ("stored", "rendered"), [((300, 100), (90, 30)), ((100, 300), (30, 90)), ((80, 60), (80, 60)), ((5000, 3), (90, 1))]
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_the_longer_side_keeps_the_shape_without_bars_and_enlarges_nothing(
    kind: str, stored: tuple[int, int], rendered: tuple[int, int], tmp_path: Path
) -> None:
    image = quarters(*stored)
    data = render_image(encode_image(image, kind), 90, "longer_side")
    (tmp_path / "a.jpg").write_bytes(data)
    assert opened(data).size == read_rendered_size(tmp_path / "a.jpg") == rendered
    if min(rendered) > 1:
        assert corners(data) == "RGBW"


@pytest.mark.thorough
def test_a_thumbnail_of_a_squashed_image_has_the_shape_of_its_original() -> None:
    for original, thumbnail in (((3000, 1000), (320, 107)), ((1000, 3000), (107, 320)), ((60, 30), (60, 30))):
        squashed = render_image(encode_image(quarters(*original)), 128, "squash")
        assert opened(squashed).size == (128, 128)
        shown = make_thumbnail(squashed, 320, original)
        assert opened(shown).size == thumbnail and corners(shown) == "RGBW"
    assert opened(make_thumbnail(squashed, 20, (3000, 1000))).size == (20, 7)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
@pytest.mark.parametrize("before", [[], ["white"], ["black", "black"], ["#80808000"]])
def test_an_animation_is_its_first_frame_that_is_not_blank(kind: str, before: list[str]) -> None:
    shown, last = quarters(40, 40), Image.new("RGB", (40, 40), "blue")
    blank = [
        Image.new("RGBA", (40, 40), colour).convert(shown.mode if colour[0] != "#" else "RGBA") for colour in before
    ]
    frames = [*blank, shown, last]
    data = encode_image(frames[0], kind, save_all=True, append_images=frames[1:])
    assert corners(render_image(data, 16, "squash")) == corners(render_image(encode_image(shown, "PNG"), 16, "squash"))
    red, _, blue = pixels(render_image(encode_image(last, kind), 16, "squash"))[8, 8]
    assert red < 50 and blue > 200, "an image of one colour is itself"


def test_what_transparent_pixels_hide_does_not_bleed_into_the_image() -> None:
    """A light thing cut out of a black photo: at its edge there is light beside hidden black."""
    cut = np.zeros((200, 200, 4), np.uint8)
    cut[50:151, 50:151] = 220, 220, 220, 255
    for kind in ("PNG", "WEBP"):
        data = encode_image(Image.fromarray(cut), kind, lossless=True)
        assert pixels(render_image(data, 64, "squash")).min() >= 217


def test_an_image_is_seen_through_its_profile() -> None:
    """A display whose red lamps are blue, and the other way round."""
    swapped = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for old, new in ((b"rXYZ", b"?XYZ"), (b"bXYZ", b"rXYZ"), (b"?XYZ", b"bXYZ")):
        swapped = swapped.replace(old, new)
    for kind in ("JPEG", "PNG", "WEBP", "TIFF"):
        data = encode_image(quarters(), kind, icc_profile=swapped)
        assert corners(render_image(data, 64, "squash")) == corners(make_thumbnail(data, 64)) == "BGRW"


def test_nothing_that_a_file_says_of_itself_is_left() -> None:
    exif = Image.Exif()
    exif[0x010E] = "by whom"
    secret = {
        "exif": exif,
        "comment": b"where",
        "dpi": (300, 300),
        "xmp": b"<x:xmpmeta/>",
        "icc_profile": b"no profile",
    }
    for data in (
        encode_image(photo(600, 400), "JPEG", **secret),
        encode_image(photo(64, 64), "JPEG", **secret),
        encode_image(photo(600, 400), "PNG", exif=exif, dpi=(300, 300)),
        encode_image(photo(90, 90), "GIF", comment=b"where"),
    ):
        for out in (render_image(data, 64, "squash"), make_thumbnail(data, 64)):
            assert set(opened(out).info) == {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
            assert opened(out).info["jfif_density"] == (1, 1)
            assert b"where" not in out


@pytest.mark.thorough
def test_the_same_file_gives_the_same_bytes_in_every_thread() -> None:
    files = [encode_image(photo(*size), "JPEG") for size in ((640, 480), (480, 640), (1500, 1100))] * 3
    first = [render_image(data, 128, "fit") for data in files]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda data: render_image(data, 128, "fit"), files)) == first


def likeness(one: bytes, other: bytes) -> float:
    """Mean SSIM (Wang et al. 2004) of the luma, over blocks of 8 x 8."""

    def blocks(data: bytes) -> np.ndarray[Any, np.dtype[np.float64]]:
        grey = np.asarray(opened(data).convert("L"), np.float64)
        side = len(grey) // 8 * 8
        return grey[:side, :side].reshape(side // 8, 8, side // 8, 8).transpose(0, 2, 1, 3).reshape(-1, 64)

    x, y = blocks(one), blocks(other)
    (mx, my), (vx, vy) = (x.mean(1), y.mean(1)), (x.var(1), y.var(1))
    both = ((x - mx[:, None]) * (y - my[:, None])).mean(1)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    return float(np.mean((2 * mx * my + c1) * (2 * both + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))))


def with_lanczos(data: bytes, side: int, mode: str) -> bytes:
    """What the rendering must look like: a full decode, and Pillow's best filter."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    if mode == "crop":
        image = ImageOps.fit(image, (side, side), LANCZOS)
    elif mode == "fit":
        image = ImageOps.pad(image, (side, side), LANCZOS, color=(128, 128, 128))
    else:
        image = image.resize((side, side), LANCZOS)
    return encode_image(image, "JPEG", quality=90)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(500, 400), (400, 500), (1400, 1000), (1000, 1500), (3000, 900)])
@pytest.mark.thorough
def test_the_image_is_that_of_a_full_decode_and_lanczos(mode: str, size: tuple[int, int]) -> None:
    data = encode_image(photo(*size), "JPEG", quality=92)
    assert likeness(render_image(data, 256, mode), with_lanczos(data, 256, mode)) > 0.99


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.thorough
def test_real_photos_look_as_a_full_decode_and_lanczos_make_them(shared: Callable[[str], Path], mode: str) -> None:
    files = sorted(shared("near_duplicates").rglob("aaa-orig.jpg")) + sorted(shared("coco_tiny").rglob("*.jpg"))[:8]
    for data in (file.read_bytes() for file in files):
        if "icc_profile" not in Image.open(io.BytesIO(data)).info:
            for side in (512, 224):
                assert likeness(render_image(data, side, mode), with_lanczos(data, side, mode)) > 0.99


def test_a_large_jpeg_is_decoded_small_and_one_near_the_size_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    draft = JpegImagePlugin.JpegImageFile.draft

    def watched(image: Any, mode: Any, size: tuple[int, int]) -> Any:
        asked.append(image.width // size[0])
        return draft(image, mode, size)

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "draft", watched)
    for width, height in ((1000, 750), (1800, 1400), (6000, 4500), (1800, 500)):
        render_image(encode_image(Image.new("RGB", (width, height)), "JPEG"), 256, "squash")
    assert asked == [1, 2, 4, 1], "the shorter side counts: 500 is less than twice 256"


def test_a_thumbnail_keeps_its_proportions_and_is_never_enlarged() -> None:
    assert opened(make_thumbnail(encode_image(photo(900, 300), "JPEG"), 90)).size == (90, 30)
    assert opened(make_thumbnail(encode_image(quarters(40, 20)), 90)).size == (40, 20)
    assert opened(make_thumbnail(encode_image(Image.new("L", (5000, 1))), 90)).size == (90, 1)


def test_a_small_image_is_rendered_where_the_current_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker process lives longer than the folder in which it was started."""
    small = encode_image(Image.new("RGB", (60, 40), "teal"), "JPEG")
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert make_thumbnail(small, 320)
