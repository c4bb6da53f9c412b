"""Fast decoding of usual JPEG files to a small image, and the count of a JPEG's scans.

Pillow's parser copies and parses every segment. Unusual files (padding, CMYK, 12 bits, two frames) are left to it.
libjpeg decodes damaged data to the end with made-up pixels, and only warns; Pillow drops these warnings, simplejpeg
reports them. Each scan takes the time of a whole decode, and a few bytes are enough for one: they are counted. A file
that ends without its mark is read where its scans are complete.
"""

import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from simplejpeg import decode_jpeg

from querytruth.array_types import GreyImage
from querytruth.backends.images.image_quality import SAMPLES

_SOS_CODE, _EOI = 0xDA, 0xD9
_PROGRESSIVE_CODES = {0xC2, 0xC6, 0xCA, 0xCE}
_WITHOUT_LENGTH = {0x00, 0x01, *range(0xD0, 0xDA)}
_MARKER = re.compile(rb"\xff+[^\x00\xff\xd0-\xd7\x01]")  # neither a coded 0xFF nor a restart marker
_FRAME_CODES = {0xC0, 0xC1, 0xC2}  # with Huffman codes: baseline, extended, progressive
_ALL_BITS = 0  # "successive approximation low": no bit of a coefficient is left for a later scan
_LEAST_PIXELS = 5000  # that each segment counts as at least: a million empty segments also take time
_SOS, _EXIF = 0xFFDA, 0xFFE1
_END_MARK = b"\xff\xd9"
_SEGMENT = struct.Struct(">HH")  # mark and length
_PROGRESSIVE = 0xFFC2
_FRAMES = {0xFFC0, 0xFFC1, _PROGRESSIVE}  # baseline, extended, progressive, with Huffman codes
_SKIPPED = {0xFFC4, 0xFFDB, 0xFFDD, 0xFFFE, *range(0xFFE0, 0xFFF0)}  # tables, comments, application segments
_TABLES = {0xC0, 0xC1, 0xC2, 0xC4, 0xDB, 0xDD, 0xEE}  # markers of segments that decide what the codes mean
GREY_SIDE = 320  # px: the longer side of the grey image is at most this, and over half of it where the file has as much
_LEAST_SHORT = 80  # px that the shorter side keeps
# libjpeg's warnings of lost pixels; not those of metadata, nor of up to 15 bytes of padding between the codes and the
# next scan's tables or the end, as some cameras write them.
_LOSS = re.compile(
    r"premature end of data segment|bad \w+ code|found marker .* instead of RST"
    r"|extraneous bytes before marker 0xd[0-7]|(1[6-9]|[2-9]\d|\d{3,}) extraneous bytes before marker 0x(c4|d9|da)"
)


def exceeds_scan_work(data: bytes, pixels: int, layers: int, coded_from: int, most: int) -> bool:
    """Return whether decoding the scans of a JPEG visits more than `most` pixels in all. `coded_from` is the offset of
    the first scan's data. Most files have one scan of all layers; then only its header is read."""
    header = coded_from - 8 - 2 * layers
    if header >= 0 and data.startswith(bytes([0xFF, _SOS_CODE]), header) and _is_sequential(data, header):
        return False
    work, place = max(pixels, _LEAST_PIXELS), coded_from
    while work <= most and (found := _MARKER.search(data, place)):
        marker, place = data[found.end() - 1], found.end()
        if marker == _EOI:
            return False
        work += max(pixels, _LEAST_PIXELS) if marker == _SOS_CODE else _LEAST_PIXELS
        place += int.from_bytes(data[place : place + 2], "big")
    return work > most


def _is_sequential(data: bytes, header: int) -> bool:
    """Return whether complete segments without gaps, none of them a progressive frame, lead to the first scan's
    header."""
    place = 2
    while place < header:
        marker, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        if data[place] != 0xFF or marker in _PROGRESSIVE_CODES or marker in _WITHOUT_LENGTH or length < 2:
            return False
        place += 2 + length
    return place == header


def lacks_end_mark_alone(data: bytes) -> int:
    """Return the number of layers of a JPEG that ends in the codes of its last scan, without the mark behind them; 0
    for a file with an end mark, and for one whose frame needs further scans. Whether the codes are complete is seen by
    decoding them."""
    if data.endswith(b"\xff\xd9") or data.rfind(b"\xff\xd9") > data.rfind(b"\xff\xda"):
        return 0
    layers, sent = set[int](), defaultdict[int, set[int]](set)
    is_progressive, last = False, 0
    for marker, segment in _segments(data):
        last = marker
        if marker in _FRAME_CODES and len(segment) > 5:
            is_progressive, layers = marker in _PROGRESSIVE_CODES, set(segment[6 : 6 + 3 * segment[5] : 3])
        elif marker == _SOS_CODE and segment and len(segment) >= 4 + 2 * segment[0]:
            first, final, bits = segment[1 + 2 * segment[0] :][:3]
            for layer in segment[1 : 1 + 2 * segment[0] : 2]:
                if not is_progressive:
                    sent[layer] |= set(range(64))
                elif bits & 15 == _ALL_BITS:
                    sent[layer] |= set(range(first, final + 1))
    return len(layers) if (last == _SOS_CODE and layers and all(len(sent[layer]) == 64 for layer in layers)) else 0


def _segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the marker and the contents of each segment, until one is cut."""
    place = 2
    while found := _MARKER.search(data, place):
        marker, place = data[found.end() - 1], found.end()
        length = int.from_bytes(data[place : place + 2], "big")
        if marker in _WITHOUT_LENGTH or length < 2 or place + length > len(data):
            return
        yield marker, data[place + 2 : place + length]
        place += length


class JpegHeader(NamedTuple):
    """The header of a JPEG. `coded_from` is the offset of the first scan's data, `tables` are the segments that decode
    it, and `has_one_scan` is true if the first scan has all layers and is not progressive."""

    width: int
    height: int
    layers: int
    coded_from: int
    exif: bytes
    tables: bytes
    has_one_scan: bool


def read_plain_jpeg_header(data: bytes) -> JpegHeader | None:
    """Return the header of a file of complete segments with one frame of 8 bits, in grey or three colours; None for
    any other. libjpeg must find exactly this size: Pillow's decoder trusts the size that it is given, and would write
    past the end of the buffer."""
    place, exif, frame, end, is_progressive = 2, b"", None, len(data), False
    tables: dict[int, bytes] = {}
    while place + 4 <= end:
        mark, length = _SEGMENT.unpack_from(data, place)
        if mark == _SOS:
            if not frame or length < 2 or place + 2 + length > end:
                return None
            has_one_scan = not is_progressive and length == 6 + 2 * frame[2]
            return JpegHeader(*frame, place + 2 + length, exif, _join_tables(tables), has_one_scan)
        if mark in _FRAMES:
            if frame or not (frame := _frame(data, place, length)):
                return None
            is_progressive = mark == _PROGRESSIVE
        elif mark not in _SKIPPED or length < 2:
            return None
        elif mark == _EXIF and data.startswith(b"Exif\x00\x00", place + 4):
            exif += data[place + (10 if exif else 4) : place + 2 + length]
        _add_table(tables, data, place, mark & 0xFF, length)
        place += 2 + length
    return None


def _frame(data: bytes, place: int, length: int) -> tuple[int, int, int] | None:
    if place + 10 > len(data):
        return None
    bits, height, width, layers = struct.unpack_from(">BHHB", data, place + 4)
    is_plain = bits == 8 and layers in (1, 3) and length == 8 + 3 * layers and width and height
    return (width, height, layers) if is_plain else None


def decode_reduced(data: bytes, header: JpegHeader) -> tuple[GreyImage, NDArray[np.uint8] | None, str]:
    """Decode a plain JPEG at the scale of `choose_reduction`, its longer side at most GREY_SIDE pixels. Return it in
    grey, its colours at SAMPLES x SAMPLES places (None for a grey file), and libjpeg's message if pixels of it are lost
    ("" if none). Raises ValueError for a file that ends early."""
    size, damage, is_grey = (header.width, header.height), "", header.layers == 1
    scale = choose_reduction(size)
    width, height = -(-size[0] // scale), -(-size[1] // scale)
    try:
        # Four bytes a pixel, as Pillow holds them: it shares the memory.
        pixels = decode_jpeg(data, "GRAY" if is_grey else "RGBX", fastupsample=True, min_height=height, min_width=width)
        shape = pixels.shape[1::-1]
        image = Image.frombuffer("L" if is_grey else "RGBX", shape, pixels, "raw", "L" if is_grey else "RGBX", 0, 1)
    except ValueError as error:
        image = _decode_with_pillow(close_jpeg(data), (width, height), scale, "L" if is_grey else "RGB")
        damage = _describe_damage(str(error))
    samples = None if is_grey else sample_colours(image)
    grey, factor = image if is_grey else image.convert("L"), -(-max(image.size) // GREY_SIDE)
    return np.asarray(grey.reduce(factor) if factor > 1 else grey), samples, damage


def sample_colours(image: Image.Image) -> NDArray[np.uint8]:
    """Return the pixels (SAMPLES, SAMPLES, 3) at evenly spaced places of an image in RGB or RGBX."""
    return np.asarray(image.resize((SAMPLES, SAMPLES), Image.Resampling.NEAREST))[..., :3]


def _decode_with_pillow(data: bytes, reduced: tuple[int, int], scale: int, mode: str) -> Image.Image:
    """Decode a JPEG for which libjpeg gives a warning."""
    image = Image.new(mode, reduced)
    image.frombytes(data, "jpeg", (mode, "", scale, 0))
    return image


def close_jpeg(data: bytes) -> bytes:
    """Return the data of a JPEG, with the end mark added if only that is missing; without it, decoders wait for more
    data."""
    layers = lacks_end_mark_alone(data)
    closed = data + _END_MARK
    return closed if layers and not find_damage(closed, layers == 4) else data


def find_damage(data: bytes, has_four_layers: bool) -> str:
    """Return libjpeg's message if pixels of a JPEG that Pillow decoded are lost, else "". Decodes at 1/8."""
    try:
        decode_jpeg(data, "CMYK" if has_four_layers else "GRAY", min_height=1, min_width=1)
    except ValueError as error:
        return _describe_damage(str(error))
    return ""


def _describe_damage(warning: str) -> str:
    """Return the warning ("" for one about a file whose pixels are all there, such as a missing end mark)."""
    return warning if _LOSS.search(warning) else ""


def choose_reduction(size: tuple[int, int]) -> int:
    """Return by how much libjpeg reduces the image: 1, 2, 4 or 8, such that its longer side keeps half of GREY_SIDE
    and its shorter side 80."""
    scale = 8
    while scale > 1 and (min(size) < _LEAST_SHORT * scale or 2 * max(size) < GREY_SIDE * scale):
        scale //= 2
    return scale


def checksum_coded_data(data: bytes, layers: int, coded_from: int, tables: bytes) -> bytes:
    """Return checksums of the coded data and of its tables; they cover the colours, which the grey decode leaves
    out."""
    end = data.rfind(_END_MARK, coded_from)
    end = end if end >= 0 else len(data)  # the mark alone may be missing
    codes = zlib.crc32(memoryview(data)[coded_from:end])
    return b"%d %d %d %d" % (layers, end - coded_from, codes, zlib.crc32(tables))


def read_tables(data: bytes, coded_from: int) -> bytes:
    """Return the tables and the frame before the first scan of any JPEG. Files that divide them otherwise into
    segments have the same ones."""
    tables: dict[int, bytes] = {}
    place = 2
    while (place := data.find(b"\xff", place, coded_from)) >= 0 and place + 4 <= coded_from:
        mark, length = struct.unpack_from(">BH", data, place + 1)
        if mark in (0x00, 0xFF):  # padding
            place += 1
            continue
        _add_table(tables, data, place, mark, length)
        place += 2 + length
    return _join_tables(tables)


def _add_table(tables: dict[int, bytes], data: bytes, place: int, mark: int, length: int) -> None:
    """Add a segment to the tables by mark, if it is one of their kinds."""
    if mark in _TABLES and (mark != 0xEE or data.startswith(b"Adobe", place + 4)):
        tables[mark] = tables.get(mark, b"") + data[place + 4 : place + 2 + length]


def _join_tables(tables: dict[int, bytes]) -> bytes:
    return b"".join(b"%d %d " % (mark, len(table)) + table for mark, table in sorted(tables.items()))
