"""Photos of phones: HEIC and AVIF are read in the worker process, turned, dated, rendered and sent to models."""

import io
from pathlib import Path

import pytest
from PIL import Image
from pillow_heif import register_heif_opener

from querytruth.backends.images.image_headers import sniff_format
from querytruth.backends.images.image_reading import read_image
from querytruth.backends.images.rendering import render_image
from querytruth.backends.images.scan_parts import read_images_in_workers
from querytruth.backends.models.request_images import encode_for_endpoint
from tests.images import encode_image

register_heif_opener()


def photo(kind: str, size: tuple[int, int] = (120, 80), orientation: int = 1) -> bytes:
    """The left half red, the right half blue, taken on a day in 2024."""
    image = Image.new("RGB", size, "red")
    image.paste("blue", (size[0] // 2, 0, *size))
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    return encode_image(image, kind, exif=exif.tobytes(), quality=90)


@pytest.mark.parametrize("kind", ["HEIF", "AVIF"])
def test_a_phone_s_photo_has_its_upright_size_and_its_day(tmp_path: Path, kind: str) -> None:
    (tmp_path / "IMG_1.HEIC").write_bytes(photo(kind, orientation=6))
    found = read_image(tmp_path / "IMG_1.HEIC")
    assert (found.reason, found.format, found.width, found.height) == (None, kind, 80, 120)
    assert found.taken_at == "2024-05-06T07:08:09"


@pytest.mark.parametrize("kind", ["HEIF", "AVIF"])
def test_a_turned_photo_is_rendered_and_sent_upright(kind: str) -> None:
    data = photo(kind, orientation=6)  # the camera's left is the top
    sent = encode_for_endpoint(data)
    assert isinstance(sent, tuple)
    assert sent[0] == "image/jpeg"
    for jpeg in (render_image(data, 512, "longer_side"), sent[1]):
        with Image.open(io.BytesIO(jpeg)) as upright:
            assert upright.size == (80, 120)
            assert upright.getpixel((40, 20))[0] > 200 > 100 > upright.getpixel((40, 100))[0]  # type: ignore[index]


def test_the_brand_decides_not_the_suffix() -> None:
    box = b"\x00\x00\x00\x18ftyp%s\x00\x00\x00\x00mif1%s"
    assert sniff_format(box % (b"mif1", b"heic")) == "HEIF"
    assert sniff_format(box % (b"mif1", b"avif")) == "AVIF"
    assert sniff_format(box % (b"isom", b"mp42")) is None, "a film"


@pytest.mark.slow
def test_a_worker_without_rights_reads_a_camera_s_24_megapixels(tmp_path: Path) -> None:
    (tmp_path / "phone.heic").write_bytes(photo("HEIF", (6000, 4000)))
    (tmp_path / "phone.avif").write_bytes(photo("AVIF"))
    found = list(read_images_in_workers([str(tmp_path / "phone.heic"), str(tmp_path / "phone.avif")]))
    assert [(one.reason, getattr(one, "width", None)) for one in found] == [(None, 6000), (None, 120)]
