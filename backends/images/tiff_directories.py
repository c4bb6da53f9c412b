"""The directories of a TIFF: which of them is the picture, and whether the file is a camera's raw data.

The first directory of a file is usually its picture. Cameras write raw data in TIFF's form (DNG, NEF, ARW, CR2, PEF):
there the first directory is a thumbnail or a preview, and the picture is what the sensor measured, behind a colour
filter, in a directory below it. Which directory is a thumbnail stands in NewSubfileType, and what pixels mean in
PhotometricInterpretation (TIFF 6.0; TIFF/EP, ISO 12234-2; DNG 1.7).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

_NEW_SUBFILE, _SUBFILE, _WIDTH, _HEIGHT, _PHOTOMETRIC, _BELOW = 254, 255, 256, 257, 262, 330
_DNG_VERSION = 50706
_REDUCED = 1, 2  # NewSubfileType's bit, and SubfileType's value, of a smaller version of another directory's image
_SENSOR = {32803: "a colour filter array", 34892: "linear sensor data"}
_SIZES = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}  # of the types of whole numbers
_MOST = 2000  # directories that are read
_MOST_BELOW = 64  # that one directory names


class CameraRaw(Exception):
    """Raised for a camera's raw data: they become a picture only by developing them."""


class ThumbnailFirst(Exception):
    """Raised for a file whose first directory is a smaller version of one that Pillow cannot reach."""


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


def find_picture_page(data: bytes) -> int:
    """Returns the page of a TIFF that is the picture: the first, unless it says of itself that it is a smaller version
    and a larger page does not. Raises CameraRaw and ThumbnailFirst."""
    directories = list(_directories(data))
    if not directories:
        return 0
    first = directories[0]
    size = f"its first directory is a picture of {first.width} x {first.height}"
    sensor = next((_SENSOR[one.photometric] for one in directories if one.photometric in _SENSOR), None)
    if sensor or data[8:10] == b"CR" or any(one.is_dng for one in directories):
        raise CameraRaw(f"{sensor or 'a DNG or CR2 file'}: {size}")
    larger = [one for one in directories[1:] if one.pixels > first.pixels and not one.is_reduced]
    if page := next((one.page for one in larger if one.page and first.is_reduced), None):
        return page
    if below := [one for one in larger if one.page is None]:
        raise ThumbnailFirst(f"{size}, and the one of {below[0].width} x {below[0].height} below it cannot be read")
    return 0


def _directories(data: bytes) -> Iterator[_Directory]:
    """Yields the directories, each followed by those below it; until one is cut or is there a second time."""
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
    """Returns the directory, the places of those below it, and that of the next one."""
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
