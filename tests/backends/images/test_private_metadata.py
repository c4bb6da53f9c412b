"""What cameras, editors and people wrote into an image file goes; what is seen stays to the bit."""

import io
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, PngImagePlugin

from querytruth.backends.images.exif import read_exif
from querytruth.backends.images.private_metadata import remove_metadata
from tests.images import encode_image, make_exif

GPS, DETAILS, ORIENTATION = 0x8825, 0x8769, 0x0112
PLANTED = "Rosalind-Owner-7731"
XMP = f"""<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description photoshop:City="{PLANTED}" exif:GPSLatitude="31,13.8N">
<dc:creator>{PLANTED}</dc:creator></rdf:Description></x:xmpmeta>""".encode()
IPTC = b"\xff\xed" + struct.pack(">H", 2 + 14 + len(PLANTED)) + b"Photoshop 3.0\0" + PLANTED.encode()


def photo(kind: str, **more: Any) -> bytes:
    tags = {ORIENTATION: 6} | dict.fromkeys((0x010E, 0x010F, 0x013B, 0x8298), PLANTED)
    details = {0x9003: "2019:05:03 10:00:00"} | dict.fromkeys((0x927C, 0x9286), PLANTED.encode())
    details |= dict.fromkeys((0xA430, 0xA431, 0xA435), PLANTED)
    gps = {1: "N", 2: (31.0, 13.0, 48.5), 3: "E", 4: (121.0, 28.0, 25.5)}
    colours = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    image = Image.linear_gradient("L").convert("RGB")
    return encode_image(image, kind, exif=make_exif(tags, details, gps), icc_profile=colours, **more)


def png() -> bytes:
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Author", PLANTED)
    texts.add_text("Comment", PLANTED, zip=True)
    texts.add_itxt("XML:com.adobe.xmp", XMP.decode())
    return photo("PNG", pnginfo=texts)


def gif() -> bytes:
    frames, file = [Image.effect_noise((9, 9), shade).convert("P") for shade in (30, 70, 140)], io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], loop=2, duration=40, comment=PLANTED)
    return file.getvalue()


def jpeg() -> bytes:
    data = photo("JPEG", xmp=XMP, comment=PLANTED, progressive=True)
    return data[:2] + IPTC + data[2:] + PLANTED.encode()  # as a phone writes a video after the image


PHOTOS = {
    "JPEG": jpeg,
    "PNG": png,
    "WEBP": lambda: photo("WEBP", xmp=XMP, lossless=True),
    "TIFF": lambda: photo("TIFF", save_all=True, append_images=[Image.new("RGB", (9, 9))]),  # of two pages
}


@pytest.mark.parametrize("kind", PHOTOS)
def test_private_metadata_goes_and_what_is_seen_stays(kind: str) -> None:
    data = PHOTOS[kind]()
    assert PLANTED.encode() in data
    cleaned = remove_metadata(data)
    before, after = Image.open(io.BytesIO(data)), Image.open(io.BytesIO(cleaned))
    assert before.tobytes() == after.tobytes() and before.mode == after.mode
    assert before.info["icc_profile"] == after.info["icc_profile"]
    exif = Image.open(io.BytesIO(cleaned)).getexif()  # before a TIFF is decoded, which turns it
    assert exif[ORIENTATION] == 6 and not any(exif.get_ifd(GPS).values())
    assert exif.get_ifd(DETAILS)[0x9003] == "2019:05:03 10:00:00"
    assert PLANTED.encode() not in cleaned and b"31,13" not in cleaned
    assert not any(PLANTED in str(value) for value in after.info.values())
    assert remove_metadata(cleaned) == cleaned


def test_an_animation_keeps_its_frames_and_loops() -> None:
    data = gif()
    cleaned = remove_metadata(data)
    assert PLANTED.encode() in data and PLANTED.encode() not in cleaned
    before, after = Image.open(io.BytesIO(data)), Image.open(io.BytesIO(cleaned))
    assert after.n_frames == before.n_frames == 3 and after.info["loop"] == 2 and after.info["duration"] == 40  # type: ignore[attr-defined]
    for frame in range(3):
        before.seek(frame)
        after.seek(frame)
        assert before.convert("RGB").tobytes() == after.convert("RGB").tobytes()


@pytest.mark.parametrize(
    "data", [b"", b"no image", b"II*\0", b"MM\0*\xff\xff\xff\xff", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"]
)
def test_what_is_no_image_is_unchanged(data: bytes) -> None:
    assert remove_metadata(data) == data


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_what_has_none_is_unchanged(kind: str) -> None:
    file = encode_image(Image.linear_gradient("L").convert("RGB"), kind)
    assert remove_metadata(file) == file


@given(st.sampled_from(sorted(PHOTOS)), st.integers(0, 900), st.binary(min_size=1, max_size=12))
def test_a_damaged_file_never_fails(kind: str, place: int, noise: bytes) -> None:
    data = PHOTOS[kind]()
    assert isinstance(remove_metadata(data[:place] + noise + data[place + len(noise) :]), bytes)


def test_a_chunk_of_a_png_has_its_checksum() -> None:
    cleaned, at = remove_metadata(png()), 8
    while at < len(cleaned):
        size = int.from_bytes(cleaned[at : at + 4], "big")
        chunk, checksum = cleaned[at + 4 : at + 8 + size], cleaned[at + 8 + size : at + 12 + size]
        assert zlib.crc32(chunk) == int.from_bytes(checksum, "big")
        at += 12 + size


@pytest.mark.thorough
def test_real_photos_keep_pixels_time_and_orientation(shared: Callable[[str], Path], tmp_path: Path) -> None:
    kinds = {".jpg", ".jpeg", ".png", ".heic", ".tif", ".webp"}
    photos = [path for path in shared("photos_exif").rglob("*") if path.suffix.lower() in kinds]
    assert photos
    for number, path in enumerate(photos):
        data = path.read_bytes()
        cleaned = remove_metadata(data)
        (tmp_path / f"{number}{path.suffix}").write_bytes(cleaned)
        if path.name in ("broken image.JPG", "beach.jpg") or path.suffix.lower() == ".heic":  # Pillow opens none
            continue
        before, after = Image.open(io.BytesIO(data)), Image.open(io.BytesIO(cleaned))
        assert before.tobytes() == after.tobytes(), path
        known, left = read_exif(before.info.get("exif", b"")), read_exif(after.info.get("exif", b""))
        assert left.orientation == known.orientation and left.latitude is None
        assert left.taken_at == known.taken_at or (known.taken_at or "").endswith("Z")
    if shutil.which("exiftool"):
        wanted = "$GPSLatitude or $SerialNumber or $Artist or $OwnerName or $MakerNoteVersion or $UserComment"
        ask = ["exiftool", "-q", "-r", "-if", wanted, "-p", "$FileName"]
        assert subprocess.run([*ask, str(tmp_path)], capture_output=True, text=True, check=False).stdout == ""
