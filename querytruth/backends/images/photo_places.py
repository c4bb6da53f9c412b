"""Takes the coordinates out of an image file, without decoding it: its pixels, orientation and dates stay.

They stand in the GPS directory of EXIF (CIPA DC-008, tag 0x8825) and in XMP (`exif:GPSLatitude` and the like). Both
are blanked where they stand, so that the file keeps its length and every other offset in it. XMP that is compressed,
as some PNG files have it, is not read; nor are places that are written out as words.
"""

import re
import struct
import zlib

# What stands before a TIFF header with EXIF: in JPEG and HEIF, in WebP, in PNG, and at the start of a TIFF file.
_TIFF = re.compile(rb"(?:Exif\0\0|EXIF.{4}|eXIf|\0\0\0\0|\A)(II\*\0|MM\0\*)", re.DOTALL)
_XMP = re.compile(rb"<x:xmpmeta.*?</x:xmpmeta>", re.DOTALL)
_XMP_PLACE = re.compile(rb"""(exif:GPS\w+\s*=\s*)("[^"]*"|'[^']*')|(<exif:GPS\w+[^>/]*>)([^<]*)(?=</exif:GPS)""")
_GPS_TAG = 0x8825
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}  # bytes of a value, by its type
_MOST_ENTRIES = 64  # of a GPS directory; the standard knows 32
_PNG = b"\x89PNG\r\n\x1a\n"


def remove_coordinates(data: bytes) -> bytes:
    """Returns the file with its coordinates blanked; the same bytes where it has none, or is no image."""
    blanked = bytearray(data)
    for found in _TIFF.finditer(data):
        _blank_gps(blanked, found.start(1), "<" if found[1].startswith(b"II") else ">")
    for packet in _XMP.finditer(data):
        for found in _XMP_PLACE.finditer(data, packet.start(), packet.end()):
            start, end = (found.start(2) + 1, found.end(2) - 1) if found[2] else found.span(4)
            blanked[start:end] = b" " * (end - start)
    if blanked == data:
        return data
    if data.startswith(_PNG):
        _sum_chunks(blanked)
    return bytes(blanked)


def _blank_gps(data: bytearray, base: int, order: str) -> None:
    """Blanks the GPS directory of the EXIF whose TIFF header stands at `base`; none where the offsets lead outside."""
    try:
        for place in _list_entries(data, base + struct.unpack_from(f"{order}I", data, base + 4)[0], order):
            tag, _, _, offset = struct.unpack_from(f"{order}HHII", data, place)
            if tag != _GPS_TAG:
                continue
            gps = base + offset
            for entry in _list_entries(data, gps, order, _MOST_ENTRIES):
                _, kind, count, value = struct.unpack_from(f"{order}HHII", data, entry)
                size = _SIZES.get(kind, 1) * count
                if 4 < size <= len(data) - base - value:
                    data[base + value : base + value + size] = bytes(size)
                data[entry : entry + 12] = bytes(12)
            data[gps : gps + 2] = bytes(2)
    except struct.error:
        return


def _list_entries(data: bytearray, start: int, order: str, most: int = 1 << 16) -> range:
    count = struct.unpack_from(f"{order}H", data, start)[0]
    return range(start + 2, start + 2 + 12 * min(count, most), 12)


def _sum_chunks(data: bytearray) -> None:
    """Writes the checksums of a PNG file's chunks anew."""
    place = len(_PNG)
    while place + 12 <= len(data):
        end = place + 8 + int(struct.unpack_from(">I", data, place)[0])
        if end + 4 > len(data):
            return
        struct.pack_into(">I", data, end, zlib.crc32(data[place + 4 : end]))
        place = end + 4
