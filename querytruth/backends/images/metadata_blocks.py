"""The blocks of an image file that hold what people and programs wrote: XMP, IPTC-IIM and EXIF. Nothing is decoded.

JPEG: segments APP1 and APP13, the main XMP packet and the parts of an extended one (XMP Specification Part 3,
1.1.3.1). PNG and WebP: chunks. TIFF: tags 700 and 33723. HEIF: by libheif.
"""

import io
import re
import struct
import zlib
from collections.abc import Iterator
from mmap import mmap

from querytruth.backends.images.image_headers import sniff_format

MAX_BLOCK_BYTES = 16 << 20  # of one kind of metadata: more than a photo manager writes
_XMP, _EXTENDED = b"http://ns.adobe.com/xap/1.0/\0", b"http://ns.adobe.com/xmp/extension/\0"
_PHOTOSHOP, _IPTC_RESOURCE = b"Photoshop 3.0\0", 0x0404
_EXTENDED_HEAD = struct.Struct(">32sII")  # MD5 of the whole as hexadecimal digits, its length, the offset of this part
_EXTENDED_NAME = re.compile(rb"HasExtendedXMP\s*(?:=\s*[\"']|>)\s*([0-9A-Fa-f]{32})")
_TIFF_BLOCKS = {700: "xmp", 33723: "iptc"}
_WEBP_BLOCKS = {b"XMP ": "xmp", b"EXIF": "exif"}


def find_blocks(data: bytes | mmap, problems: list[str]) -> dict[str, bytes]:
    """Return the first block of each kind (xmp, extended_xmp, iptc, exif) of an image file, of whatever format by its
    first bytes; `problems` gets a line for each that cannot be read."""
    kind, found = sniff_format(bytes(data[:64])), dict[str, bytes]()
    listed = _list_blocks(kind or "", data, problems)
    for name, block in listed:
        if len(block) > MAX_BLOCK_BYTES and not (kind == "TIFF" and name == "exif"):  # there, EXIF is the file
            problems.append(f"{name}: {len(block) >> 20} MB, more than {MAX_BLOCK_BYTES >> 20} MB")
        elif block:
            found.setdefault(name, block.removeprefix(b"Exif\0\0"))
    return found


def _list_blocks(kind: str, data: bytes | mmap, problems: list[str]) -> Iterator[tuple[str, bytes]]:
    if kind == "JPEG":
        yield from _list_jpeg_blocks(data, problems)
    elif kind == "PNG":
        yield from _list_png_blocks(data, problems)
    elif kind == "WEBP":
        for name, at, size in _list_chunks(data, 12, "<4sI", 8):
            if name in _WEBP_BLOCKS:
                yield _WEBP_BLOCKS[name], bytes(data[at : at + size])
    elif kind == "TIFF":
        yield from _list_tiff_blocks(bytes(data))
    elif kind == "HEIF":
        import pillow_heif

        info = pillow_heif.open_heif(io.BytesIO(bytes(data))).info
        yield from ((name, info.get(name) or b"") for name in ("xmp", "exif"))


def _list_jpeg_blocks(data: bytes | mmap, problems: list[str]) -> Iterator[tuple[str, bytes]]:
    parts, resources, main = dict[tuple[bytes, int], tuple[int, bytes]](), b"", b""
    for marker, body in _list_segments(data):
        if marker == 0xE1 and body.startswith(_XMP):
            main = main or body[len(_XMP) :]
        elif marker == 0xE1 and body.startswith(_EXTENDED) and len(body) >= len(_EXTENDED) + _EXTENDED_HEAD.size:
            digest, whole, offset = _EXTENDED_HEAD.unpack_from(body, len(_EXTENDED))
            parts[digest.upper(), offset] = whole, body[len(_EXTENDED) + _EXTENDED_HEAD.size :]
        elif marker == 0xE1 and body.startswith(b"Exif\0"):
            yield "exif", body[6:]
        elif marker == 0xED and body.startswith(_PHOTOSHOP):
            resources += body[len(_PHOTOSHOP) :]
    yield "xmp", main
    yield "iptc", b"".join(value for number, value in _list_resources(resources) if number == _IPTC_RESOURCE)
    # Only the packet that the main one names belongs to it: an editor may have left others.
    if (named := _EXTENDED_NAME.search(main)) is not None:
        mine = sorted((at, *part) for (digest, at), part in parts.items() if digest == named[1].upper())
        joined = b"".join(part for _, _, part in mine)
        if mine and len(joined) == mine[0][1]:
            yield "extended_xmp", joined
        else:
            problems.append("extended XMP: a part is missing")


def _list_segments(data: bytes | mmap) -> Iterator[tuple[int, bytes]]:
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in (0xDA, 0xD9):  # the scan, the end
            return
        if marker == 0xFF:
            at += 1
            continue
        size = 0 if marker in (0x01, *range(0xD0, 0xD8)) else int.from_bytes(data[at + 2 : at + 4], "big")
        if marker in (0xE1, 0xED):
            yield marker, bytes(data[at + 4 : at + 2 + size])
        at += 2 + size


def _list_resources(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and value of Photoshop's image resources."""
    at = 0
    while data[at : at + 4] == b"8BIM" and at + 12 <= len(data):
        number, name = struct.unpack_from(">HB", data, at + 4)
        at += 6 + (name + 2 & ~1)  # a Pascal string, padded to an even length
        size = int.from_bytes(data[at : at + 4], "big")
        yield number, data[at + 4 : at + 4 + size]
        at += 4 + size + size % 2


def _list_chunks(data: bytes | mmap, at: int, form: str, around: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, place and size of the chunks from a place on. `around`: the bytes of a chunk besides its value."""
    while at + 8 <= len(data):
        first, second = struct.unpack_from(form, data, at)
        name, size = (first, second) if isinstance(first, bytes) else (second, first)
        yield name, at + 8, size
        at += around + size + (size % 2 if around == 8 else 0)


def _list_png_blocks(data: bytes | mmap, problems: list[str]) -> Iterator[tuple[str, bytes]]:
    for name, at, size in _list_chunks(data, 8, ">I4s", 12):
        value = bytes(data[at : at + min(size, MAX_BLOCK_BYTES + 1)]) if name in (b"iTXt", b"eXIf") else b""
        if name == b"eXIf":
            yield "exif", value
        elif value.startswith(b"XML:com.adobe.xmp\0"):
            text = value[20:].split(b"\0", 2)[-1]
            try:
                yield "xmp", zlib.decompressobj().decompress(text, MAX_BLOCK_BYTES + 1) if value[18] else text
            except zlib.error as error:
                problems.append(f"PNG chunk iTXt: {error}"[:200])


def _list_tiff_blocks(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield "exif", data
    order = "<" if data[:1] == b"I" else ">"
    start = struct.unpack_from(f"{order}I", data, 4)[0]
    entries = data[start + 2 : start + 2 + 12 * struct.unpack_from(f"{order}H", data, start)[0]]
    for tag, kind, number, at in struct.iter_unpack(f"{order}HHII", entries[: len(entries) // 12 * 12]):
        size = number * (4 if kind == 4 else 1)  # IPTC is often stored as LONG
        if tag in _TIFF_BLOCKS and size > 4:
            yield _TIFF_BLOCKS[tag], data[at : at + size]
