"""Rendering: every image becomes the same kind of small JPEG, and looks as it should."""

import errno
import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageDraw, ImageOps, JpegImagePlugin

from querytruth.array_types import GreyImage
from querytruth.backends.images import rendering
from querytruth.backends.images.image_reading import ScannedImage, read_image
from querytruth.backends.images.rendering import (
    PixelsJob,
    RenderingError,
    RenderJob,
    ThumbnailJob,
    make_thumbnail,
    read_rendered_size,
    render_image,
    run_pixels_job,
    run_render_job,
    run_thumbnail_job,
)
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.models.request_images import decode_upright
from tests.drawn_views import whole_hash
from tests.images import encode_image, make_exif, make_png_bomb

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


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_upright_however_the_camera_was_held(kind: str, orientation: int) -> None:
    undo = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}  # what turns an upright image into the stored one
    upright = quarters()
    upright.getexif()[0x0112] = undo[orientation]
    stored = ImageOps.exif_transpose(upright)
    data = encode_image(stored, kind, exif=make_exif({0x0112: orientation}))
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
    modes = {colour: "RGBA" if colour[0] == "#" else shown.mode for colour in before}
    frames = [*(Image.new("RGBA", (40, 40), colour).convert(modes[colour]) for colour in before), shown, last]
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
    exif = make_exif({0x010E: "by whom"})
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


def test_an_image_is_rendered_where_the_current_folder_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process lives longer than the folder in which it was started."""
    small = encode_image(Image.new("RGB", (60, 40), "teal"), "JPEG")
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert make_thumbnail(small, 320)


def render(source: Path | str, target: Path, sha256: str | None = None) -> Any:
    """The digest of what was written, or a reason and a detail."""
    return run_render_job(RenderJob(str(source), str(target), 32, "squash", sha256))


def small() -> Image.Image:
    return Image.linear_gradient("L").resize((80, 60))


def test_the_digest_of_what_was_written_is_returned(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encode_image(small(), "JPEG"))
    target = tmp_path / "deep" / "er" / "b.jpg"
    digest = render(tmp_path / "a.jpg", target)
    assert digest == hashlib.sha256(target.read_bytes()).hexdigest()
    assert opened(target.read_bytes()).size == (32, 32)
    assert [path.name for path in target.parent.iterdir()] == ["b.jpg"]


def test_a_file_that_changed_since_its_scan_is_not_decoded(tmp_path: Path) -> None:
    place, target = tmp_path / "a.png", tmp_path / "b.jpg"
    place.write_bytes(encode_image(small()))
    sha256 = hashlib.sha256(place.read_bytes()).hexdigest()
    place.write_bytes(encode_image(Image.new("RGB", (40, 30), "red")))
    outcome = render(place, target, sha256)
    assert outcome[0] == "changed_since_scan" and not target.exists()
    assert run_thumbnail_job(ThumbnailJob(str(place), 32, sha256=sha256[:20])) is None
    assert run_pixels_job(PixelsJob(str(place), 32, sha256))[0] == "changed"
    place.write_bytes(encode_image(small()))
    assert len(render(place, target, sha256)) == 64
    assert run_thumbnail_job(ThumbnailJob(str(place), 32, sha256=sha256[:20])) is not None


def test_an_image_may_lie_on_any_file_system(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://album/ä.png", "wb") as file:
        file.write(encode_image(small()))
    assert len(render("memory://album/ä.png", tmp_path / "a.jpg")) == 64
    assert opened((tmp_path / "a.jpg").read_bytes()).size == (32, 32)
    fault = render("memory://album/gone.png", tmp_path / "b.jpg")
    assert fault and fault[0] == "cannot_be_rendered"
    with pytest.raises(OSError, match="cannot be read"):  # no image's fault, and no traceback with a password in it
        render("nosuch://user:secret@host/a.png", tmp_path / "b.jpg")


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"", "not an image"),
        (b"<html>", "not an image"),
        (b"P6 10 10 255 " + b"x" * 300, "not an image"),
        (b"\xff\xd8\xff", "SyntaxError"),
        (encode_image(Image.effect_noise((300, 300), 90), "JPEG")[:3000], "truncated"),
        (make_png_bomb(60_000, 60_000), "60000 x 60000"),
    ],
)
def test_a_bad_image_is_a_reason_never_an_exception(tmp_path: Path, data: bytes, detail: str) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    fault = render(tmp_path / "a.jpg", tmp_path / "b.jpg")
    assert fault and fault[0] == "cannot_be_rendered" and detail in fault[1]
    assert not (tmp_path / "b.jpg").exists()
    with pytest.raises(RenderingError, match=detail):
        make_thumbnail(data, 32)
    assert run_thumbnail_job(ThumbnailJob(str(tmp_path / "a.jpg"), 32)) is None


def test_what_is_no_file_or_too_large_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "a.png").write_bytes(encode_image(small()))
    monkeypatch.setattr(rendering, "MAX_FILE_BYTES", 50)
    reasons = {"pipe.jpg": "not a regular file", "gone.jpg": "No such file or directory", "": "Is a directory"}
    reasons["a.png"] = "more than 50 bytes"
    for name, reason in reasons.items():
        assert render(tmp_path / name, tmp_path / "b.jpg")[1] == reason


@pytest.mark.parametrize(("number", "place"), [(errno.ENOSPC, "write_atomically"), (errno.EACCES, "read_bounded")])
def test_a_full_disk_or_a_forbidden_file_is_not_the_images_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, place: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "a.png").write_bytes(encode_image(small()))
    monkeypatch.setattr(rendering, place, fail)
    with pytest.raises(OSError, match=os.strerror(number)):
        render(tmp_path / "a.png", tmp_path / "b.jpg")


def test_want_of_memory_is_for_the_worker_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(rendering, "open_limited", fail)
    with pytest.raises(MemoryError):
        render_image(encode_image(small()), 32, "squash")


def test_hostile_files_are_rendered_or_refused(shared: Callable[[str], Path]) -> None:
    done = 0
    for path in sorted(path for path in shared("malformed").rglob("*") if path.is_file()):
        try:
            done += opened(render_image(path.read_bytes(), 64, "fit")).size == (64, 64)
        except RenderingError as error:
            assert str(error)
    assert done > 250


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "kind"), [("RGBA", "PNG"), ("RGB", "WEBP"), ("F", "TIFF"), ("CMYK", "JPEG")])
def test_fifty_megapixels_fit_into_a_worker_of_one_gibibyte(tmp_path: Path, mode: str, kind: str) -> None:
    (tmp_path / "a").write_bytes(encode_image(Image.new(mode, (8000, 6200), 1), kind))
    job = RenderJob(str(tmp_path / "a"), str(tmp_path / "b.jpg"), 512, "squash", None)
    [digest] = map_in_workers(run_render_job, [job], writable=tmp_path)
    assert digest == hashlib.sha256((tmp_path / "b.jpg").read_bytes()).hexdigest()


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
