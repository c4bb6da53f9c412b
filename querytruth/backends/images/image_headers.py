"""Format, size and number of frames of an image file, and which directory of a TIFF is the image, without decoding.

It also finds two kinds of damage that Pillow accepts: a GIF cut between two frames, and a PNG with a damaged chunk or
without its end. The first directory of a TIFF is usually its image. Cameras write raw data in TIFF's form (DNG, NEF,
ARW, CR2, PEF): there the first directory is a thumbnail or a preview, and the image is what the sensor measured, behind
a colour filter, in a directory below it. NewSubfileType marks thumbnails, and PhotometricInterpretation gives the
meaning of pixels (TIFF 6.0; TIFF/EP, ISO 12234-2; DNG 1.7).
"""

import re
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

_NEW_SUBFILE, _SUBFILE, _WIDTH, _HEIGHT, _PHOTOMETRIC, _BELOW = 254, 255, 256, 257, 262, 330
_DNG_VERSION = 50706
_REDUCED = 1, 2  # NewSubfileType's bit, and SubfileType's value, of a smaller version of another directory's image
_SENSOR = {32803: "a colour filter array", 34892: "linear sensor data"}
_SIZES = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}  # of the types of whole numbers
_MOST = 2000  # directories that are read
_MOST_BELOW = 64  # that one directory names
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
# What else lies among images: named, so that a person knows whether to convert it or to fetch it again.
_OTHERS = {
    b"\xff\x0a": "JPEG XL",
    b"\x00\x00\x00\x0cJXL \r\n\x87\n": "JPEG XL",
    b"\x00\x00\x00\x0cjP  \r\n\x87\n": "JPEG 2000",
    b"\xff\x4f\xff\x51": "JPEG 2000",
    b"8BPS": "Photoshop",
    b"\x00\x00\x01\x00": "an icon",
    b"%PDF": "PDF",
    b"%!PS": "PostScript",
    b"SIMPLE  =": "FITS",
    b"\x76\x2f\x31\x01": "OpenEXR",
    b"#?RADIANCE": "Radiance",
    b"DDS ": "DirectDraw",
    b"PK\x03\x04": "a zip archive",
    b"version https://git-lfs": "a Git LFS pointer: `git lfs pull` fetches the file",
} | {f"P{number}".encode() + blank: "a portable pixmap" for number in range(1, 8) for blank in (b"\n", b" ")}
_TAG = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s*<(?:!--.*?--|\?xml.*?\?)>)*\s*<!?([a-z]+)", re.IGNORECASE | re.DOTALL)
_TAGS = {"doctype": "a web page", "html": "a web page", "head": "a web page", "svg": "SVG"}
_RAW_STARTS = (b"FUJIFILMCCD-RAW", b"FOVb", b"IIRO", b"IIRS", b"MMOR", b"IIU\x00")  # RAF, X3F, ORF, RW2
_CRITICAL = re.compile(rb"[A-Z][A-Za-z]{3}|fdAT")  # PNG chunks that change the pixels


class UnusableImage(Exception):
    """Raised for a file that is not read, with reason and detail, such as `camera_raw` (a camera's raw data become an
    image only by developing them) and `thumbnail_first` (of one that Pillow cannot reach)."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


class _Directory(NamedTuple):
    """A directory; `page` is its place among those that follow each other, None below another one."""

    page: int | None
    is_reduced: bool
    width: int
    height: int
    photometric: int
    is_dng: bool

    @property
    def pixels(self) -> int:
        return self.width * self.height


def find_image_page(data: bytes) -> int:
    """Return the page of a TIFF that is the image: the first, unless it is marked as a smaller version and a larger
    page is not. Raises UnusableImage."""
    directories = list(_directories(data))
    if not directories:
        return 0
    first = directories[0]
    size = f"its first directory is an image of {first.width} x {first.height}"
    sensor = next((_SENSOR[one.photometric] for one in directories if one.photometric in _SENSOR), None)
    if sensor or data[8:10] == b"CR" or any(one.is_dng for one in directories):
        raise UnusableImage("camera_raw", f"{sensor or 'a DNG or CR2 file'}: {size}")
    larger = [one for one in directories[1:] if one.pixels > first.pixels and not one.is_reduced]
    if page := next((one.page for one in larger if one.page and first.is_reduced), None):
        return page
    if below := [one for one in larger if one.page is None]:
        hidden = f"{size}, and the image of {below[0].width} x {below[0].height} below it cannot be read"
        raise UnusableImage("thumbnail_first", hidden)
    return 0


def _directories(data: bytes) -> Iterator[_Directory]:
    """Yield the directories, each followed by those below it; stop at one that is cut off or that was already read."""
    order = "<" if data[:2] == b"II" else ">"
    is_big = data[2:4] in (b"+\x00", b"\x00+")
    head = struct.Struct(order + ("Q" if is_big else "I"))
    known: set[int] = set()
    place, page = _number(head, data, 8 if is_big else 4), 0
    while place and place not in known and len(known) < _MOST:
        known.add(place)
        if (read := _read(data, place, order, is_big, page)) is None:
            return
        directory, below, place = read
        yield directory
        page += 1
        for child in below:
            if child not in known and len(known) < _MOST:
                known.add(child)
                if (found := _read(data, child, order, is_big, None)) is not None:
                    yield found[0]


def _number(form: struct.Struct, data: bytes, place: int) -> int:
    return int(form.unpack_from(data, place)[0]) if place + form.size <= len(data) else 0


def _read(
    data: bytes, place: int, order: str, is_big: bool, page: int | None
) -> tuple[_Directory, list[int], int] | None:
    """Return the directory, the places of those below it, and that of the next one."""
    counter, entry = (
        struct.Struct(order + ("Q" if is_big else "H")),
        struct.Struct(order + ("HHQ" if is_big else "HHI")),
    )
    offset = struct.Struct(order + ("Q" if is_big else "I"))
    step, count = entry.size + offset.size, _number(counter, data, place)
    place += counter.size
    if not count or place + count * step > len(data):
        return None
    values: dict[int, list[int]] = {}
    for number in range(count):
        tag, kind, many = entry.unpack_from(data, place + number * step)
        if tag in (_NEW_SUBFILE, _SUBFILE, _WIDTH, _HEIGHT, _PHOTOMETRIC, _BELOW, _DNG_VERSION) and kind in _SIZES:
            form = struct.Struct(order + _SIZES[kind])
            many, start = min(many, _MOST_BELOW), place + number * step + entry.size
            start = start if many * form.size <= offset.size else _number(offset, data, start)
            values[tag] = [_number(form, data, start + form.size * at) for at in range(many)] or [0]
    flag, old = values.get(_NEW_SUBFILE, [0])[0], values.get(_SUBFILE, [0])[0]
    one = {tag: values.get(tag, [0])[0] for tag in (_WIDTH, _HEIGHT, _PHOTOMETRIC)}
    is_reduced = bool(flag & _REDUCED[0]) or old == _REDUCED[1]
    found = _Directory(page, is_reduced, one[_WIDTH], one[_HEIGHT], one[_PHOTOMETRIC], _DNG_VERSION in values)
    return found, values.get(_BELOW, []), _number(offset, data, place + count * step)


def sniff_format(head: bytes) -> str | None:
    """Return the format by a file's first bytes: one of the eight that are read, or None."""
    if head[4:8] == b"ftyp":
        end = min(int.from_bytes(head[:4], "big"), len(head))
        brands = [head[8:12], *(head[place : place + 4] for place in range(16, end, 4))]
        return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), None)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)


def describe_other_kind(head: bytes) -> str | None:
    """Return the type of an unsupported file by its first bytes, or None if it is unknown."""
    if head[4:8] == b"ftyp":  # a phone stores a short film beside a photo
        return f"a video or an unknown image type, brand {head[8:12].decode('latin-1').strip()!r}"
    if tag := _TAG.match(head):
        return _TAGS.get(tag[1].decode().lower(), "XML")
    if head.lstrip()[:1] in (b"{", b"["):
        return "JSON"
    return next((name for start, name in _OTHERS.items() if head.startswith(start)), None)


def is_camera_raw(head: bytes) -> bool:
    """Return whether an unsupported file holds a camera's raw data. Raw files in TIFF's form are found by their
    directories."""
    return head.startswith(_RAW_STARTS) or head[4:12] == b"ftypcrx "  # CR3


def read_webp_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a WebP's canvas (RFC 9649, 2.5 to 2.7); libwebp allocates it on opening."""
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
    """Count the frames of a GIF, up to `most` + 1. Raises ValueError where the file ends before its trailer."""
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
    """Raise ValueError unless the file is complete and the checksums of all critical chunks are correct."""
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
