"""Format, size and number of frames of an image file, read without decoding.

Two kinds of damage that Pillow accepts are found, too: a GIF cut between two frames, and a PNG with a damaged chunk or
without its end.
"""

import re
import struct
import zlib

_MAGIC = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"BM": "BMP",
    b"II*\x00": "TIFF",
    b"MM\x00*": "TIFF",
    b"II+\x00\x08\x00\x00\x00": "TIFF",  # BigTIFF
    b"MM\x00+\x00\x08\x00\x00": "TIFF",
}
# Brands of ISO base media files (ISO/IEC 23008-12, AV1 Image File Format). Others, such as mif1, leave the coding open.
_BRANDS = dict.fromkeys((b"avif", b"avis"), "AVIF") | dict.fromkeys(
    (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs"), "HEIF"
)
JPEG_XL_STARTS = (b"\xff\x0a", b"\x00\x00\x00\x0cJXL \r\n\x87\n")  # a bare codestream, and a file with boxes
_RAW_STARTS = (b"FUJIFILMCCD-RAW", b"FOVb", b"IIRO", b"IIRS", b"MMOR", b"IIU\x00")  # RAF, X3F, ORF, RW2
_CRITICAL = re.compile(rb"[A-Z][A-Za-z]{3}|fdAT")  # PNG chunks that change the pixels


def sniff_format(head: bytes) -> str | None:
    """Returns the format by a file's first bytes: one of the eight that are read, or None."""
    if head[4:8] == b"ftyp":
        end = min(int.from_bytes(head[:4], "big"), len(head))
        brands = [head[8:12], *(head[place : place + 4] for place in range(16, end, 4))]
        return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), None)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)


def is_camera_raw(head: bytes) -> bool:
    """Whether a file that is none of the formats read holds a camera's raw data. Those in TIFF's form are found by
    their directories."""
    return head.startswith(_RAW_STARTS) or head[4:12] == b"ftypcrx "  # CR3


def read_webp_size(data: bytes) -> tuple[int, int] | None:
    """Returns width and height of a WebP's canvas (RFC 9649, 2.5 to 2.7); libwebp allocates it on opening."""
    if data[12:16] == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[12:16] == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if data[12:16] == b"VP8 " and len(data) >= 30:
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def count_gif_frames(data: bytes, most: int) -> int:
    """Counts the frames of a GIF, up to `most` + 1. Raises ValueError where the file ends before its trailer."""
    frames, place = 0, 13 + _colours(data[10])
    try:
        while frames <= most and (mark := data[place]) != 0x3B:
            if mark == 0x21:  # an extension
                place = _after_blocks(data, place + 2)
            elif mark == 0x2C:
                frames += 1
                place = _after_blocks(data, place + 11 + _colours(data[place + 9]))
            else:  # decoders skip it, too
                place += 1
    except IndexError:
        raise ValueError("the file ends before its trailer") from None
    return frames


def _colours(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_blocks(data: bytes, place: int) -> int:
    while size := data[place]:
        place += size + 1
    return place + 1


def check_png(data: bytes) -> None:
    """Raises ValueError unless the file is complete and the checksums of all critical chunks are correct."""
    place = 8
    while True:
        if place + 12 > len(data):
            raise ValueError("the file ends before its last chunk")
        size, name = struct.unpack_from(">I4s", data, place)
        end = place + 8 + size
        if _CRITICAL.fullmatch(name):
            stored = data[end : end + 4]
            if zlib.crc32(memoryview(data)[place + 4 : end]) != int.from_bytes(stored, "big") or len(stored) < 4:
                raise ValueError(f"chunk {name.decode()} is cut or damaged")
        if name == b"IEND":
            return
        place = end + 4
