"""Remove from an image file what cameras, editors and people wrote into it: owner, serial numbers, comments, places.

Nothing is decoded: pixels, colour profile, animation, orientation and the time when it was taken stay. JPEG, PNG, WebP
and GIF are written without the segments that hold anything else, and without what follows their end, such as the video
of a phone. Files of other formats (TIFF, HEIF, AVIF) have offsets all over: there the values of EXIF's private tags,
the GPS directory and XMP are blanked in place; compressed or maker-specific data is not found.
"""

import re
import struct
import zlib
from collections.abc import Iterator

from PIL import Image

from querytruth.backends.images.exif import read_exif

_DETAILS, _GPS = 0x8769, 0x8825
_JPEG, _PNG, _GIF = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", re.compile(rb"GIF8[79]a")
# JPEG: the segments APP0 to APP15 and the comment are metadata, but for these.
_SEGMENTS = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}
_COMMENT, _SCAN, _END, _EXIF_SEGMENT = 0xFE, 0xDA, 0xD9, 0xE1
_AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
# PNG: chunks that a decoder may leave out begin with a small letter; these change what is seen.
_CHUNKS = b"tRNS gAMA cHRM sRGB iCCP sBIT bKGD pHYs cICP mDCV cLLI acTL fcTL fdAT".split()
_WEBP_CHUNKS = b"VP8 ,VP8L,VP8X,ALPH,ANIM,ANMF,ICCP".split(b",")
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")  # GIF: how often an animation is repeated
# Other formats. What stands before a TIFF header: in HEIF, and at the start of a TIFF file.
_TIFF = re.compile(rb"(?:Exif\0\0|\0\0\0\0|\A)(II\*\0|MM\0\*)", re.DOTALL)
_XMP = re.compile(rb"<x:xmpmeta.*?</x:xmpmeta>", re.DOTALL)
_MOST_PAGES = 1000
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}  # bytes of a value, by type
_PRIVATE_TAGS = {  # description, make, model, software, artist, host, XMP, copyright, IPTC, Photoshop
    *(0x010E, 0x010F, 0x0110, 0x0131, 0x013B, 0x013C, 0x02BC, 0x8298, 0x83BB, 0x8649),
    *(0x927C, 0x9286, *range(0x9C9B, 0x9CA0)),  # maker note, comments
    *(0xA420, 0xA430, 0xA431, 0xA433, 0xA434, 0xA435, 0xC614, 0xC62F),  # unique id, owner, serial numbers, lens
}


def remove_metadata(data: bytes) -> bytes:
    """Return the file without private metadata, or unchanged if it has none or is not an image."""
    if data.startswith(_JPEG):
        return b"".join(_list_segments(data))
    if data.startswith(_PNG):
        return _PNG + b"".join(_list_chunks(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        chunks = b"".join(_list_webp_chunks(data))
        return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks
    return b"".join(_list_blocks(data)) if _GIF.match(data) else _blank(data)


def _make_exif(block: bytes) -> bytes:
    """Return an EXIF block with the orientation and time of another one; b"" without either."""
    known, exif = read_exif(block), Image.Exif()
    if known.orientation != 1:
        exif[0x0112] = known.orientation
    if known.taken_at is not None and not known.taken_at.endswith("Z"):
        time, fraction, zone = re.fullmatch(r"([\dT:-]{19})(?:\.(\d+))?(.*)", known.taken_at).groups()  # type: ignore[union-attr]
        day, clock = time.split("T")
        details = {0x9003: f"{day.replace('-', ':')} {clock}", 0x9291: fraction, 0x9011: zone}
        exif.get_ifd(_DETAILS).update({tag: value for tag, value in details.items() if value})
    return exif.tobytes() if len(exif) or exif.get_ifd(_DETAILS) else b""


def _list_segments(data: bytes) -> Iterator[bytes]:
    at, has_exif = 2, False
    yield data[:2]
    while data[at : at + 1] == b"\xff" and at + 4 <= len(data) and data[at + 1] != _END:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        end = (
            at + 2 if marker in (0x01, *range(0xD0, 0xD8)) else at + 2 + int(struct.unpack_from(">H", data, at + 2)[0])
        )
        if marker == _SCAN:
            found = _AFTER_SCAN.search(data, end)
            end = found.start() if found else len(data)
        segment, at = data[at:end], end
        if marker == _EXIF_SEGMENT and segment[4:10] == b"Exif\0\0" and not has_exif:
            block, has_exif = _make_exif(segment[10:]), True
            block = block if block.startswith(b"Exif") or not block else b"Exif\0\0" + block
            yield b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block if block else b""
        elif not (0xE0 <= marker <= 0xEF or marker == _COMMENT) or segment[4:].startswith(
            _SEGMENTS.get(marker, b"none")
        ):
            yield segment
    # What follows the end marker does not belong to the image; a damaged file goes on here.
    yield data[at : at + 2] if data[at : at + 2] == bytes([0xFF, _END]) else data[at:]


def _list_chunks(data: bytes) -> Iterator[bytes]:
    at, kind = len(_PNG), b""
    while at + 12 <= len(data) and kind != b"IEND":
        end, kind = at + 12 + int(struct.unpack_from(">I", data, at)[0]), data[at + 4 : at + 8]
        if kind == b"eXIf":
            block = _make_exif(data[at + 8 : end - 4]).removeprefix(b"Exif\0\0")
            if block:
                yield struct.pack(">I", len(block)) + kind + block + struct.pack(">I", zlib.crc32(kind + block))
        elif kind[:1].isupper() or kind in _CHUNKS:
            yield data[at:end]
        at = end
    if kind != b"IEND":
        yield data[at:]


def _list_webp_chunks(data: bytes) -> Iterator[bytes]:
    at, chunks = 12, []
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<4sI", data, at)
        value, at = data[at + 8 : at + 8 + size], at + 8 + size + size % 2
        value = _make_exif(value).removeprefix(b"Exif\0\0") if kind == b"EXIF" else value
        if kind in _WEBP_CHUNKS or (kind == b"EXIF" and value):
            chunks.append((kind, value))
    for kind, value in chunks:
        if kind == b"VP8X" and value:  # flags: bit 3 EXIF, bit 2 XMP
            has_exif = any(other == b"EXIF" for other, _ in chunks)
            value = bytes([value[0] & ~12 | 8 * has_exif]) + value[1:]
        yield kind + struct.pack("<I", len(value)) + value + b"\0" * (len(value) % 2)


def _list_blocks(data: bytes) -> Iterator[bytes]:
    """Yield header and blocks of a GIF file, without comments and applications of others."""
    at = 13 + _palette(data, 10)
    yield data[:at]
    while at < len(data) and data[at] != 0x3B:
        is_extension = data[at] == 0x21
        start, at = at, at + 2 if is_extension else at + 11 + _palette(data, at + 9)
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1
        label = data[start + 1 : start + 2]
        if not is_extension or (label != b"\xfe" and (label != b"\xff" or data[start + 3 : start + 14] in _LOOPS)):
            yield data[start:at]
    yield data[at : at + 1]


def _palette(data: bytes, at: int) -> int:
    """Return the bytes of the palette that the flags at a place announce."""
    flags = data[at] if at < len(data) else 0
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _blank(data: bytes) -> bytes:
    blanked = bytearray(data)
    for found in _TIFF.finditer(data):
        order, base = "<" if found[1].startswith(b"II") else ">", found.start(1)
        try:
            start = struct.unpack_from(f"{order}I", data, base + 4)[0]
            for _ in range(_MOST_PAGES if start else 0):
                for tag, value in _blank_directory(blanked, base, start, order):
                    if tag in (_DETAILS, _GPS):
                        list(_blank_directory(blanked, base, value, order, is_all=tag == _GPS))
                count = struct.unpack_from(f"{order}H", data, base + start)[0]
                if not (start := struct.unpack_from(f"{order}I", data, base + start + 2 + 12 * count)[0]):
                    break
        except struct.error:
            continue
    for packet in _XMP.finditer(data):
        blanked[packet.start() : packet.end()] = b" " * len(packet[0])
    return bytes(blanked)


def _blank_directory(
    data: bytearray, base: int, start: int, order: str, is_all: bool = False
) -> Iterator[tuple[int, int]]:
    """Blank the values of private tags (`is_all`: of all tags, and their number) in a directory of the TIFF header at
    `base`. Yield tag and value of each entry before it is blanked."""
    count = struct.unpack_from(f"{order}H", data, base + start)[0]
    for place in range(base + start + 2, base + start + 2 + 12 * count, 12):
        tag, kind, number, value = struct.unpack_from(f"{order}HHII", data, place)
        yield tag, value
        size = _SIZES.get(kind, 1) * number
        at = base + value if size > 4 else place + 8
        if (is_all or tag in _PRIVATE_TAGS) and at + size <= len(data):
            data[at : at + size] = bytes(size)
    if is_all:
        data[base + start : base + start + 2] = bytes(2)
