"""The attributes of annotations: `attributes`, a list of names, or an object of names with true, false or a text."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from backends.annotations.coco_records import is_utf8_text
from backends.annotations.json_stream import JsonObjectReader
from builders.precision.box_attributes import AttributeFile
from builders.spelling import join_spellings

_UNKNOWN = ("", "unknown", "n/a")  # values of an attribute that was not looked at


class _Attributes(msgspec.Struct, gc=False):
    attributes: Any = None


def read_attributes(path: Path) -> AttributeFile:
    """Reads the attributes of all annotations; those of another form are unknown. Raises UserError for a file that is
    no JSON."""
    records, codes, listed = list[int](), list[int](), list[int]()
    code_of: dict[str, int] = {}
    with JsonObjectReader(path) as reader:
        for key in reader.keys():  # noqa: SIM118 - a generator, no mapping
            if key != "annotations":
                reader.skip()
                continue
            for first, batch, fits in reader.batches(msgspec.json.Decoder(list[_Attributes])):
                for number, record in enumerate(batch, first):
                    names, is_complete = parse_attributes(record.attributes if fits else _get(record))
                    for name in names:
                        records.append(number)
                        codes.append(code_of.setdefault(name, len(code_of)))
                    if is_complete:
                        listed.append(number)
        digest = reader.sha256
    columns = (np.array(column, dtype=np.int64) for column in (records, codes, listed))
    return AttributeFile(digest, tuple(code_of), *columns)


def _get(record: Any) -> Any:
    return record.get("attributes") if isinstance(record, dict) else None


def parse_attributes(value: Any) -> tuple[list[str], bool]:
    """Returns the names of the attributes that a box has, each once and in lower case, and whether they are all that it
    has. Numbers (of a track, of a frame) are no attributes."""
    if isinstance(value, list):
        names = [join_attribute(name) if is_utf8_text(name) else "" for name in value]
    elif isinstance(value, dict):
        values = [key if one is True else one for key, one in value.items() if one is not False and not _is_number(one)]
        names = [join_attribute(one) if is_utf8_text(one) else "" for one in values]
    else:
        return [], False
    known = dict.fromkeys(name for name in names if name not in _UNKNOWN)
    return list(known), len([name for name in names if name in _UNKNOWN]) == 0


def join_attribute(name: str) -> str:
    """Returns the one spelling of an attribute: dark_red and "Dark  Red" are dark red."""
    return join_spellings(name.replace("_", " ")).casefold()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
