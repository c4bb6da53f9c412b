"""The scans of a JPEG: each of them takes the time of a whole decode, and a few bytes are enough for one."""

import re

_SOS, _EOI = 0xDA, 0xD9
_PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}
_WITHOUT_LENGTH = {0x00, 0x01, *range(0xD0, 0xDA)}
_MARKER = re.compile(rb"\xff+[^\x00\xff\xd0-\xd7\x01]")  # neither a coded 0xFF nor a restart marker
_LEAST_PIXELS = 5000  # that each segment counts as at least: a million empty segments also take time


def exceeds_scan_work(data: bytes, pixels: int, layers: int, coded_from: int, most: int) -> bool:
    """Whether decoding the scans of a JPEG visits more than `most` pixels in all. `coded_from` is the offset of the
    first scan's data. Most files have one scan of all layers, of which only the header is looked at."""
    header = coded_from - 8 - 2 * layers
    if header >= 0 and data.startswith(bytes([0xFF, _SOS]), header) and _is_sequential(data, header):
        return False
    work, place = max(pixels, _LEAST_PIXELS), coded_from
    while work <= most and (found := _MARKER.search(data, place)):
        marker, place = data[found.end() - 1], found.end()
        if marker == _EOI:
            return False
        work += max(pixels, _LEAST_PIXELS) if marker == _SOS else _LEAST_PIXELS
        place += int.from_bytes(data[place : place + 2], "big")
    return work > most


def _is_sequential(data: bytes, header: int) -> bool:
    """Whether complete segments without gaps, none of them a progressive frame, lead to the first scan's header."""
    place = 2
    while place < header:
        marker, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        if data[place] != 0xFF or marker in _PROGRESSIVE or marker in _WITHOUT_LENGTH or length < 2:
            return False
        place += 2 + length
    return place == header
