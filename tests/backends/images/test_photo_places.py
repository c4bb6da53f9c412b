"""Coordinates are taken out of image files; nothing else is."""

import io
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from querytruth.backends.images.photo_places import remove_coordinates

GPS, ORIENTATION, DATE = 0x8825, 0x0112, 0x0132
XMP = b"""<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description exif:GPSLatitude="31,13.8N" dc:title="lake">
<exif:GPSLongitude>121,28.4E</exif:GPSLongitude></rdf:Description></x:xmpmeta>"""


def photo(kind: str, **more: object) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION], exif[DATE] = 6, "2019:05:03 10:00:00"
    exif.get_ifd(GPS).update({1: "N", 2: (31.0, 13.0, 48.5), 3: "E", 4: (121.0, 28.0, 25.5), 29: "2019:05:03"})
    file = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").save(file, kind, exif=exif, **more)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_the_place_goes_and_everything_else_stays(kind: str) -> None:
    data = photo(kind)
    blanked = remove_coordinates(data)
    before, after = Image.open(io.BytesIO(data)), Image.open(io.BytesIO(blanked))
    assert before.getexif().get_ifd(GPS)[2] and not after.getexif().get_ifd(GPS)
    assert after.getexif()[ORIENTATION] == 6 and after.getexif()[DATE] == "2019:05:03 10:00:00"
    assert before.tobytes() == after.tobytes() and len(data) == len(blanked)
    assert remove_coordinates(blanked) == blanked


def test_coordinates_in_xmp_go_too() -> None:
    blanked = remove_coordinates(photo("JPEG", xmp=XMP))
    assert b"31,13" not in blanked and b"121,28" not in blanked and b'dc:title="lake"' in blanked


BROKEN = [b"", b"no image", b"Exif\0\0II*\0", b"Exif\0\0MM\0*\xff\xff\xff\xff", b"\x89PNG\r\n\x1a\n"]


@pytest.mark.parametrize("data", BROKEN)
def test_what_has_none_is_unchanged(data: bytes) -> None:
    assert remove_coordinates(data) == data
    plain = io.BytesIO()
    Image.new("RGB", (4, 4)).save(plain, "JPEG")
    assert remove_coordinates(plain.getvalue()) == plain.getvalue()


@given(st.integers(0, 400), st.binary(min_size=1, max_size=12))
def test_damaged_files_keep_their_length(place: int, noise: bytes) -> None:
    data = photo("JPEG")
    broken = data[:place] + noise + data[place + len(noise) :]
    assert len(remove_coordinates(broken)) == len(broken)


@pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")
def test_exiftool_finds_no_coordinates_in_real_photos(shared: Callable[[str], Path], tmp_path: Path) -> None:
    kinds = {".jpg", ".jpeg", ".heic", ".png"}
    photos = [path for path in shared("photos_exif").rglob("*") if path.suffix.lower() in kinds]
    for number, path in enumerate(photos):
        (tmp_path / f"{number}{path.suffix}").write_bytes(remove_coordinates(path.read_bytes()))
    ask = ["exiftool", "-q", "-r", "-if", "$GPSLatitude or $GPSLongitude", "-p", "$FileName $GPSPosition"]
    assert photos and subprocess.run([*ask, str(tmp_path)], capture_output=True, text=True, check=False).stdout == ""
