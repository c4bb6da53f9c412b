"""The scans of a JPEG: each of them takes the time of a whole decode, and a few bytes are enough for one."""

import re

_SOS, _EOI = 0xDA, 0xD9
_PROGRESSIVE = re.compile(rb"\xff[\xc2\xc6\xca\xce]")
_MARKER = re.compile(rb"\xff+[^\x00\xff\xd0-\xd7\x01]")  # neither a coded 0xFF nor a restart marker
_LEAST_PIXELS = 5000  # that each segment counts as at least: a million empty segments also take time


def exceeds_scan_work(data: bytes, pixels: int, layers: int, coded_from: int, most: int) -> bool:
    """Whether decoding the scans of a JPEG visits more than `most` pixels in all. `coded_from` is the offset of the
    first scan's data. Most files have one scan of all layers, of which only the header is looked at."""
    header = coded_from - 8 - 2 * layers
    if not _PROGRESSIVE.search(data, 0, coded_from) and header >= 0 and data.startswith(bytes([0xFF, _SOS]), header):
        return False
    work, place = max(pixels, _LEAST_PIXELS), coded_from
    while work <= most and (found := _MARKER.search(data, place)):
        marker, place = data[found.end() - 1], found.end()
        if marker == _EOI:
            return False
        work += max(pixels, _LEAST_PIXELS) if marker == _SOS else _LEAST_PIXELS
        place += int.from_bytes(data[place : place + 2], "big")
    return work > most
