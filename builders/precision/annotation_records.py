"""The records of a COCO-form file, their attributes, and the rules for both.

Each rule is here twice on purpose. msgspec checks a batch of records against the types fast, but reports only that some
record does not fit; the functions then give the reason for each record.
"""

import math
import reprlib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import msgspec
import numpy as np

from builders.precision.attributes import AttributeChoice, AttributeFile, join_attribute
from querytruth.backends.files.json_stream import JsonObjectReader

_short = reprlib.Repr()  # bounded in depth and size, whatever the record holds
_short.maxdict, _short.maxstring, _short.maxother = 12, 80, 80

# What a record has once: which of two values counts would be a guess.
ANNOTATION_KEYS, IMAGE_KEYS, CATEGORY_KEYS = ("image_id", "category_id", "bbox"), ("id", "file_name"), ("id", "name")
ANNOTATION_MARKS = b"__["  # a second image_id or category_id has one underscore more, a second bbox one bracket
_UNKNOWN = ("", "unknown", "n/a", "none", "null", "nan", "unspecified")  # values of an attribute that was not looked at
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


class CocoAnnotation(msgspec.Struct, gc=False):
    """The fields of an annotation that are read; its own id is not."""

    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    iscrowd: int | bool | None = None
    isfake: int | bool | None = None
    area: float | None = None


class CocoDetection(CocoAnnotation, gc=False, kw_only=True):
    """A box of a detector's results."""

    score: float


_PixelSide = Annotated[int, msgspec.Meta(gt=0, lt=2**31)] | None


class CocoImage(msgspec.Struct, gc=False):
    """An entry of `images`."""

    id: int | str
    file_name: Annotated[str, msgspec.Meta(min_length=1)]
    width: _PixelSide = None
    height: _PixelSide = None
    license: int | str | None = None
    flickr_url: str | None = None
    coco_url: str | None = None
    url: str | None = None


def parse_annotation(record: object) -> CocoAnnotation | str:
    """Return the annotation, or the reason why it is invalid."""
    if not isinstance(record, dict):
        return "not_an_object"
    if record.get("bbox") in (None, []) and (extent := find_extent(record.get("segmentation"))) is not None:
        record = record | {"bbox": extent}
    for key in ANNOTATION_KEYS:
        if record.get(key) is None:
            return f"missing_{key}"
    bbox = record["bbox"]
    if not isinstance(bbox, list) or len(bbox) != 4 or not all(_is_number(side) for side in bbox):
        return "bbox_not_four_numbers"
    image, category = parse_record_id(record["image_id"]), parse_record_id(record["category_id"])
    if image is None or category is None:
        return "bad_image_id" if image is None else "bad_category_id"
    flags = [record.get("iscrowd"), record.get("isfake")]
    if not all(flag is None or isinstance(flag, int | float) for flag in flags):
        return "bad_flag"
    a, b, c, d = map(_float, bbox)
    area = _float(record["area"]) if _is_number(record.get("area")) else None
    return CocoAnnotation(image, category, (a, b, c, d), *[flag and bool(flag) for flag in flags], area)  # type: ignore[arg-type, call-arg]


def parse_detection(record: Any) -> CocoDetection | str:
    """Return the detection, or the reason why it is invalid."""
    box = parse_annotation(record)
    if isinstance(box, str):
        return box
    score = record.get("score")
    if not _is_number(score):
        return "bad_score"
    return CocoDetection(**msgspec.structs.asdict(box), score=_float(score))


def find_extent(segmentation: object) -> list[float] | None:
    """Return the box (x, y, width, height) around the polygons of an object, or around the pixels of its run lengths
    (COCO's RLE, as numbers or as text); None where it has neither."""
    if isinstance(segmentation, dict):
        return _find_extent_of_runs(segmentation)
    polygons = segmentation if isinstance(segmentation, list) else []
    polygons = [polygons] if polygons and all(_is_number(one) for one in polygons) else polygons
    points: list[tuple[float, float]] = []
    for polygon in polygons:
        flat = polygon if isinstance(polygon, list) else []
        if flat and all(isinstance(one, list) and len(one) == 2 for one in flat):
            flat = [side for point in flat for side in point]  # [[x, y], …]
        if len(flat) < 6 or len(flat) % 2 or not all(_is_number(one) and math.isfinite(_float(one)) for one in flat):
            return None
        points += zip(map(float, flat[::2]), map(float, flat[1::2]), strict=True)
    if not points:
        return None
    left, top = min(x for x, _ in points), min(y for _, y in points)
    return [left, top, max(x for x, _ in points) - left, max(y for _, y in points) - top]


def _find_extent_of_runs(mask: dict[str, Any]) -> list[float] | None:
    """Run of background and object pixels in turn, column by column."""
    size, counts = mask.get("size"), mask.get("counts")
    if not (isinstance(size, list) and len(size) == 2 and all(_side(side) for side in size)):
        return None
    height, width = map(int, size)
    runs = _decode_runs(counts) if isinstance(counts, str) else counts
    if not isinstance(runs, list) or not all(isinstance(run, int) and run >= 0 for run in runs):
        return None
    if sum(runs) != height * width:
        return None
    at, columns, rows = 0, list[int](), list[int]()
    for number, run in enumerate(runs):
        if number % 2 and run:
            first, last = divmod(at, height), divmod(at + run - 1, height)
            columns += [first[0], last[0]]
            rows += [first[1], last[1]] if first[0] == last[0] else [0, height - 1]
        at += run
    if not columns:
        return None
    left, top = min(columns), min(rows)
    return [left, top, max(columns) - left + 1, max(rows) - top + 1]


def _decode_runs(text: str) -> list[int] | None:
    """Decode COCO's text form of run lengths: five bits a character from code 48 on, the sixth says that more follow;
    from the third on each run is the difference to the one before the last (pycocotools, maskApi.c)."""
    runs, value, shift = list[int](), 0, 0
    for character in text:
        code = ord(character) - 48
        if not 0 <= code < 64 or shift > 60:
            return None
        value |= (code & 31) << shift
        shift += 5
        if not code & 32:
            value -= (1 << shift) if code & 16 else 0
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value, shift = 0, 0
    return runs if not shift else None


def parse_image(record: object) -> CocoImage | str:
    """Return the image record, or the reason why it is invalid."""
    if not isinstance(record, dict):
        return "not_an_object"
    key, name = parse_record_id(record.get("id")), _file_name(record)
    if key is None:
        return "missing_id" if record.get("id") is None else "bad_id"
    if not isinstance(name, str) or not name:
        return "missing_file_name"
    if not is_utf8_text(name):
        return "file_name_not_utf8"
    width, height = (_side(record.get(side)) for side in ("width", "height"))
    urls = [v if is_utf8_text(v := record.get(k)) else None for k in ("flickr_url", "coco_url", "url")]
    return CocoImage(key, name, width, height, parse_record_id(record.get("license")), *urls)


def _file_name(record: dict[str, Any]) -> Any:
    """Return the file name; without one, as in LVIS v1, the end of the URL (val2017/000000397133.jpg)."""
    url = record.get("coco_url")
    if record.get("file_name") is None and isinstance(url, str):
        return "/".join(url.rsplit("/", 2)[1:])
    return record.get("file_name")


def _side(value: object) -> int | None:
    return int(value) if _is_number(value) and 1 <= value < 2**31 else None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _float(value: float) -> float:
    """Return a number too large for a float is infinite; the builder rejects NaN and infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def is_utf8_text(value: object) -> TypeGuard[str]:
    """Return whether it is a string that UTF-8 can encode; a lone surrogate cannot be encoded."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def parse_record_id(value: Any) -> int | str | None:
    """Return an integer (3.0 is 3) or a string, None for anything else."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if (isinstance(value, int) and not isinstance(value, bool)) or is_utf8_text(value) else None


def abbreviate_record(record: object) -> str:
    """Return the beginning of a record for the ledger, at most 200 characters."""
    text = _short.repr(msgspec.to_builtins(record) if isinstance(record, msgspec.Struct) else record)
    return text if len(text) <= 200 else text[:199] + "…"


class _Attributes(msgspec.Struct, gc=False):
    attributes: Any = None


def read_attributes(path: Path, choice: AttributeChoice) -> AttributeFile:
    """Read the requested attributes of all annotations; those of another form are unknown. Raises UserError for a file
    that is not JSON."""
    records, codes, listed = list[int](), list[int](), list[int]()
    code_of, left_out, find_reason = dict[str, int](), Counter[tuple[str, str]](), cache(choice.find_reason)
    with JsonObjectReader(path) as reader:
        for key in reader.keys():  # noqa: SIM118 - a generator, no mapping
            if key != "annotations":
                reader.skip()
                continue
            for first, batch, fits in reader.batches(msgspec.json.Decoder(list[_Attributes])):
                for number, record in enumerate(batch, first):
                    pairs, is_complete = parse_attributes(record.attributes if fits else _get(record))
                    reasons = [(key, name, find_reason(key, name)) for key, name in pairs]
                    left_out.update((key or name, reason) for key, name, reason in reasons if reason)
                    for name in dict.fromkeys(name for _, name, reason in reasons if not reason):
                        records.append(number)
                        codes.append(code_of.setdefault(name, len(code_of)))
                    if is_complete:
                        listed.append(number)
        digest = reader.sha256
    record, code, whole = (np.array(column, dtype=np.int64) for column in (records, codes, listed))
    return AttributeFile(digest, tuple(code_of), record, code, whole, left_out)


def _get(record: object) -> Any:
    return record.get("attributes") if isinstance(record, dict) else None


def parse_attributes(value: object) -> tuple[list[tuple[str, str]], bool]:
    """Return (key, name) of the attributes of a box, each once and in lower case, and whether they are all of its
    attributes. The key is that of an object, "" in a list. Numbers (of a track, of a frame) are not attributes; the
    texts "true" and "false" are true and false."""
    if isinstance(value, list):
        pairs = [("", name) for name in map(_read_name, value)]
    elif isinstance(value, dict):
        truths = {
            key: _TRUTHS.get(one.strip().casefold(), one) if isinstance(one, str) else one for key, one in value.items()
        }
        pairs = [
            (_read_name(key), _read_name(key if one is True else one))
            for key, one in truths.items()
            if one is not False and not _is_number(one)
        ]
    else:
        return [], False
    known = dict.fromkeys(pair for pair in pairs if pair[1] not in _UNKNOWN)
    return list(known), all(name not in _UNKNOWN for _, name in pairs)


def _read_name(value: object) -> str:
    return join_attribute(value) if is_utf8_text(value) else ""
