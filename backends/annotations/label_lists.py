"""Lists by image of the labels that are annotated whole, as in LVIS: `neg_category_ids` (verified: nothing of it is to
be seen) and `not_exhaustive_category_ids` (some objects have no box). Nothing is known of the other labels without a
box."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from backends.annotations.coco_records import parse_record_id
from backends.annotations.json_stream import JsonObjectReader
from backends.file_errors import translate_read_errors
from backends.regular_files import open_regular
from builders.array_types import AnyArray
from builders.errors import UserError
from builders.precision.label_lists import LabelListFile

_NEGATIVE, _PARTIAL = "neg_category_ids", "not_exhaustive_category_ids"
_KEYS = (f'"{_NEGATIVE}"'.encode(), f'"{_PARTIAL}"'.encode())
_PIECE = 1 << 22  # bytes


class _Lists(msgspec.Struct, gc=False):
    id: Any = None
    neg_category_ids: Any = None
    not_exhaustive_category_ids: Any = None


def read_label_lists(path: Path) -> LabelListFile:
    """Reads the lists of all images. A list that is none of ids is as if it were missing: nothing follows from it."""
    absent, partial = list[tuple[Any, Any]](), list[tuple[Any, Any]]()
    listed = list[Any]()
    with JsonObjectReader(path) as reader:
        for key in reader.keys():  # noqa: SIM118 - a generator, no mapping
            if key != "images":
                reader.skip()
                continue
            for _, batch, fits in reader.batches(msgspec.json.Decoder(list[_Lists])):
                for record in batch if fits else map(_pick, batch):
                    found = _parse_ids(record.not_exhaustive_category_ids)
                    image = parse_record_id(record.id)
                    absent += [(image, category) for category in _parse_ids(record.neg_category_ids) or ()]
                    partial += [(image, category) for category in found or ()]
                    listed += [image] if found is not None else []
        digest = reader.sha256
    one, two, three, four = (_ids([pair[side] for pair in pairs]) for pairs in (absent, partial) for side in (0, 1))
    return LabelListFile(digest, one, two, three, four, _ids(listed))


def _pick(record: Any) -> _Lists:
    found = record if isinstance(record, dict) else {}
    return _Lists(*(found.get(name) for name in ("id", _NEGATIVE, _PARTIAL)))


def _parse_ids(value: Any) -> list[int | str] | None:
    """Returns the ids of a list, None where it is none."""
    if not isinstance(value, list):
        return None
    ids = [parse_record_id(one) for one in value]
    known = [one for one in ids if one is not None]
    return known if len(known) == len(ids) else None


def _ids(values: list[Any]) -> AnyArray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def refuse_label_lists(path: Path) -> None:
    """Raises UserError for a file whose images list labels: all others are unknown there, so that it is not exhaustive.
    Reads until the first such key."""
    if key := _find_key(path):
        reason = f"lists by image which labels are annotated whole ({key}), so that not each object has a box"
        raise UserError("families", path, reason, "set exhaustive: by_image")


def require_label_lists(path: Path) -> None:
    """Raises UserError for a file whose images list no labels."""
    if not _find_key(path):
        reason = f"has no lists of labels by image ({_NEGATIVE}, {_PARTIAL})"
        raise UserError("families", path, reason, "set exhaustive: true if each object of each label has a box")


def _find_key(path: Path) -> str:
    with translate_read_errors("read annotations", path), open_regular(path) as file:
        tail = b""
        while piece := file.read(_PIECE):
            text = tail + piece
            if key := next((key for key in _KEYS if key in text), None):
                return key.decode().strip('"')
            tail = text[-len(_KEYS[1]) :]
    return ""
