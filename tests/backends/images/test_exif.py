"""EXIF: which way is up, when and where, as the camera wrote it and exiftool reads it."""

import json
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.TiffImagePlugin import IFDRational

from querytruth.backends.images.exif import Exif, read_exif
from querytruth.backends.images.image_reading import read_image
from tests.images import encode_image, make_exif

ORIGINAL, DIGITIZED, SECOND, OFFSET = 0x9003, 0x9004, 0x9291, 0x9011
GPS, ORIENTATION, DATE = 0x8825, 0x0112, 0x0132
XMP = b"""<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description exif:GPSLatitude="31,13.8N" dc:title="lake">
<exif:GPSLongitude>121,28.4E</exif:GPSLongitude></rdf:Description></x:xmpmeta>"""


def block(first: dict[int, Any] | None = None, details: Any = None, gps: Any = None) -> bytes:
    return make_exif(first or {}, details, gps).tobytes()


def there(latitude: Any, north: Any = "N", longitude: Any = (12, 30, 0), east: Any = "E") -> Exif:
    gps = {1: north, 2: latitude, 3: east, 4: longitude}
    return read_exif(block(gps={tag: value for tag, value in gps.items() if value is not None}))


@pytest.mark.parametrize(
    ("details", "read"),
    [
        ({ORIGINAL: "2024:05:03 10:12:44"}, "2024-05-03T10:12:44"),
        ({ORIGINAL: "2024:05:03 10:12:44", OFFSET: "+08:00", SECOND: "070 "}, "2024-05-03T10:12:44.070+08:00"),
        ({ORIGINAL: "2024:05:03 10:12:44", OFFSET: "-0330"}, "2024-05-03T10:12:44-03:30"),
        ({ORIGINAL: "2024:05:03 10:12:44", OFFSET: "   :  ", SECOND: "   "}, "2024-05-03T10:12:44"),
        ({ORIGINAL: "2024:05:03 10:12:44", OFFSET: "+99:00"}, "2024-05-03T10:12:44"),
        ({ORIGINAL: "2024-05-03 10:12:44"}, "2024-05-03T10:12:44"),
        ({ORIGINAL: "2013:07:05 03:18:27Z"}, "2013-07-05T03:18:27+00:00"),
        ({ORIGINAL: "0000:00:00 00:00:00", DIGITIZED: "2003:09:10 20:59:18"}, "2003-09-10T20:59:18"),
        ({ORIGINAL: "    :  :     :  :  "}, None),
        ({ORIGINAL: "2023:02:30 10:00:00"}, None),
        ({}, None),
    ],
)
def test_a_time_is_what_the_camera_wrote_and_the_calendar_has(details: dict[int, str], read: str | None) -> None:
    assert read_exif(block(details=details)).taken_at == read


def test_when_an_editor_saved_the_file_is_not_when_it_was_taken() -> None:
    assert read_exif(block({0x0132: "2015:08:02 16:02:33"})).taken_at is None


@pytest.mark.parametrize(
    ("date", "clock", "read"),
    [
        ("2022:01:10", (21, 15, IFDRational(33519, 1000)), "2022-01-10T21:15:33.519Z"),
        ("2022:01:10", (21, 15, 33), "2022-01-10T21:15:33Z"),
        ("1899:12:30", (1, 0, 14), None),
        ("2022:01:10", (25, 0, 0), None),
        ("2022:01:10", (1, 0, IFDRational(0, 0)), None),
        ("", (1, 0, 0), None),
    ],
)
def test_the_gps_clock_counts_where_the_camera_s_own_is_silent(date: str, clock: Any, read: str | None) -> None:
    assert read_exif(block(gps={29: date, 7: clock})).taken_at == read
    own = read_exif(block(details={ORIGINAL: "2022:01:10 15:15:44"}, gps={29: date, 7: clock}))
    assert own.taken_at == "2022-01-10T15:15:44"


def test_places_have_a_sign_and_a_centimetre() -> None:
    assert there((30, 15, 0)).latitude == 30.25
    assert there((30, IFDRational(1534567, 100000), 0), "S", (120, 0, 36), "W") == Exif(1, None, -30.2557612, -120.01)
    assert there((45, 30)).latitude == 45.5
    assert there((10, 0, 0), "s\x00").latitude == -10


@pytest.mark.parametrize(
    ("latitude", "north", "longitude"),
    [
        ((0, 0, 0), "N", (0, 0, 0)),
        ((91, 0, 0), "N", (1, 0, 0)),
        ((10, 0, 0), "N", (180, 0, 1)),
        ((IFDRational(0, 0), IFDRational(0, 0), IFDRational(0, 0)), "N", (1, 0, 0)),
        ((10, 0, 0), "", (1, 0, 0)),
        (None, "N", (1, 0, 0)),
    ],
)
def test_a_place_that_is_none_is_none_altogether(latitude: Any, north: Any, longitude: Any) -> None:
    found = there(latitude, north, longitude)
    assert (found.latitude, found.longitude) == (None, None)


def test_a_void_fix_with_real_coordinates_is_the_last_fix() -> None:
    assert read_exif(block(gps={1: "N", 2: (30, 15, 0), 3: "E", 4: (1, 0, 0), 9: "V"})).latitude == 30.25


@pytest.mark.parametrize(("written", "read"), [(1, 1), (6, 6), (8, 8), (0, 1), (9, 1), (65535, 1)])
def test_an_orientation_that_is_none_is_upright(written: Any, read: int) -> None:
    assert read_exif(block({0x0112: written})).orientation == read


def test_the_thumbnail_s_orientation_is_not_the_image_s() -> None:
    entry = struct.pack("<HHI4s", 0x0112, 3, 1, b"\x06\x00\x00\x00")
    second = struct.pack("<H", 1) + entry + bytes(4)
    assert read_exif(b"II*\x00" + struct.pack("<IHI", 8, 0, 14) + second).orientation == 1


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_every_format_s_block_is_found(tmp_path: Path, kind: str) -> None:
    place = {1: "N", 2: (30, 15, 0), 3: "W", 4: (120, 0, 36)}
    exif = make_exif({0x0112: 6}, {ORIGINAL: "2024:05:03 10:12:44"}, place)
    Image.new("RGB", (60, 40), "red").save(tmp_path / "a", kind, exif=exif)
    found = read_image(tmp_path / "a")
    assert (found.taken_at, found.latitude, found.longitude) == ("2024-05-03T10:12:44", 30.25, -120.01)
    assert (found.reason, found.orientation, found.width, found.height) == (None, 6, 40, 60), "upright"


def test_imagemagick_s_profile_in_a_png_is_found(tmp_path: Path) -> None:
    from PIL.PngImagePlugin import PngInfo

    data = block(details={ORIGINAL: "2024:05:03 10:12:44"})
    lines = PngInfo()
    lines.add_text("Raw profile type exif", f"\nexif\n{len(data):8}\n{data.hex()}\n", zip=True)
    Image.new("RGB", (60, 40), "red").save(tmp_path / "a.png", pnginfo=lines)
    assert read_image(tmp_path / "a.png").taken_at == "2024-05-03T10:12:44"


WHOLE = block(
    {0x0112: 6},
    {ORIGINAL: "2024:05:03 10:12:44", OFFSET: "+08:00", SECOND: "07"},
    {1: "N", 2: (30.0, 15.0, 0.0), 3: "W", 4: (120.0, 0.0, 36.0), 7: (1, 2, 3), 29: "2024:05:03"},
)


@given(st.integers(0, len(WHOLE)), st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=6))
def test_a_broken_block_says_less_but_never_fails(cut: int, changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    found = read_exif(bytes(data[:cut]))
    assert 1 <= found.orientation <= 8
    assert found.latitude is None or abs(found.latitude) <= 90


@given(st.binary(max_size=300))
def test_rubbish_is_no_exif(rubbish: bytes) -> None:
    for mark in (b"", b"Exif\x00\x00II*\x00\x08\x00\x00\x00", b"MM\x00*\x00\x00\x00\x08"):
        assert isinstance(read_exif(mark + rubbish), Exif)


def test_a_broken_block_does_not_cost_the_image(tmp_path: Path) -> None:
    Image.new("RGB", (60, 40), "red").save(tmp_path / "a.jpg", exif=b"Exif\x00\x00" + b"II*\x00\xff\xff\xff\xff" * 9)
    found = read_image(tmp_path / "a.jpg")
    assert (found.reason, found.orientation, found.taken_at) == (None, 1, None)


def by_exiftool(folder: Path) -> list[dict[str, Any]]:
    if shutil.which("exiftool") is None:
        pytest.skip("exiftool is not installed (Debian: libimage-exiftool-perl)")
    command = ["exiftool", "-json", "-n", "-G1", "-r", "-EXIF:all", "-Composite:all", str(folder)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # a broken file is no clean exit
    return [entry for entry in json.loads(found.stdout) if entry["SourceFile"].lower().endswith(("jpg", "jpeg"))]


def expected_time(entry: dict[str, Any]) -> str | None:
    """As ISO 8601; where our rules differ from exiftool's, which shows whatever is written, they are here."""
    for name in ("DateTimeOriginal", "CreateDate"):
        written = entry.get(f"Composite:SubSec{name}") or entry.get(f"ExifIFD:{name}") or "0000"
        if not written.startswith(("0000", "    ")):  # no date
            return str(written.replace(":", "-", 2).replace(" ", "T").replace("Z", "+00:00"))
    written = entry.get("Composite:GPSDateTime") or "0000"
    if written < "1980":  # before there was GPS
        return None
    return str(written.replace(":", "-", 2).replace(" ", "T"))


def expected_place(entry: dict[str, Any]) -> tuple[float, float] | None:
    latitude, longitude = entry.get("Composite:GPSLatitude", ""), entry.get("Composite:GPSLongitude", "")
    return None if "" in (latitude, longitude) or latitude == longitude == 0 else (latitude, longitude)


@pytest.mark.thorough
def test_times_places_and_orientations_are_exiftool_s(shared: Callable[[str], Path]) -> None:
    times = places = turned = 0
    for entry in by_exiftool(shared("photos_exif")):
        found = read_image(entry["SourceFile"])
        if found.reason:
            continue
        assert found.taken_at == expected_time(entry), entry["SourceFile"]
        assert found.orientation == (entry.get("IFD0:Orientation") or 1), entry["SourceFile"]
        place = expected_place(entry)
        if place is None:
            assert found.latitude is None and found.longitude is None, entry["SourceFile"]
        else:
            assert (found.latitude, found.longitude) == pytest.approx(place, abs=1e-6), entry["SourceFile"]
        times, places = times + (found.taken_at is not None), places + (place is not None)
        turned += found.orientation != 1
    assert times >= 130 and places >= 39 and turned >= 14, "the comparison has something to compare"


def test_a_jpeg_with_several_blocks_is_read_by_its_first(tmp_path: Path) -> None:
    data = encode_image(Image.new("RGB", (60, 40), "red"), "JPEG", exif=WHOLE)
    other = b"Exif\x00\x00" + block({0x0112: 3})[6:]
    segment = b"\xff\xe1" + struct.pack(">H", len(other) + 2) + other
    end = data.index(b"\xff\xe1") + 2 + struct.unpack_from(">H", data, data.index(b"\xff\xe1") + 2)[0]
    (tmp_path / "a.jpg").write_bytes(data[:end] + segment + data[end:])
    assert read_image(tmp_path / "a.jpg").orientation == 6
