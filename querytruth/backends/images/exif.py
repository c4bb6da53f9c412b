"""Read orientation, time and place of an image from EXIF. A broken block gives empty fields, never an error.

Only the fields that are needed are read, in three directories; chains of directories are not followed. The rules are
those of exiftool and immich:

- time: DateTimeOriginal, else DateTimeDigitized, else the GPS clock, which is UTC. DateTime (IFD0) is ignored: an
  editor saved the file then. Sub-seconds and offset are given only where the camera wrote them. Dates that do not exist
  and GPS dates before 1980 are ignored (receivers without a fix write their epoch).
- place: both coordinates with their hemispheres, in range. Exactly 0, 0 is ignored: it means a receiver without a fix.
  The "void" status is ignored, because cameras write their last fix.
- orientation: 1 to 8, from the image's own directory (the thumbnail has another); anything else is 1.
"""

import math
import re
import struct
from datetime import datetime
from operator import truediv
from typing import NamedTuple

_MAKE, _MODEL = 0x010F, 0x0110
_ORIENTATION, _EXIF, _GPS = 0x0112, 0x8769, 0x8825
_ORIGINAL, _DIGITIZED = (0x9003, 0x9291, 0x9011), (0x9004, 0x9292, 0x9012)  # date and time, sub-second, offset
_LATITUDE_REF, _LATITUDE, _LONGITUDE_REF, _LONGITUDE, _GPS_TIME, _GPS_DATE = 1, 2, 3, 4, 7, 29
_WANTED = {
    *(_MAKE, _MODEL, _ORIENTATION, _EXIF, _GPS, *_ORIGINAL, *_DIGITIZED),
    *(_LATITUDE_REF, _LATITUDE, _LONGITUDE_REF, _LONGITUDE, _GPS_TIME, _GPS_DATE),
}
# What stands before a TIFF header with EXIF: in JPEG, in WebP, in PNG, and at the start of a TIFF file.
_BLOCK = re.compile(rb"(?:Exif\0\0|EXIF.{4}|eXIf|\A)(?=II\*\0|MM\0\*)", re.DOTALL)
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 9: 4, 10: 8, 13: 4}  # bytes a value, by type
_MOST_BYTES = 256  # of a value; longer values are ignored
_TIME = re.compile(r"(\d{4})[:/.-](\d\d)[:/.-](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?")
_DIGITS = re.compile(r"\d*")
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
_GPS_BEGAN = 1980

_Field = tuple[int, int, bytes]  # type, count, the value's bytes


class Exif(NamedTuple):
    """`taken_at` is ISO 8601, with offset and fraction of a second where the camera wrote them; it ends in Z where the
    satellites' clock is all that is known, and the local day is not. Coordinates are in
    degrees."""

    orientation: int = 1
    taken_at: str | None = None
    latitude: float | None = None
    longitude: float | None = None


def read_exif(block: bytes) -> Exif:
    """Read an EXIF block (with or without its `Exif` mark) or a TIFF file. Unreadable bytes give empty fields."""
    if block[:4] == b"Exif":
        block = block[6:]
    order = {b"II*\x00": "<", b"MM\x00*": ">"}.get(block[:4])
    if order is None or len(block) < 8:
        return Exif()
    first = _directory(block, struct.unpack_from(order + "I", block, 4)[0], order)
    details = first | _subdirectory(block, first, _EXIF, order)
    gps = _subdirectory(block, first, _GPS, order)
    latitude, longitude = _place(gps, order)
    taken_at = _time(details, *_ORIGINAL) or _time(details, *_DIGITIZED) or _gps_time(gps, order)
    orientation = _integer(first.get(_ORIENTATION), order)
    return Exif(orientation if orientation and orientation <= 8 else 1, taken_at, latitude, longitude)


def find_camera(head: bytes) -> str | None:
    """Return the camera of a photo by the first bytes of its file: make and model, the make once, as in "Canon EOS
    40D" and "NIKON D70". None where no EXIF block names a model. Nothing is decoded."""
    if (found := _BLOCK.search(head)) is None:
        return None
    block = head[found.end() :]
    order = "<" if block.startswith(b"II") else ">"
    if len(block) < 8:
        return None
    first = _directory(block, struct.unpack_from(order + "I", block, 4)[0], order)
    make, model = (" ".join(_text(first.get(tag)).split()) for tag in (_MAKE, _MODEL))
    if not model:
        return None
    words = make.split()
    return model if not words or model.casefold().startswith(words[0].casefold()) else f"{make} {model}"


def _directory(block: bytes, start: int, order: str) -> dict[int, _Field]:
    """Return the entries by tag, as far as the block is complete. The first of two with the same tag counts."""
    fields: dict[int, _Field] = {}
    if not 0 < start <= len(block) - 2:
        return fields
    (count,) = struct.unpack_from(order + "H", block, start)
    end = start + 2 + 12 * min(count, (len(block) - start - 2) // 12)
    for tag, kind, number, inline in struct.iter_unpack(order + "HHI4s", block[start + 2 : end]):
        if tag not in _WANTED or tag in fields:
            continue
        size = _SIZES.get(kind, _MOST_BYTES + 1) * number
        if size > _MOST_BYTES:
            continue
        if size > 4:
            (place,) = struct.unpack(order + "I", inline)
            inline = block[place : place + size]
        if len(inline) >= size:
            fields[tag] = (kind, number, inline[:size])
    return fields


def _subdirectory(block: bytes, above: dict[int, _Field], tag: int, order: str) -> dict[int, _Field]:
    start = _integer(above.get(tag), order)
    return _directory(block, start, order) if start else {}


def _integer(field: _Field | None, order: str) -> int | None:
    if field is None or field[0] not in (3, 4, 13) or field[1] < 1:
        return None
    (value,) = struct.unpack_from(order + ("H" if field[0] == 3 else "I"), field[2])
    return int(value)


def _text(field: _Field | None) -> str:
    return field[2].partition(b"\x00")[0].decode("ascii", "replace").strip() if field and field[0] in (2, 7) else ""


def _time(fields: dict[int, _Field], time: int, fraction: int, offset: int) -> str | None:
    match = _TIME.match(_text(fields.get(time)))
    if not match:
        return None
    moment = _moment(*match.groups()[:6])
    part = match[7] or _DIGITS.match(_text(fields.get(fraction)))[0]  # type: ignore[index]
    return moment and moment + (f".{part}" if part else "") + _zone(match[8] or _text(fields.get(offset)))


def _moment(year: str, month: str, day: str, hour: str, minute: str, second: str) -> str | None:
    """Return ISO 8601, or None for a date or time that does not exist."""
    moment = f"{year}-{month}-{day}T{hour}:{minute}:{second}"
    try:
        datetime.fromisoformat(moment)
    except ValueError:
        return None
    return moment


def _zone(written: str) -> str:
    """Return `+hh:mm`, or "" for what is not a time zone (offsets are at most 14 hours)."""
    if written == "Z":
        return "+00:00"
    match = _OFFSET.match(written)
    return f"{match[1]}{match[2]}:{match[3]}" if match and int(match[2]) <= 14 and int(match[3]) < 60 else ""


def _gps_time(gps: dict[int, _Field], order: str) -> str | None:
    date = re.match(r"(\d{4})\D*(\d\d)\D*(\d\d)$", _text(gps.get(_GPS_DATE)))
    clock = _ratios(gps.get(_GPS_TIME), order)
    if not date or int(date[1]) < _GPS_BEGAN or clock is None or len(clock) != 3:
        return None
    milliseconds = round(1000 * (clock[0] * 3600 + clock[1] * 60 + clock[2]))
    seconds, fraction = divmod(milliseconds, 1000)
    if not 0 <= seconds < 86400:
        return None
    hour, minute, second = f"{seconds // 3600:02}", f"{seconds // 60 % 60:02}", f"{seconds % 60:02}"
    moment = _moment(date[1], date[2], date[3], hour, minute, second)
    return moment and moment + (f".{fraction:03}".rstrip("0") if fraction else "") + "Z"


def _place(gps: dict[int, _Field], order: str) -> tuple[float | None, float | None]:
    latitude = _degrees(gps, _LATITUDE, _LATITUDE_REF, "NS", 90, order)
    longitude = _degrees(gps, _LONGITUDE, _LONGITUDE_REF, "EW", 180, order)
    if latitude is None or longitude is None or (latitude, longitude) == (0, 0):
        return None, None
    return latitude, longitude


def _degrees(gps: dict[int, _Field], value: int, reference: int, signs: str, limit: int, order: str) -> float | None:
    """Return signed degrees with seven decimals (a centimetre); None without a hemisphere."""
    parts = _ratios(gps.get(value), order)
    sign = _text(gps.get(reference))[:1].upper()
    if not parts or sign not in tuple(signs):
        return None
    degrees = 0.0
    for part in reversed(parts[:3]):
        degrees = degrees / 60 + part
    if not math.isfinite(degrees) or not 0 <= degrees <= limit:
        return None
    return round(-degrees if sign == signs[1] else degrees, 7) + 0.0  # not -0.0


def _ratios(field: _Field | None, order: str) -> list[float] | None:
    """Return the rational numbers of a field; None if a denominator is 0."""
    if field is None or field[0] not in (5, 10):
        return None
    numbers = struct.unpack(order + str(2 * field[1]) + ("I" if field[0] == 5 else "i"), field[2])
    denominators = numbers[1::2]
    return None if 0 in denominators else list(map(truediv, numbers[::2], denominators))
