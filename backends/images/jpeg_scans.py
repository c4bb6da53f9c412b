"""The scans of a JPEG: each of them takes the time of a whole decode, and a few bytes are enough for one; and whether
all of them are there in a file that ends without its mark."""

import re
from collections import defaultdict
from collections.abc import Iterator

_SOS, _EOI = 0xDA, 0xD9
_PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}
_WITHOUT_LENGTH = {0x00, 0x01, *range(0xD0, 0xDA)}
_MARKER = re.compile(rb"\xff+[^\x00\xff\xd0-\xd7\x01]")  # neither a coded 0xFF nor a restart marker
_FRAMES = {0xC0, 0xC1, 0xC2}  # with Huffman codes: baseline, extended, progressive
_ALL_BITS = 0  # "successive approximation low": no bit of a coefficient is left for a later scan
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


def lacks_end_mark_alone(data: bytes) -> int:
    """Returns the number of layers of a JPEG that ends in the codes of its last scan, without the mark behind them; 0
    for a file with an end mark, and for one whose frame needs further scans. Whether the codes are complete is seen by
    decoding them."""
    if data.endswith(b"\xff\xd9") or data.rfind(b"\xff\xd9") > data.rfind(b"\xff\xda"):
        return 0
    layers, sent = set[int](), defaultdict[int, set[int]](set)
    is_progressive, last = False, 0
    for marker, segment in _segments(data):
        last = marker
        if marker in _FRAMES and len(segment) > 5:
            is_progressive, layers = marker in _PROGRESSIVE, set(segment[6 : 6 + 3 * segment[5] : 3])
        elif marker == _SOS and segment and len(segment) >= 4 + 2 * segment[0]:
            first, final, bits = segment[1 + 2 * segment[0] :][:3]
            for layer in segment[1 : 1 + 2 * segment[0] : 2]:
                if not is_progressive:
                    sent[layer] |= set(range(64))
                elif bits & 15 == _ALL_BITS:
                    sent[layer] |= set(range(first, final + 1))
    is_whole = last == _SOS and layers and all(len(sent[layer]) == 64 for layer in layers)
    return len(layers) if is_whole else 0


def _segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the marker and the contents of each segment, until one is cut."""
    place = 2
    while found := _MARKER.search(data, place):
        marker, place = data[found.end() - 1], found.end()
        length = int.from_bytes(data[place : place + 2], "big")
        if marker in _WITHOUT_LENGTH or length < 2 or place + length > len(data):
            return
        yield marker, data[place + 2 : place + length]
        place += length
