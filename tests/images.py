"""Images for tests, made in memory."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def draw_scene(seed: int, size: tuple[int, int] = (160, 120)) -> Image.Image:
    """Blotches in colour: an image with a structure that no other seed has."""
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def save_scene(path: Path, kind: str = "JPEG", size: tuple[int, int] = (60, 40), **options: Any) -> Path:
    draw_scene(1, size).save(path, kind, **options)
    return path


def draw_noise(size: tuple[int, int], sigma: int = 70) -> Image.Image:
    """Noise of each colour by itself."""
    return Image.merge("RGB", [Image.effect_noise(size, sigma) for _ in range(3)])


def make_exif(tags: dict[int, Any], details: Any = None, gps: Any = None) -> Image.Exif:
    """A block of these tags, in its own directory, in the one of details and in the one of the place."""
    exif = Image.Exif()
    exif.update(tags)
    for directory, values in ((0x8769, details), (0x8825, gps)):
        if values:
            exif.get_ifd(directory).update(values)
    exif.load(exif.tobytes())  # Pillow writes the directories of a TIFF only of what it has read
    return exif


def encode_image(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """The bytes of a file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def make_jpeg(colour: str | tuple[int, int, int] = "teal", size: tuple[int, int] = (64, 48)) -> bytes:
    """A JPEG of one colour, `size` wide and high."""
    return encode_image(Image.new("RGB", size, colour), "JPEG")


def make_png_bomb(width: int, height: int) -> bytes:
    """A PNG that promises that many pixels and has none."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
