"""Image files: found only where they may be, proven whole, read as a camera wrote them."""

import hashlib
import io
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from querytruth.backends.images.exif import Exif
from querytruth.backends.images.image_reading import DecodedFile, decode_image, describe_images, read_image
from querytruth.backends.images.image_views import describe_views, read_views
from tests.drawn_views import whole_hash
from tests.images import encode_image, make_exif, make_png_bomb, save_scene


def image(path: Path, size: tuple[int, int] = (60, 40), kind: str = "JPEG", mode: str = "RGB", **options: Any) -> Path:
    Image.new(mode, size, 1 if mode == "1" else None).save(path, kind, **options)  # type: ignore[arg-type]
    return path


def jpeg_bomb() -> bytes:
    return encode_image(Image.new("L", (16, 16)), "JPEG").replace(
        b"\xff\xc0\x00\x0b\x08\x00\x10\x00\x10", b"\xff\xc0\x00\x0b\x08\xff\x00\xff\x00"
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty_file"),
        (b"<html>", "not_an_image"),
        (b"\xff\xd8\xff", "cannot_be_decoded"),
        (make_png_bomb(60000, 60000), "too_many_pixels"),
        (jpeg_bomb(), "too_many_pixels"),
        (b"P6 10 10 255 " + b"x" * 300, "not_an_image"),
    ],
)
def test_a_file_that_is_no_good_says_why(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    assert read_image(tmp_path / "a.jpg").reason == reason


@pytest.mark.parametrize(
    ("head", "named"),
    [
        (bytes.fromhex("ff0acb0600138802"), "JPEG XL"),  # written by libjxl
        (bytes.fromhex("0000000c4a584c200d0a870a00000014"), "JPEG XL"),
        (bytes.fromhex("0000000c6a5020200d0a870a00000014"), "JPEG 2000"),
        (b"\n<!DOCTYPE html><title>403", "a web page"),
        (b'<?xml version="1.0"?>\n<!-- by hand -->\n<svg width="9">', "SVG"),
        (b"<?xml version='1.0'?><x:xmpmeta>", "XML"),
        (b'{"error": "not found"}', "JSON"),
        (b"\x00\x00\x00\x14ftypqt  \x00\x00\x00\x00", "a video or an unknown image type, brand 'qt'"),
        (b"P6\n10 10 255\n", "a portable pixmap"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer: `git lfs pull` fetches the file"),
        (b"\x00\x01\x02\x03", None),
    ],
)
def test_what_is_no_image_is_named(tmp_path: Path, head: bytes, named: str | None) -> None:
    (tmp_path / "a.jpg").write_bytes(head)
    found = read_image(tmp_path / "a.jpg")
    assert (found.reason, found.detail) == ("not_an_image", named)


def test_a_good_image_says_what_it_is(tmp_path: Path) -> None:
    path = save_scene(tmp_path / "a.jpg", size=(300, 200))
    os.utime(path, ns=(5, 1_700_000_000_123_456_789))
    found = read_image(str(path))
    assert (found.path, found.size, found.modified) == (str(path), path.stat().st_size, 1_700_000_000_123_456_789)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.head == hashlib.sha256(path.read_bytes()[:4096]).hexdigest()[:16]
    assert (found.width, found.height, found.orientation, found.format) == (300, 200, 1, "JPEG")
    assert (found.reason, found.detail) == (None, None)
    assert found.views is not None and found.thumbnail is not None
    assert found.pixels is not None and len(found.pixels) == 32


def test_many_are_read_as_each_is_alone(tmp_path: Path) -> None:
    paths = [save_scene(tmp_path / f"{n}.jpg", size=(300 + 40 * n, 200)) for n in range(5)]
    (tmp_path / "none.jpg").write_bytes(b"<html>")
    paths[2:2] = [tmp_path / "none.jpg", tmp_path / "gone.jpg", image(tmp_path / "plain.png", kind="PNG")]
    turned = make_exif({0x0112: 6})
    paths += [save_scene(tmp_path / f"turned {n}.jpg", size=(300, 200), exif=turned) for n in range(2)]
    assert describe_images([decode_image(path) for path in paths]) == [read_image(path) for path in paths]
    assert describe_images([decode_image(tmp_path / "none.jpg")])[0].reason == "not_an_image"
    assert describe_images([]) == []


def test_a_group_of_decoded_files_holds_no_whole_file(tmp_path: Path) -> None:
    """The EXIF block of a TIFF is the file: 32 of them would be held at once."""
    large, small = save_scene(tmp_path / "large.tif", "TIFF", (400, 300)), save_scene(tmp_path / "small.jpg")
    for path, kind in ((large, Exif), (small, bytes)):
        decoded = decode_image(path)
        assert isinstance(decoded, DecodedFile) and isinstance(decoded.exif, kind)


def test_neither_a_pipe_nor_a_folder_nor_a_link_nor_a_socket_is_an_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "link.jpg").symlink_to(image(tmp_path / "a.jpg"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket.jpg"))
        for name in ("pipe.jpg", "link.jpg", "socket.jpg", ""):
            assert read_image(tmp_path / name).reason == "not_a_regular_file", name


@pytest.mark.parametrize("name", ["gone.jpg", "x" * 300, "nul\x00.jpg", "lone \ud800.jpg"])
def test_a_name_that_leads_nowhere_is_unreadable(tmp_path: Path, name: str) -> None:
    assert read_image(f"{tmp_path}/{name}").reason == "unreadable"


def test_a_name_that_is_no_text_is_read(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe\n.jpg")
    image(tmp_path / "a.jpg").rename(name)
    assert read_image(name).reason is None


@pytest.mark.parametrize(
    ("head", "reason"), [(b"\x00\x00\x00\x18ftypmp42", "not_an_image"), (b"\xff\xd8\xff\xe0", "file_too_large")]
)
def test_a_film_costs_4_kilobytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes, reason: str) -> None:
    with (tmp_path / "a.jpg").open("wb") as file:
        file.write(head)
        file.truncate(4 << 30)
    monkeypatch.setattr(os, "read", None)
    found = read_image(tmp_path / "a.jpg")
    assert (found.reason, found.size) == (reason, 4 << 30)
    assert found.head is not None and found.sha256 is None


def test_a_file_that_grows_while_it_is_read_is_no_image_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = image(tmp_path / "a.jpg"), os.read
    monkeypatch.setattr(os, "read", lambda handle, size: real(handle, size) + b"more")
    assert read_image(path).reason == "unreadable"


def test_a_url_is_read_like_a_file(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    path = save_scene(tmp_path / "a.png", "PNG")
    fsspec.filesystem("memory").pipe("/album/a.png", path.read_bytes())
    local, remote = read_image(path), read_image("memory://album/a.png")
    assert (remote.reason, remote.modified, remote.path) == (None, 0, "memory://album/a.png")
    for field in ("size", "head", "sha256", "pixels", "views", "width", "height", "format"):
        assert getattr(remote, field) == getattr(local, field), field


def test_a_url_that_fails_says_so_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/album/b.png", b"\x89PNG\r\n\x1a\n" + bytes(5000))
    for location, reason in (
        ("memory://user:secret@album/gone.png", "unreadable"),
        ("nonsense://user:secret@host/a.png", "unreadable"),
        ("memory://album/b.png", "file_too_large"),
    ):
        monkeypatch.setattr("querytruth.backends.images.image_reading.MAX_FILE_BYTES", 4500)
        found = read_image(location)
        assert found.reason == reason and "secret" not in str(found.detail)


def test_a_stream_that_does_not_say_its_length_is_read_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")

    class Dribble(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 100))

    data = encode_image(Image.new("RGB", (60, 40), "red"), "BMP")
    monkeypatch.setattr(fsspec, "open", lambda url, mode: Dribble(data))
    assert read_image("http://host/a.bmp").reason is None
    monkeypatch.setattr("querytruth.backends.images.image_reading.MAX_FILE_BYTES", len(data) - 1)
    assert read_image("http://host/a.bmp").reason == "file_too_large"


def test_the_malformed_collection_never_raises(shared: Callable[[str], Path]) -> None:
    files = sorted(path for path in shared("malformed").rglob("*") if path.is_file())
    found = [read_image(path) for path in files]
    assert len(found) == len(files) > 400
    assert all((p.reason in (None, "damaged")) == (p.sha256 is not None) for p in found), "a reason, or a digest"
    assert {p.reason for p in found} == {None, "damaged", "not_an_image", "cannot_be_decoded", "too_many_pixels"}
    assert sum(p.reason is None for p in found) > 240


def test_the_hash_of_the_reduced_decode_is_the_full_one_s(shared: Callable[[str], Path]) -> None:
    apart = []
    for path in sorted(shared("photos_flowers").rglob("*.jpg")):
        ((views, _),) = describe_views([np.asarray(Image.open(path).convert("L"))], [None])
        apart.append((whole_hash(read_image(path)) ^ int(read_views([views]).hashes[0, 0])).bit_count())
    assert max(apart) <= 6 and sum(apart) <= 1.5 * len(apart)
