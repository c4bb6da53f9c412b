"""Render jobs: what worker processes do with files good and bad, and whose fault it is when one fails."""

import errno
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from querytruth.backends.images import rendering
from querytruth.backends.images.rendering import (
    PixelsJob,
    RenderingError,
    RenderJob,
    ThumbnailJob,
    make_thumbnail,
    render_image,
    run_pixels_job,
    run_render_job,
    run_thumbnail_job,
)
from querytruth.backends.images.worker_processes import map_in_workers
from tests.images import encode_image, make_png_bomb


def small() -> Image.Image:
    return Image.linear_gradient("L").resize((80, 60))


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def test_the_digest_of_what_was_written_is_returned(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encode_image(small(), "JPEG"))
    target = tmp_path / "deep" / "er" / "b.jpg"
    digest = run_render_job(RenderJob(str(tmp_path / "a.jpg"), str(target), 32, "squash", None))
    assert digest == hashlib.sha256(target.read_bytes()).hexdigest()
    assert opened(target.read_bytes()).size == (32, 32)
    assert [path.name for path in target.parent.iterdir()] == ["b.jpg"]


def test_a_file_that_changed_since_its_scan_is_not_decoded(tmp_path: Path) -> None:
    place, target = tmp_path / "a.png", tmp_path / "b.jpg"
    place.write_bytes(encode_image(small()))
    sha256 = hashlib.sha256(place.read_bytes()).hexdigest()
    place.write_bytes(encode_image(Image.new("RGB", (40, 30), "red")))
    outcome = run_render_job(RenderJob(str(place), str(target), 32, "squash", sha256))
    assert outcome[0] == "changed_since_scan" and not target.exists()
    assert run_thumbnail_job(ThumbnailJob(str(place), 32, sha256=sha256[:20])) is None
    assert run_pixels_job(PixelsJob(str(place), 32, sha256))[0] == "changed"
    place.write_bytes(encode_image(small()))
    assert len(run_render_job(RenderJob(str(place), str(target), 32, "squash", sha256))) == 64
    assert run_thumbnail_job(ThumbnailJob(str(place), 32, sha256=sha256[:20])) is not None


def test_an_image_may_lie_on_any_file_system(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://album/ä.png", "wb") as file:
        file.write(encode_image(small()))
    assert len(run_render_job(RenderJob("memory://album/ä.png", str(tmp_path / "a.jpg"), 32, "squash", None))) == 64
    assert opened((tmp_path / "a.jpg").read_bytes()).size == (32, 32)
    fault = run_render_job(RenderJob("memory://album/gone.png", str(tmp_path / "b.jpg"), 32, "squash", None))
    assert fault and fault[0] == "cannot_be_rendered"
    with pytest.raises(OSError, match="cannot be read"):  # no image's fault, and no traceback with a password in it
        run_render_job(RenderJob("nosuch://user:secret@host/a.png", str(tmp_path / "b.jpg"), 32, "squash", None))


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
    fault = run_render_job(RenderJob(str(tmp_path / "a.jpg"), str(tmp_path / "b.jpg"), 32, "squash", None))
    assert fault and fault[0] == "cannot_be_rendered" and detail in fault[1]
    assert not (tmp_path / "b.jpg").exists()
    with pytest.raises(RenderingError, match=detail):
        make_thumbnail(data, 32)
    assert run_thumbnail_job(ThumbnailJob(str(tmp_path / "a.jpg"), 32)) is None


def test_what_is_no_file_or_too_large_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "a.png").write_bytes(encode_image(small()))
    monkeypatch.setattr(rendering, "MAX_FILE_BYTES", 50)
    found = {
        name: run_render_job(RenderJob(str(tmp_path / name), str(tmp_path / "b.jpg"), 32, "squash", None))
        for name in ("pipe.jpg", "gone.jpg", "", "a.png")
    }
    assert {name: fault and fault[1] for name, fault in found.items()} == {
        "pipe.jpg": "not a regular file",
        "gone.jpg": "No such file or directory",
        "": "Is a directory",
        "a.png": "more than 50 bytes",
    }


@pytest.mark.parametrize(("number", "place"), [(errno.ENOSPC, "write_atomically"), (errno.EACCES, "read_bounded")])
def test_a_full_disk_or_a_forbidden_file_is_not_the_images_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, place: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "a.png").write_bytes(encode_image(small()))
    monkeypatch.setattr(rendering, place, fail)
    with pytest.raises(OSError, match=os.strerror(number)):
        run_render_job(RenderJob(str(tmp_path / "a.png"), str(tmp_path / "b.jpg"), 32, "squash", None))


def test_want_of_memory_is_for_the_worker_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(rendering, "open_limited", fail)
    with pytest.raises(MemoryError):
        render_image(encode_image(small()), 32, "squash")


@pytest.mark.thorough
def test_workers_render_and_name_the_images_that_they_cannot(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encode_image(small()))
    (tmp_path / "b.png").write_bytes(b"rubbish")
    jobs = [RenderJob(str(tmp_path / f"{name}.png"), str(tmp_path / f"{name}.jpg"), 32, "fit", None) for name in "ab"]
    digest, failure = map_in_workers(run_render_job, jobs, writable=tmp_path)
    assert digest == hashlib.sha256((tmp_path / "a.jpg").read_bytes()).hexdigest()
    assert failure == ("cannot_be_rendered", "not an image")
    blocked = RenderJob(str(tmp_path / "a.png"), str(tmp_path / "a.png" / "c.jpg"), 32, "fit", None)
    with pytest.raises(OSError, match=r"a\.png"):
        list(map_in_workers(run_render_job, [blocked], writable=tmp_path))


def test_a_worker_stays_small() -> None:
    """Workers import this module alone: heavy libraries would be paid for in each of them."""
    heavy = "{'pandas', 'pyarrow', 'fsspec', 'scipy', 'torch'} & set(sys.modules)"
    code = f"import sys, querytruth.backends.images.rendering; print(*{heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


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
