"""The attributes of annotations: `attributes`, a list of names, or an object of names with true, false or a text."""

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from backends.annotations.coco_records import is_utf8_text
from backends.annotations.json_stream import JsonObjectReader
from builders.precision.attribute_choice import AttributeChoice, join_attribute
from builders.precision.box_attributes import AttributeFile

_UNKNOWN = ("", "unknown", "n/a", "none", "null", "nan", "unspecified")  # values of an attribute that was not looked at
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


class _Attributes(msgspec.Struct, gc=False):
    attributes: Any = None


def read_attributes(path: Path, choice: AttributeChoice) -> AttributeFile:
    """Reads the attributes of all annotations that are asked for; those of another form are unknown. Raises UserError
    for a file that is no JSON."""
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


def _get(record: Any) -> Any:
    return record.get("attributes") if isinstance(record, dict) else None


def parse_attributes(value: Any) -> tuple[list[tuple[str, str]], bool]:
    """Returns (key, name) of the attributes that a box has, each once and in lower case, and whether they are all that
    it has. The key is that of an object, "" in a list. Numbers (of a track, of a frame) are no attributes;
    the texts "true" and "false" are true and false."""
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
    return list(known), len([name for _, name in pairs if name in _UNKNOWN]) == 0


def _read_name(value: Any) -> str:
    return join_attribute(value) if is_utf8_text(value) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
