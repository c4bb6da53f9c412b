"""The attributes of boxes ("red", "wooden") that are asked for: no numbers, no notes of annotation tools."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from builders.precision.annotated_gallery import AnnotationFile, BoxPlaces, Ints
from querytruth.array_types import BoolArray
from querytruth.sets.query_texts import join_spellings

# What annotation tools note of a box and not of the object, without blanks and without "is" before it.
_NOTES = re.compile("occluded|truncated|difficult|keyframe|crowd|interpolated|groupof")
_KEYS = re.compile(  # of an object alone: a list may well name a fake flower
    "annotator|area|confidence|depiction|fake|frame|group|id|ignore|inside|instance|layer|occlusion|outside|reviewed|"
    "rotation|score|source|track|trackid|truncation|verified|visibility|visible|zorder"
)
_EXPONENT = re.compile(r"(?<=\d)e(?=[+-]?\d)")


@dataclass(frozen=True, slots=True)
class AttributeChoice:
    """Attributes by their names, or by the keys that have them in an object: `only` these (None: all), none of
    `exclude`, and those of `allow` although they look like bookkeeping. All as `join_attribute` spells them."""

    only: frozenset[str] | None = None
    allow: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    def find_reason(self, key: str, name: str) -> str:
        """Return why an attribute is left out: `excluded`, `number`, `bookkeeping`, or "" where it is not. `key`: of
        an object; "" in a list."""
        named = {key, name}
        if named & self.exclude or (self.only is not None and not named & self.only):
            return "excluded"
        if is_number(name):
            return "number"
        if named & self.allow or self.only is not None:
            return ""
        is_note = any(_NOTES.fullmatch(_squeeze(one)) for one in named) or _KEYS.fullmatch(_squeeze(key))
        return "bookkeeping" if is_note else ""


def choose_attributes(only: Iterable[str] | None, allow: Iterable[str], exclude: Iterable[str]) -> AttributeChoice:
    """Return the choice of a definition, whose names may be spelt in any way."""
    chosen = None if only is None else frozenset(map(join_attribute, only))
    return AttributeChoice(chosen, frozenset(map(join_attribute, allow)), frozenset(map(join_attribute, exclude)))


def join_attribute(name: str) -> str:
    """Return the one spelling of an attribute: dark_red and "Dark  Red" are dark red."""
    return join_spellings(name.replace("_", " ")).casefold()


def is_number(text: str) -> bool:
    """Return whether a text is a number in some spelling: 0.93, 1e-3, 93 %, 3/4, １２, 三."""
    plain = _EXPONENT.sub("", unicodedata.normalize("NFKC", text).casefold())
    digits = [unicodedata.numeric(letter, None) is not None for letter in plain]
    return any(digits) and not any(letter.isalpha() and not digit for letter, digit in zip(plain, digits, strict=True))


def _squeeze(name: str) -> str:
    letters = "".join(letter for letter in name if letter.isalnum())
    return letters.removeprefix("is")


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
    """Return the attributes of the boxes at `places`. `attributes`: by sha256 of the file."""
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
