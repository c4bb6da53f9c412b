"""COCO-form annotation files (COCO, Objects365, TACO, VOC, LVIS …) as columns of numbers.

A record that is no good is set aside with file, record and reason; a file that is no COCO form, or no JSON, is
one error. Memory is the columns and one window of the file, not the file.
"""

from __future__ import annotations

import gc
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from backends.annotations.annotation_records import Box, Picture, is_text, read_box, read_picture, record_id, shown
from backends.annotations.json_records import JsonRecords
from builders.errors import UserError
from builders.ledger import turned_away
from builders.precision.annotated import Annotations

_KEYS = ("images", "annotations", "categories", "licenses")
_KINDS: dict[str, Any] = {
    "image": np.int32,
    "category": np.int32,
    "crowd": bool,
    "fake": bool,
    "record": np.int32,
}
_KINDS |= dict.fromkeys(("x", "y", "width", "height"), np.float64)
_Array = np.ndarray[Any, np.dtype[Any]]


def read_annotations(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> Annotations:
    """Read one file; `progress` is told the bytes read. Nothing is joined or judged here."""
    name = path.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    boxes, pictures = _Boxes(name), _Pictures(name)
    other: dict[str, Any] = {"categories": None, "licenses": None}
    seen: set[str] = set()
    with _no_collector(), JsonRecords(path, progress) as records:
        for key in records.keys():  # noqa: SIM118 - a generator, no mapping
            if key in seen and key in _KEYS:
                raise UserError("read annotations", name, f"has {key!r} twice", "keep one of them in the file")
            seen.add(key)
            if key == "annotations":
                for batch in records.batches(msgspec.json.Decoder(list[Box])):
                    boxes.add(*batch)
            elif key == "images":
                for batch in records.batches(msgspec.json.Decoder(list[Picture])):
                    pictures.add(*batch)
            elif key in other:
                other[key] = records.value()
            else:
                records.skip()
        digest = records.sha256
    if missing := [key for key in _KEYS[:3] if key not in seen]:
        has = ", ".join(repr(key) for key in sorted(seen)[:8]) or "nothing"
        reason = f"has no {missing[0]!r} (it has {has})"
        raise UserError("read annotations", name, reason, "give an instances file in COCO form")
    return Annotations(
        name=name,
        sha256=digest,
        images=pictures.table(_licence_names(other["licenses"])),
        boxes=boxes.table(),
        categories=_category_table(name, other["categories"]),
        images_entered=pictures.entered,
        boxes_entered=boxes.entered,
        images_away=turned_away(*_columns(pictures.away)),
        boxes_away=turned_away(*_columns(boxes.away)),
    )


@contextmanager
def _no_collector() -> Iterator[None]:
    """Millions of short-lived tuples set the cycle collector off again and again: a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Boxes:
    """Collects annotation records as arrays, batch by batch."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.entered = 0
        self.away: list[tuple[str, str, str]] = []  # item, reason, detail
        self._columns = {name: _Column(kind) for name, kind in _KINDS.items()}

    def add(self, first: int, records: list[Any], fits: bool) -> None:
        self.entered += len(records)
        numbers = np.arange(first, first + len(records), dtype=np.int32)
        if not fits:
            records, numbers = self._fitting(first, records)
        count = len(records)
        sides = np.fromiter(itertools.chain.from_iterable([r.bbox for r in records]), np.float64, 4 * count)
        values = (
            _ids([r.image_id for r in records]),
            _ids([r.category_id for r in records]),
            np.fromiter([r.iscrowd or 0 for r in records], bool, count),
            np.fromiter([r.isfake or 0 for r in records], bool, count),
            numbers,
            *sides.reshape(count, 4).T,
        )
        for column, batch in zip(self._columns.values(), values, strict=True):
            column.extend(batch)

    def _fitting(self, first: int, records: list[Any]) -> tuple[list[Any], _Array]:
        boxes, numbers = [], []
        for number, record in enumerate(records, first):
            box = read_box(record)
            if isinstance(box, str):
                self.away.append((f"{self.file}#annotations[{number}]", box, shown(record)))
            else:
                boxes.append(box)
                numbers.append(number)
        return boxes, np.array(numbers, dtype=np.int32)

    def table(self) -> pd.DataFrame:
        return pd.DataFrame({name: column.values() for name, column in self._columns.items()}, copy=False)


class _Column:
    """An array that grows by doubling: what is allocated ahead costs no memory until it is written, whereas
    joining the batches in the end would hold them twice."""

    def __init__(self, kind: Any) -> None:
        self._values: _Array = np.empty(0, dtype=kind)
        self._size = 0

    def extend(self, batch: _Array) -> None:
        end = self._size + len(batch)
        kind = np.result_type(self._values, batch)
        if end > len(self._values) or kind != self._values.dtype:
            grown = np.empty(max(end, 2 * self._size), dtype=kind)
            grown[: self._size] = self.values()
            self._values = grown
        self._values[self._size : end] = batch
        self._size = end

    def values(self) -> _Array:
        return self._values[: self._size]


class _Pictures:
    """Collects image records as rows. Two of one id with other content are both set aside: which of them the
    boxes are on, nobody knows."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.entered = 0
        self.away: list[tuple[str, str, str]] = []
        self._rows: dict[int | str, tuple[int, Picture]] = {}
        self._doubtful: set[int | str] = set()

    def add(self, first: int, records: list[Any], fits: bool) -> None:
        self.entered += len(records)
        for number, record in enumerate(records, first):
            picture = record if fits else read_picture(record)
            if isinstance(picture, str):
                self._set_aside(number, picture, record)
                continue
            known = self._rows.setdefault(picture.id, (number, picture))
            if known[1] is picture:
                continue
            if known[1] == picture:
                self._set_aside(number, "listed_twice", picture)
            else:
                self._set_aside(number, "id_used_twice", picture)
                self._doubtful.add(picture.id)

    def _set_aside(self, number: int, reason: str, record: Any) -> None:
        self.away.append((f"{self.file}#images[{number}]", reason, shown(record)))

    def table(self, licences: dict[Any, str]) -> pd.DataFrame:
        for key in sorted(self._doubtful, key=str):
            self._set_aside(self._rows[key][0], "id_used_twice", self._rows.pop(key)[1])
        rows = [row for _, row in self._rows.values()]
        urls = [row.flickr_url or row.coco_url or row.url or None for row in rows]
        return pd.DataFrame(
            {
                "id": _ids([row.id for row in rows]),
                "file_name": pd.array([row.file_name for row in rows], dtype="str"),
                "width": np.fromiter((row.width or 0 for row in rows), np.int32, len(rows)),
                "height": np.fromiter((row.height or 0 for row in rows), np.int32, len(rows)),
                "licence": pd.array([licences.get(row.license) for row in rows], dtype="str"),
                "source_url": pd.array(urls, dtype="str"),
            }
        )


def _ids(values: list[Any]) -> _Array:
    """Whole numbers, small where all are; objects where any is huge or a string (some files name their pictures)."""
    if str not in set(map(type, values)):
        for kind in (np.int32, np.int64):
            with suppress(OverflowError):
                return np.fromiter(values, kind, len(values))
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _columns(away: list[tuple[str, str, str]]) -> tuple[list[str], str, list[str], list[str]]:
    return [a[0] for a in away], "quarantined", [a[1] for a in away], [a[2] for a in away]


def _licence_names(licences: Any) -> dict[Any, str]:
    entries = [entry for entry in licences if isinstance(entry, dict)] if isinstance(licences, list) else []
    names = {record_id(entry.get("id")): entry.get("name") for entry in entries}
    return {key: name for key, name in names.items() if key is not None and name and is_text(name)}


def _category_table(file: str, categories: Any) -> pd.DataFrame:
    """id, name, supercategory; a category without id or name, or an id used twice, makes every label doubtful."""
    stage, mend = "read annotations", "mend the categories of the file"
    if not isinstance(categories, list) or not categories:
        raise UserError(stage, f"{file}#categories", "is no list of categories", mend)
    rows: dict[int | str, tuple[str, str]] = {}
    for number, entry in enumerate(categories):
        item = f"{file}#categories[{number}]"
        key = record_id(entry.get("id")) if isinstance(entry, dict) else None
        name = entry.get("name") if isinstance(entry, dict) else None
        if key is None or not is_text(name) or not name.strip():
            raise UserError(stage, item, f"has no id or no name: {shown(entry)}", mend)
        if key in rows:
            raise UserError(stage, item, f"uses the id {key} of {rows[key][0]!r} again", mend)
        group = entry.get("supercategory")
        rows[key] = (name.strip(), group.strip() if is_text(group) else "")
    names = Counter(name for name, _ in rows.values())
    if twice := next((name for name, number in names.items() if number > 1), None):
        raise UserError(stage, f"{file}#categories", f"has two categories named {twice!r}", mend)
    frame = pd.DataFrame(list(rows.values()), columns=["name", "supercategory"], dtype="str")
    frame.insert(0, "id", _ids(list(rows)))
    return frame
