"""Fast decoding of usual JPEG files to a small grey image, without Pillow's parser.

Pillow's parser copies and parses every segment. Unusual files (padding, CMYK, 12 bits, two frames) are left to it.
"""

import struct
import zlib
from typing import NamedTuple

import numpy as np
from PIL import Image

from builders.array_types import GreyImage

_SOS, _EXIF = 0xFFDA, 0xFFE1
_FRAMES = {0xFFC0, 0xFFC1, 0xFFC2}  # baseline, extended, progressive, with Huffman codes
_SKIPPED = {0xFFC4, 0xFFDB, 0xFFDD, 0xFFFE, *range(0xFFE0, 0xFFF0)}  # tables, comments, application segments
_LEAST_SHORT = 80  # px that the shorter side keeps


class JpegHeader(NamedTuple):
    """The header of a JPEG. `coded_from` is the offset of the first scan's data."""

    width: int
    height: int
    layers: int
    coded_from: int
    exif: bytes


def read_plain_jpeg_header(data: bytes) -> JpegHeader | None:
    """Returns the header of a file of complete segments with one frame of 8 bits, in grey or three colours; None for
    any other. libjpeg must find exactly this size: Pillow's decoder trusts the size that it is given, and would write
    past the end of the buffer."""
    place, exif, frame = 2, b"", None
    while place + 4 <= len(data):
        mark, length = struct.unpack_from(">HH", data, place)
        if mark == _SOS:
            is_whole = length >= 2 and place + 2 + length <= len(data)
            return JpegHeader(*frame, place + 2 + length, exif) if frame and is_whole else None
        if mark in _FRAMES:
            if frame or not (frame := _frame(data, place, length)):
                return None
        elif mark not in _SKIPPED or length < 2:
            return None
        elif mark == _EXIF and data.startswith(b"Exif\x00\x00", place + 4):
            exif += data[place + (10 if exif else 4) : place + 2 + length]
        place += 2 + length
    return None


def _frame(data: bytes, place: int, length: int) -> tuple[int, int, int] | None:
    if place + 10 > len(data):
        return None
    bits, height, width, layers = struct.unpack_from(">BHHB", data, place + 4)
    is_plain = bits == 8 and layers in (1, 3) and length == 8 + 3 * layers and width and height
    return (width, height, layers) if is_plain else None


def decode_reduced(data: bytes, size: tuple[int, int], longer: int) -> GreyImage:
    """Decodes a plain JPEG in grey at the scale of `choose_reduction`, its longer side at most `longer` pixels. Raises
    ValueError for a damaged file."""
    scale = choose_reduction(size, longer)
    width, height = -(-size[0] // scale), -(-size[1] // scale)
    grey = np.empty((height, width), np.uint8)
    image = Image.frombuffer("L", (width, height), grey, "raw", "L", 0, 1)  # shares the memory of `grey`
    image.frombytes(data, "jpeg", ("L", "", scale, 0))
    factor = -(-max(width, height) // longer)
    return np.asarray(image.reduce(factor)) if factor > 1 else grey


def choose_reduction(size: tuple[int, int], longer: int) -> int:
    """Returns by how much libjpeg reduces the image: 1, 2, 4 or 8, such that its longer side keeps half of `longer`
    pixels and its shorter side 80."""
    scale = 8
    while scale > 1 and (min(size) < _LEAST_SHORT * scale or 2 * max(size) < longer * scale):
        scale //= 2
    return scale


def sample_coded_data(data: bytes, layers: int, coded_from: int) -> bytes:
    """Returns a checksum over a sample of the coded data, for what the grey decode leaves out.

    Every 31st byte is enough: codes differ in length, so that one difference shifts all that follow.
    """
    end = data.rfind(b"\xff\xd9")
    return b"%d %d %d" % (layers, end - coded_from, zlib.crc32(data[coded_from:end:31]))
