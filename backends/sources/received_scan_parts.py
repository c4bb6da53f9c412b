"""Parts of a scan that others may have written: what they hold is checked before anything uses it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from backends.bounded_parquet import read_parquet, read_parquet_schema
from backends.checked_parquet import read_checked
from builders.gallery.colour_cells import COLOUR_BYTES, DETAIL_SIDE
from builders.gallery.patch_hashes import PATCH_TYPE, THUMBNAIL_HEAD
from builders.records import SCANNED_IMAGES_SCHEMA

MAX_PART_BYTES = 256 << 20
_FORMS = {  # ids, which become parts of paths, are made of sha256; reasons stand in the ledger
    "sha256": "^[0-9a-f]{64}$",
    "pixels": "^[0-9a-f]{32,64}$",
    "head": "^[0-9a-f]{0,64}$",
    "format": "^[A-Z0-9]{1,16}$",
    "taken_at": "^[0-9T:.+Z-]{1,40}$",
    "reason": "^[a-z_]{1,64}$",
}
_LIMITS = {"width": (1, 1 << 17), "height": (1, 1 << 17), "orientation": (1, 8)}
_OF_READ_IMAGES = ["sha256", "pixels", "width", "height", "format"]
_LENGTHS = {"colours": COLOUR_BYTES, "details": 1 + DETAIL_SIDE**2}  # bytes


def is_sound_part(path: Path) -> bool:
    """Whether a file is a part of a scan as `scan_part` writes it, with values of the right forms. Reads it within the
    limits of `bounded_parquet`."""
    try:
        if not read_parquet_schema(path).equals(SCANNED_IMAGES_SCHEMA):
            return False
        table = read_parquet(path)
    except (OSError, pa.ArrowException):
        return False
    return read_checked(path, ["item"]) is not None and _has_right_values(table)


def _has_right_values(table: pa.Table) -> bool:
    items, is_read = table["item"].combine_chunks(), pc.is_null(table["reason"])
    if items.null_count or not pc.all(pc.less(items[:-1], items[1:]), min_count=0).as_py():
        return False
    forms = (pc.match_substring_regex(table[name], form) for name, form in _FORMS.items())
    ranges = (
        pc.and_(pc.greater_equal(table[name], low), pc.less_equal(table[name], high))
        for name, (low, high) in _LIMITS.items()
    )
    read = table.filter(is_read)
    return (
        all(pc.all(column, min_count=0).as_py() for column in (*forms, *ranges))
        and not any(read[name].null_count for name in _OF_READ_IMAGES)
        and all(len(value) % PATCH_TYPE.itemsize == 0 for value in _values(table, "patches"))
        and all(map(_is_thumbnail, _values(table, "thumbnail")))
        and all(len(value) == length for name, length in _LENGTHS.items() for value in _values(table, name))
    )


def _values(table: pa.Table, name: str) -> list[bytes]:
    values: list[bytes] = table[name].drop_null().to_pylist()
    return values


def _is_thumbnail(value: bytes) -> bool:
    if len(value) < THUMBNAIL_HEAD:
        return False
    return value[1] > 0 and value[2] > 0 and len(value) == THUMBNAIL_HEAD + value[1] * value[2]
