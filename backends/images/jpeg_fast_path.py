"""JPEG files as cameras and editors write them, decoded in grey and small without Pillow's parser.

That one copies every segment and takes apart what a scan has no use for. Whatever is out of the ordinary (padding,
CMYK, 12 bits, two frames) is left to it.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
from PIL import Image

from builders.array_types import GreyImage

_SOS, _EXIF = 0xFFDA, 0xFFE1
_FRAMES = {0xFFC0, 0xFFC1, 0xFFC2}  # baseline, extended, progressive, with Huffman's codes
_SKIPPED = {0xFFC4, 0xFFDB, 0xFFDD, 0xFFFE, *range(0xFFE0, 0xFFF0)}  # tables, comments, applications'
_LEAST_SHORT = 80  # px: what the shorter side keeps


class JpegHeader(NamedTuple):
    """What its header says; `coded_from`: where the first scan begins, behind its header."""

    width: int
    height: int
    layers: int
    coded_from: int
    exif: bytes


def read_plain_jpeg_header(data: bytes) -> JpegHeader | None:
    """The header of a file in which libjpeg must find the very same size: nothing but whole segments, one after the
    other, among them one frame of 8 bits, grey or of three colours. None of any other, for Pillow's decoder trusts the
    size that it is told, and would write past the end of a picture that is larger."""
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
    """The grey picture of a plain JPEG at the scale of `reduction`, its longer side at most `longer`; ValueError where
    the file is not whole."""
    scale = choose_reduction(size, longer)
    width, height = -(-size[0] // scale), -(-size[1] // scale)
    grey = np.empty((height, width), np.uint8)
    image = Image.frombuffer("L", (width, height), grey, "raw", "L", 0, 1)  # they share their memory
    image.frombytes(data, "jpeg", ("L", "", scale, 0))
    factor = -(-max(width, height) // longer)
    return np.asarray(image.reduce(factor)) if factor > 1 else grey


def choose_reduction(size: tuple[int, int], longer: int) -> int:
    """1, 2, 4 or 8: how many times smaller libjpeg makes a picture, of which half of `longer` is to be left, and 80
    pixels of its shorter side."""
    scale = 8
    while scale > 1 and (min(size) < _LEAST_SHORT * scale or 2 * max(size) < longer * scale):
        scale //= 2
    return scale


def sample_coded_data(data: bytes, layers: int, coded_from: int) -> bytes:
    """What the grey decode leaves out, told by the coded picture between the metadata.

    Every 31st byte does: codes differ in length, so that one that differs moves all that follow.
    """
    end = data.rfind(b"\xff\xd9")
    return b"%d %d %d" % (layers, end - coded_from, zlib.crc32(data[coded_from:end:31]))
