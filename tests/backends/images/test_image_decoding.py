"""Images of every form decoded, and damaged JPEG files told from whole ones, though every viewer shows them."""

import io
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pillow_heif import register_heif_opener

from querytruth.backends.images.image_headers import sniff_format
from querytruth.backends.images.image_reading import ScannedImage, read_image
from querytruth.backends.images.jpeg_files import read_plain_jpeg_header
from querytruth.backends.images.rendering import render_image
from tests.drawn_views import whole_hash
from tests.images import draw_noise, encode_image, make_exif, save_scene

Reader = Callable[[bytes], ScannedImage]

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF")
register_heif_opener()
UNDONE = {  # what a camera that is held so does to the image, by orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def rewritten(data: bytes) -> bytes:
    """The same image with an EXIF block, a comment and no JFIF header."""
    out = data[:2]
    for marker, text in ((b"\xff\xe1", b"Exif\x00\x00" + bytes(40)), (b"\xff\xfe", b"a comment")):
        out += marker + struct.pack(">H", len(text) + 2) + text
    return out + data[4 + struct.unpack_from(">H", data, 4)[0] :]


@pytest.mark.parametrize("size", [(300, 200), (3000, 2000)])
def test_pixels_are_the_same_after_a_change_of_metadata_alone(tmp_path: Path, size: tuple[int, int]) -> None:
    path = save_scene(tmp_path / "a.jpg", size=size, quality=60)
    (tmp_path / "b.jpg").write_bytes(rewritten(path.read_bytes()))
    first, second = read_image(path), read_image(tmp_path / "b.jpg")
    assert second.reason is None
    assert first.sha256 != second.sha256 and first.pixels == second.pixels and first.views == second.views


def test_pixels_are_the_same_in_any_lossless_format(tmp_path: Path) -> None:
    kinds = [("a.png", "PNG", {}), ("b.bmp", "BMP", {}), ("c.webp", "WEBP", {"lossless": True}), ("d.tif", "TIFF", {})]
    assert len({read_image(save_scene(tmp_path / name, kind, **more)).pixels for name, kind, more in kinds}) == 1


def test_pixels_differ_with_colour_alpha_size_and_orientation(tmp_path: Path) -> None:
    colour = draw_noise((300, 200), 60)
    colour.save(tmp_path / "a.jpg", quality=90)
    decoded = Image.open(tmp_path / "a.jpg")
    turned = make_exif({0x0112: 3})
    found = [read_image(tmp_path / "a.jpg").pixels]
    grey = decoded.convert("L")
    others = [(grey, {}), (grey.convert("RGB"), {}), (colour, {"exif": turned}), (colour.crop((0, 0, 299, 200)), {})]
    for n, (image, more) in enumerate(others):
        image.save(tmp_path / f"{n}.jpg", quality=90, **more)
        found.append(read_image(tmp_path / f"{n}.jpg").pixels)
    for n, alpha in enumerate((255, 254, 0)):
        layer = colour.copy()
        layer.putalpha(alpha)
        layer.save(tmp_path / f"{n}.png")
        found.append(read_image(tmp_path / f"{n}.png").pixels)
    assert len(set(found)) == len(found) and None not in found


def test_an_image_that_exif_turns_has_the_hash_of_one_that_is_really_turned(tmp_path: Path) -> None:
    upright = Image.open(save_scene(tmp_path / "a.png", "PNG", size=(400, 300)))
    hashes = []
    for orientation in range(1, 9):
        stored = upright.transpose(UNDONE[orientation]) if orientation > 1 else upright
        stored.save(tmp_path / "b.png", exif=make_exif({0x0112: orientation}))
        found = read_image(tmp_path / "b.png")
        assert (found.width, found.height, found.orientation) == (400, 300, orientation)
        hashes.append(whole_hash(found))
    assert all(hashes) and max((hashes[0] ^ other).bit_count() for other in hashes) <= 2


def encoded(kind: str, size: tuple[int, int] = (90, 60), mode: str = "RGB", **options: Any) -> bytes:
    return encode_image(draw_noise(size).convert(mode), kind, **options)


def animated(kind: str) -> bytes:
    rest = [Image.effect_noise((90, 60), 70).convert("RGB") for _ in range(3)]
    return encoded(kind, save_all=True, append_images=rest)


@pytest.mark.parametrize(
    "data",
    [
        *[pytest.param(encoded(kind), id=kind) for kind in FORMATS],
        *[pytest.param(animated(kind), id=f"animated {kind}") for kind in ("PNG", "WEBP", "GIF", "TIFF")],
        pytest.param(encoded("JPEG", (900, 600), progressive=True), id="progressive JPEG"),
        pytest.param(encoded("JPEG", (2400, 1600), quality=40), id="large JPEG"),
        pytest.param(encoded("TIFF", compression="tiff_lzw"), id="compressed TIFF"),
        pytest.param(encoded("WEBP", lossless=True), id="lossless WEBP"),
    ],
)
@pytest.mark.thorough
def test_a_file_cut_anywhere_is_not_taken_for_a_whole_one(read: Reader, data: bytes) -> None:
    assert read(data).reason is None
    for share in range(1, 40):
        found = read(data[: len(data) * share // 40])
        assert found.reason in ("cannot_be_decoded", "not_an_image"), share
    assert read(data.rstrip(b"\x00")[:-3]).reason == "cannot_be_decoded", "the very end"


def test_rubbish_after_the_image_does_not_matter(read: Reader) -> None:
    for kind in FORMATS:
        data = encoded(kind)
        assert read(data + bytes(1000)).reason is None, kind
        assert read(data + bytes(1000)).pixels == read(data).pixels, kind


def test_a_phone_s_jpeg_with_a_second_image_behind_it_is_a_jpeg(read: Reader) -> None:
    found = read(encoded("MPO", save_all=True, append_images=[Image.new("RGB", (5000, 5000))] * 3))
    assert (found.reason, found.format, found.width) == (None, "JPEG", 90)


def endless_tiff() -> bytes:
    """100,000 pages of one pixel, which share it."""
    tags = [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 4), (277, 1), (278, 1), (279, 1)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    size = 2 + len(entries) + 4
    pages = [struct.pack("<H", len(tags)) + entries + struct.pack("<I", 8 + size * n) for n in range(1, 100_001)]
    return b"II*\x00" + struct.pack("<I", 8) + b"".join(pages)


def lying_png() -> bytes:
    """It says that it has two billion frames."""
    import zlib

    data = animated("PNG")
    place = data.index(b"acTL")
    told = b"acTL" + struct.pack(">II", 2**31 - 1, 0)
    return data[:place] + told + struct.pack(">I", zlib.crc32(told)) + data[place + 16 :]


def endless_gif() -> bytes:
    data = encoded("GIF", (1, 1), "L")
    return data[:-1] + data[data.index(b",") : -1] * 200_000 + b";"


def growing_gif() -> bytes:
    """Its second frame is 60,000 pixels wide and high."""
    data = bytearray(animated("GIF"))
    second = data.index(b",\x00\x00\x00\x00", data.index(b",\x00\x00\x00\x00") + 20)
    struct.pack_into("<HH", data, second + 5, 60_000, 60_000)
    return bytes(data)


@pytest.mark.parametrize("hostile", [endless_tiff, lying_png, endless_gif, growing_gif])
@pytest.mark.thorough
def test_no_image_takes_long_by_its_frames(read: Reader, hostile: Callable[[], bytes]) -> None:
    data, started = hostile(), time.process_time()
    assert read(data).reason == "too_many_pixels"
    assert time.process_time() - started < 5


def test_a_large_webp_is_refused_before_its_memory(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(animated("WEBP"))
    data[24:30] = (9999).to_bytes(3, "little") * 2
    monkeypatch.setattr("PIL._webp.WebPAnimDecoder", None, raising=False)  # private: may be gone
    assert read(bytes(data)).reason == "too_many_pixels"


def blotches(size: tuple[int, int] = (320, 240)) -> Image.Image:
    values = np.random.default_rng(5).integers(0, 256, (6, 8), dtype=np.uint8)
    return Image.fromarray(values).resize(size, Image.Resampling.BICUBIC)


def sixteen() -> Image.Image:
    return Image.fromarray(np.asarray(blotches(), np.uint16) * 257)


def on_glass() -> Image.Image:
    """Black, as transparent as the blotches are light: on white the same image again."""
    layer = Image.new("LA", (320, 240))
    layer.putalpha(blotches().point(lambda value: 255 - value))
    return layer


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        (sixteen(), "PNG"),
        (sixteen(), "TIFF"),
        (Image.fromarray(np.asarray(blotches(), np.int32) * 1_000_000), "TIFF"),
        (Image.fromarray(np.asarray(blotches(), np.float32) / 300 - 0.2), "TIFF"),
        (on_glass(), "PNG"),
        (on_glass().convert("RGBA"), "WEBP"),
        (on_glass().convert("RGBA"), "TIFF"),
        (blotches().convert("CMYK"), "JPEG"),
        (blotches().convert("CMYK"), "TIFF"),
        (blotches().convert("RGB").convert("YCbCr"), "TIFF"),
        (blotches().convert("RGB").quantize(200), "PNG"),
        (blotches().convert("RGB"), "JPEG"),
        (blotches((2560, 1920)), "JPEG"),
        (blotches((2560, 1920)).convert("RGB"), "PNG"),
        (blotches().convert("1"), "PNG"),
    ],
)
def test_every_kind_of_pixel_is_right(read: Reader, image: Image.Image, kind: str) -> None:
    out = encode_image(image, kind)
    found, wanted = read(out), read(encode_image(blotches(), "PNG"))
    assert found.reason is None and whole_hash(wanted)
    assert (whole_hash(found) ^ whole_hash(wanted)).bit_count() <= 4
    assert found.brightness == pytest.approx(wanted.brightness, abs=0.03)


def test_a_jpeg_of_rgb_values_is_seen_right(read: Reader) -> None:
    first, second = (io.BytesIO() for _ in range(2))
    noise = Image.merge("RGB", [blotches(), blotches().rotate(90), blotches().rotate(180)])
    noise.save(first, "JPEG", quality=95)
    noise.save(second, "JPEG", quality=95, keep_rgb=True)
    one, two = whole_hash(read(first.getvalue())), whole_hash(read(second.getvalue()))
    assert one and (one ^ two).bit_count() <= 2


def test_large_images_have_no_seams_of_bands(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    out = encode_image(Image.merge("RGBA", [blotches((700, 900))] * 4), "PNG", compress_level=1)
    whole = read(out)
    monkeypatch.setattr("querytruth.backends.images.image_decoding._BAND", 5000)
    banded = read(out)
    assert (whole.views, whole.sharpness, whole.brightness) == (banded.views, banded.sharpness, banded.brightness)


def mutated(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        place = rng.randrange(len(changed)) if rng.random() < 0.7 else rng.randrange(min(80, len(changed)))
        how = rng.randrange(5)
        if how == 0:
            changed[place] = rng.randrange(256)
        elif how == 1:
            changed[place] ^= 1 << rng.randrange(8)
        elif how == 2:
            changed[place : place + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff"))
        elif how == 3:
            del changed[place : place + rng.randrange(1, 40)]
        else:
            changed[place:place] = changed[place : place + rng.randrange(1, 40)]
        if not changed:
            break
    return bytes(changed)


def seeds(shared: Callable[[str], Path]) -> list[bytes]:
    made = [encoded(kind, (30, 20)) for kind in FORMATS] + [animated(kind) for kind in ("PNG", "WEBP", "GIF", "TIFF")]
    made += [encoded("TIFF", (30, 20), compression=how) for how in ("tiff_lzw", "tiff_deflate", "jpeg", "packbits")]
    made += [encoded("PNG", (30, 20), mode) for mode in ("1", "P", "LA", "I;16")]
    try:
        found = [path.read_bytes() for path in sorted(shared("malformed").rglob("*")) if path.is_file()]
    except pytest.skip.Exception:
        found = []
    return made * 10 + [data for data in found if len(data) < 60_000 and sniff_format(data)]


@pytest.mark.slow
def test_5_000_mutated_files_are_no_error(read: Reader, shared: Callable[[str], Path]) -> None:
    rng, sown = random.Random(1), seeds(shared)
    reasons: dict[str | None, int] = {}
    for _ in range(5000):
        data, started = mutated(rng.choice(sown), rng), time.process_time()
        found = read(data)
        assert time.process_time() - started < 20
        assert (found.reason in (None, "damaged")) == (found.sha256 is not None)
        reasons[found.reason] = reasons.get(found.reason, 0) + 1
    refused = {"not_an_image", "camera_raw", "cannot_be_decoded", "too_many_pixels", "empty_file"}
    assert set(reasons) <= {None, "damaged", *refused}
    assert min(reasons.get(None, 0), reasons.get("cannot_be_decoded", 0)) > 250, "some survive, some do not"


def photo_like(seed: int) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    return Image.fromarray(values).resize((320, 240), Image.Resampling.BICUBIC)


def encoded_jpeg(seed: int, **options: object) -> bytes:
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


def test_every_file_that_is_cut_and_closed_again_is_damaged(read: Reader) -> None:
    for seed in range(20):
        data = encoded_jpeg(seed)
        assert read(data).reason is None
        for share in (0.1, 0.5, 0.9):
            found = read(cut_and_closed(data, share))
            assert (found.reason, found.detail) == ("damaged", "Corrupt JPEG data: premature end of data segment")
            assert (found.width, found.height) == (320, 240) and found.sha256 and whole_hash(found)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}, {"keep_rgb": True}])
@pytest.mark.parametrize("damage", [with_hole, zeroed, lambda data: cut_and_closed(data, 0.6)])
def test_holes_and_zeros_are_damage_in_every_kind_of_jpeg(
    read: Reader, damage: Callable[[bytes], bytes], options: dict[str, object]
) -> None:
    data = encoded_jpeg(3, **options)
    assert read(data).reason is None
    assert read(damage(data)).reason in ("damaged", "cannot_be_decoded")


def test_damage_is_found_in_files_that_pillow_opens(read: Reader) -> None:
    cmyk = encode_image(photo_like(1).convert("CMYK"), "JPEG", quality=90)
    padded = encoded_jpeg(1)[:2] + b"\xff" + encoded_jpeg(1)[2:]
    for data in (cmyk, padded):
        assert read(data).reason is None
        assert read(data[: len(data) * 2 // 3] + b"\xff\xd9").reason == "damaged"


def test_few_bytes_between_the_codes_and_the_end_are_no_damage(read: Reader) -> None:
    data = encoded_jpeg(5)
    assert read(data[:-2] + bytes(8) + data[-2:]).reason is None, "padding of a camera"
    assert read(data + bytes(500)).reason is None, "rubbish behind the image"
    assert read(data[:-2] + bytes(400) + data[-2:]).reason == "damaged", "codes that fit nowhere"


def with_chroma_table(data: bytes, add: int) -> bytes:
    """The same codes with other steps between colours."""
    tables = [place for place in range(2, len(data)) if data.startswith(b"\xff\xdb", place)]
    chroma = tables[1] + 5
    return data[:chroma] + bytes(value + add for value in data[chroma : chroma + 64]) + data[chroma + 64 :]


def test_the_same_luma_with_other_colours_is_no_duplicate_by_pixels(read: Reader) -> None:
    data = encoded_jpeg(7)
    recoloured = with_chroma_table(data, 9)
    difference = np.asarray(Image.open(io.BytesIO(data)), int) - np.asarray(Image.open(io.BytesIO(recoloured)))
    assert abs(difference).max() > 20, "people see it"
    one, other = read(data), read(recoloured)
    assert whole_hash(one) and (whole_hash(one) ^ whole_hash(other)).bit_count() <= 8
    assert one.pixels != other.pixels


def test_one_changed_byte_anywhere_is_another_image(read: Reader) -> None:
    """In every 50th byte of the codes, one bit, which often changes colours alone."""
    data = encoded_jpeg(7)
    whole = read(data).pixels
    for place in range(coded_from(data), len(data) - 2, 50):
        if data[place] == 0xFF or data[place - 1] == 0xFF:
            continue
        assert read(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]).pixels != whole, place


@pytest.mark.thorough
def test_tables_in_one_segment_or_in_two_are_the_same_pixels(read: Reader) -> None:
    data = encoded_jpeg(7)
    first = data.index(b"\xff\xdb")
    second = data.index(b"\xff\xdb", first + 2)
    joined = b"\xff\xdb" + struct.pack(">H", 2 + 2 * 65) + data[first + 4 : first + 69] + data[second + 4 : second + 69]
    other = data[:first] + joined + data[second + 69 :]
    assert other != data and read(other).pixels == read(data).pixels


@pytest.mark.parametrize(
    "options",
    [{}, {"progressive": True}, {"restart_marker_rows": 1}, {"exif": b"Exif\0\0thumbnail \xff\xd8 \xff\xd9 of it"}],
)
def test_a_file_without_its_end_mark_is_whole(read: Reader, options: dict[str, object]) -> None:
    """A camera or a download left out the last two bytes: every pixel is there, and the file is its closed twin."""
    whole = encoded_jpeg(3, **options)
    for cut in (whole[:-2], whole[:-1]):
        found, rendered = read(cut), Image.open(io.BytesIO(render_image(cut, 64, "longer_side")))
        assert (found.reason, found.width, rendered.size) == (None, 320, (64, 48))
    assert read(whole[:-2]).pixels == read(whole).pixels, "the same codes"
    assert read(whole[:-60]).reason == "cannot_be_decoded", "this one lacks codes"


def test_a_file_of_four_layers_may_lack_its_end_mark_too(read: Reader) -> None:
    out = encode_image(photo_like(1).convert("CMYK"), "JPEG", quality=90)
    assert read(out[:-2]).reason is None
    assert read(out[:-200]).reason == "cannot_be_decoded"


def test_a_file_cut_between_two_scans_is_not_whole(read: Reader) -> None:
    """All codes up to there are good; what would make the image sharp, or gives its colours, is missing."""
    whole = encoded_jpeg(3, progressive=True)
    scans = [place for place in range(len(whole)) if whole.startswith(b"\xff\xda", place)]
    assert len(scans) > 3
    for place in scans[1:]:
        assert read(whole[:place]).reason == "cannot_be_decoded"
