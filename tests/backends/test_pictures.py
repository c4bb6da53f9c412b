"""Picture files: found only where they may be, proven whole, read as a camera wrote them."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from backends.pictures import PictureFolder, read_picture, rendered, thumbnail


def picture(
    path: Path, size: tuple[int, int] = (60, 40), kind: str = "JPEG", mode: str = "RGB", **options: Any
) -> Path:
    Image.new(mode, size, 1 if mode == "1" else None).save(path, kind, **options)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("listed", ["images/v1/patch8/x.jpg", "patch8/x.jpg", "x.jpg", "a\\patch8\\x.jpg"])
def test_leading_folders_may_be_missing_on_disk(tmp_path: Path, listed: str) -> None:
    (tmp_path / "patch8").mkdir()
    here = picture(tmp_path / ("patch8/x.jpg" if "patch8" in listed else "x.jpg"))
    assert PictureFolder(tmp_path).find(listed) == here


def test_a_bare_name_is_found_in_a_deeper_folder_if_there_is_just_one(tmp_path: Path) -> None:
    for part in ("train2017", "val2017"):
        (tmp_path / part).mkdir()
    here = picture(tmp_path / "val2017" / "x.jpg")
    folder = PictureFolder(tmp_path)
    assert folder.find("x.jpg") == here
    assert folder.find("other/x.jpg") == "picture_missing", "another folder's picture is another picture"
    picture(tmp_path / "train2017" / "x.jpg")
    assert PictureFolder(tmp_path).find("x.jpg") == "found_in_several_folders"


@pytest.mark.parametrize(
    "listed",
    ["../secret.jpg", "/etc/passwd", "a/../../secret.jpg", "link.jpg", "gone.jpg", "", "nul\x00.jpg", "x" * 5000],
)
def test_nothing_outside_the_root_is_ever_found(tmp_path: Path, listed: str) -> None:
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    picture(tmp_path / "secret.jpg")
    (root / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (root / "deep" / "gone.jpg").symlink_to(tmp_path / "secret.jpg")
    assert PictureFolder(root).find(listed) in ("picture_missing", "not_a_relative_name")


def test_a_turned_picture_is_measured_upright_with_time_and_place(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8769).update({0x9003: "2024:05:03 10:12:44", 0x9011: "+08:00"})
    exif.get_ifd(0x8825).update({1: "N", 2: (30.0, 15.0, 0.0), 3: "W", 4: (120.0, 0.0, 36.0)})
    found = read_picture(picture(tmp_path / "a.jpg", exif=exif))
    assert (found.width, found.height, found.reason) == (40, 60, "")
    assert found.taken_at == "2024-05-03T10:12:44+08:00"
    assert (found.latitude, found.longitude) == (30.25, -120.01)
    assert Image.open(io.BytesIO(thumbnail((tmp_path / "a.jpg").read_bytes(), 30))).size == (20, 30)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("0000:00:00 00:00:00", None),
        ("2024:00:10 00:00:00", None),
        ("rubbish", None),
        ("2024-05-03 10:12:44", "2024-05-03T10:12:44"),
    ],
)
def test_times_that_are_none_are_none(tmp_path: Path, written: str, read: str | None) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = written
    assert read_picture(picture(tmp_path / "a.jpg", exif=exif)).taken_at == read


def bomb() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty_file"),
        (b"<html>", "not_a_picture"),
        (b"\xff\xd8\xff", "not_a_picture"),
        (bomb(), "too_many_pixels"),
        (b"P6 10 10 255 " + b"x" * 300, "not_a_picture"),
    ],
)
def test_a_file_that_is_no_good_says_why(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    assert read_picture(tmp_path / "a.jpg").reason == reason


def test_a_cut_file_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    noisy = Image.effect_noise((200, 200), 90).convert("RGB")
    noisy.save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data[: len(data) // 2])
    assert read_picture(tmp_path / "a.jpg").reason == "cannot_be_decoded"


def test_a_pipe_does_not_hang_and_a_folder_is_no_picture(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    assert read_picture(tmp_path / "pipe.jpg").reason == "not_a_regular_file"
    assert read_picture(tmp_path).reason in ("not_a_regular_file", "unreadable")


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("RGB", "JPEG"),
        ("CMYK", "JPEG"),
        ("L", "PNG"),
        ("P", "GIF"),
        ("1", "PNG"),
        ("RGBA", "WEBP"),
        ("I;16", "PNG"),
    ],
)
@pytest.mark.parametrize("how", ["squash", "fit", "crop"])
def test_every_mode_renders_to_a_square_jpeg(tmp_path: Path, mode: str, kind: str, how: str) -> None:
    data = rendered(picture(tmp_path / "a", mode=mode, kind=kind).read_bytes(), 32, how)
    image = Image.open(io.BytesIO(data))
    assert (image.size, image.mode, image.format) == ((32, 32), "RGB", "JPEG")
    assert not image.getexif()


def test_transparency_lies_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (40, 40), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert Image.open(io.BytesIO(rendered((tmp_path / "a.png").read_bytes(), 16, "squash"))).getpixel((8, 8)) == (
        255,
        255,
        255,
    )


def test_the_malformed_collection_never_raises(shared: Callable[[str], Path]) -> None:
    files = sorted(path for path in shared("malformed").rglob("*") if path.is_file())
    found = [read_picture(path) for path in files]
    assert len(found) == len(files) > 400
    assert all(bool(p.reason) != bool(p.sha256) for p in found), "a reason, or a digest"
