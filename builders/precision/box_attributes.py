"""The attributes of boxes: "red", "wooden", "sitting", as annotation files list them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from builders.array_types import BoolArray
from builders.precision.annotated_gallery import AnnotationFile, BoxPlaces, Ints


@dataclass(frozen=True, slots=True)
class AttributeFile:
    """The attributes of a file. `record` and `code`: a pair per attribute of a box (number in the file, place in
    `names`); `listed`: the records with attributes that can be read completely, ascending, even if there are none;
    `left_out`: how often what is no attribute of an object was left out, by name (or key of an object) and reason."""

    sha256: str
    names: tuple[str, ...]
    record: Ints
    code: Ints
    listed: Ints
    left_out: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BoxAttributes:
    """The attributes of the boxes of a gallery. `box` and `code`: a pair per attribute (row of BoxPlaces, place in
    `names`, which are sorted); `is_listed`: per box whether all of its attributes were read."""

    names: tuple[str, ...]
    box: Ints
    code: Ints
    is_listed: BoolArray


def join_attributes(
    files: Sequence[AnnotationFile], attributes: Mapping[str, AttributeFile], places: BoxPlaces
) -> BoxAttributes:
    """Returns the attributes of the boxes at `places`. `attributes`: by sha256 of the file."""
    by_file = [attributes[file.sha256] for file in files]
    names = tuple(sorted({name for one in by_file for name in one.names}))
    code_of = {name: code for code, name in enumerate(names)}
    boxes, codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    is_listed = np.zeros(len(places.image), dtype=bool)
    for number, one in enumerate(by_file):
        rows = np.flatnonzero(places.file == number)
        rows = rows[np.argsort(places.record[rows], kind="stable")]
        records = places.record[rows]
        is_listed[rows] = np.isin(records, one.listed)
        at = np.searchsorted(records, one.record)
        is_placed = np.append(records, -1)[at] == one.record
        boxes.append(rows[at[is_placed]])
        codes.append(np.array([code_of[name] for name in one.names], dtype=np.int64)[one.code[is_placed]])
    return BoxAttributes(names, np.concatenate(boxes), np.concatenate(codes), is_listed)
