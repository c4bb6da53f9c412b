"""COCO-form annotation files (COCO, Objects365, TACO, VOC, LVIS …) as columns of numbers.

An invalid record is quarantined with file, record and reason; a file that is not JSON, or not in COCO form, is one
error. Memory holds the columns and one window of the file.
"""

import itertools
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pandas as pd

from builders.precision import annotation_records
from builders.precision.annotated_gallery import AnnotationFile
from builders.precision.box_forms import fit_boxes
from builders.precision.definition import FactOptions
from builders.precision.detections import DetectionFile
from builders.precision.fact_files import is_fact_file, read_facts
from builders.precision.tag_files import is_tag_file, read_tags
from querytruth.array_types import AnyArray
from querytruth.backends.environment import without_garbage_collection
from querytruth.backends.files.column_profile import check_bad_rows, read_scores
from querytruth.backends.files.json_stream import OTHER_FORM, JsonObjectReader
from querytruth.backends.files.table_profile import report_profile
from querytruth.errors import UserError
from querytruth.sets.ledger import Rejection, rejection_table

_KEYS = ("images", "annotations", "categories", "licenses")
_FIELDS = ("image_id", "category_id", "iscrowd", "isfake", "bbox", "area")
_COLUMN_TYPES: dict[str, Any] = {"image": np.int32, "category": np.int32, "crowd": bool, "fake": bool}
_COLUMN_TYPES |= {"record": np.int32} | dict.fromkeys(("x", "y", "width", "height", "area"), np.float64)


def read_annotations(
    path: Path,
    progress: Callable[[int], None] = lambda _bytes: None,
    least_tag_score: float = 0.0,
    facts: FactOptions | None = None,
) -> AnnotationFile:
    """Read one file; `progress` receives the bytes read so far in pieces. Raises UserError where it is neither in COCO
    form nor a file of tags or facts."""
    if is_fact_file(path):
        return read_facts(path, facts or FactOptions())
    if is_tag_file(path):
        return read_tags(path, least_tag_score)
    name = path.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    boxes, images = _AnnotationCollector(name), _ImageCollector(name)
    other_values: dict[str, Any] = {"categories": None, "licenses": None}
    seen: set[str] = set()
    with without_garbage_collection(), JsonObjectReader(path, progress) as records:
        for key in records.keys():  # noqa: SIM118 - a generator, no mapping
            if key in seen and key in _KEYS:
                raise UserError("read annotations", name, f"has the key {key!r} twice", "keep one of them in the file")
            seen.add(key)
            if key == "annotations":
                decoder = msgspec.json.Decoder(list[annotation_records.CocoAnnotation])
                once, marks = annotation_records.ANNOTATION_KEYS, annotation_records.ANNOTATION_MARKS
                for batch in records.batches(decoder, once, marks):
                    boxes.add(*batch)
            elif key == "images":
                of_images = msgspec.json.Decoder(list[annotation_records.CocoImage])
                for batch in records.batches(of_images, annotation_records.IMAGE_KEYS):
                    images.add(*batch)
            elif key in other_values:
                other_values[key] = records.value(annotation_records.CATEGORY_KEYS)
            else:
                records.skip()
        digest = records.sha256
    if missing := [key for key in _KEYS[:3] if key not in seen]:
        has = ", ".join(repr(key) for key in sorted(seen)[:8]) or "nothing"
        raise UserError("read annotations", name, f"has no key {missing[0]!r} (its keys: {has})", OTHER_FORM)
    image_table = images.table(_licence_names(other_values["licenses"]))
    _check_records(name, boxes.rejections, boxes.entered)
    _check_records(name, images.rejections, images.entered)
    box_table, form = fit_boxes("read annotations", name, boxes.table(), image_table)
    report_profile(path, f"{len(box_table):,} boxes of {len(image_table):,} images", f"read as {form}" if form else "")
    return AnnotationFile(
        name=name,
        sha256=digest,
        images=image_table,
        boxes=box_table,
        categories=_category_table(name, other_values["categories"], set(pd.unique(box_table["category"]))),
        images_entered=images.entered,
        boxes_entered=boxes.entered,
        rejected_images=rejection_table(images.rejections),
        rejected_boxes=rejection_table(boxes.rejections),
        path=str(path),
    )


def read_results(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> DetectionFile:
    """Read a detector's results in COCO form: a list of records with image_id, category_id, bbox and score; `progress`
    as in `read_annotations`. Raises UserError if the file has another form."""
    name = path.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    collector, decoder = _DetectionCollector(name), msgspec.json.Decoder(list[annotation_records.CocoDetection])
    form = "give a results file in COCO format: a list of image_id, category_id, bbox, score"
    with without_garbage_collection(), JsonObjectReader(path, progress, "read detections", form) as records:
        for batch in records.items(decoder, (*annotation_records.ANNOTATION_KEYS, "score")):
            collector.add(*batch)
        digest = records.sha256
    boxes = collector.table()
    scores, scale = read_scores("read detections", name, boxes["score"].to_numpy())
    numbers = boxes["record"].to_numpy()[np.isnan(scores)]
    collector.rejections += [Rejection(f"{name}#annotations[{one}]", "quarantined", "bad_score") for one in numbers]
    _check_records(name, collector.rejections, collector.entered)
    report_profile(path, f"{len(boxes):,} detections", f"scores {scale}")
    boxes = boxes.assign(score=scores)[~np.isnan(scores)].reset_index(drop=True)
    return DetectionFile(name, digest, boxes, collector.entered, rejection_table(collector.rejections))


def _check_records(name: str, rejections: list[Rejection], total: int) -> None:
    bad = ((one.reason, f"{one.item.rpartition('#')[2]}: {one.detail or ''}") for one in rejections)
    check_bad_rows("read annotations", name, bad, total)


class _AnnotationCollector:
    """Collects annotation records as arrays, batch by batch."""

    _more_types: ClassVar[dict[str, Any]] = {}

    def __init__(self, file: str) -> None:
        self.file = file
        self.entered = 0
        self.rejections: list[Rejection] = []
        self._columns = {name: _Column(kind) for name, kind in (_COLUMN_TYPES | self._more_types).items()}

    def add(self, first: int, records: list[Any], fits: bool) -> None:
        self.entered += len(records)
        numbers = np.arange(first, first + len(records), dtype=np.int32)
        if not fits:
            records, numbers = self._valid_records(first, records)
        for column, batch in zip(self._columns.values(), self._read_columns(records, numbers, fits), strict=True):
            column.extend(batch)

    def _read_columns(self, records: list[Any], numbers: AnyArray, fits: bool) -> list[AnyArray]:
        count = len(records)
        image, category, crowd, fake, sides_of, areas = (map(attrgetter(name), records) for name in _FIELDS)
        sides = np.fromiter(itertools.chain.from_iterable(sides_of), np.float64, 4 * count)
        return [
            _ids(list(image), are_integers=fits),
            _ids(list(category), are_integers=fits),
            np.fromiter(crowd, bool, count),  # None is false, too
            np.fromiter(fake, bool, count),
            numbers,
            *sides.reshape(count, 4).T,
            np.fromiter((np.nan if area is None else area for area in areas), np.float64, count),
        ]

    def _valid_records(self, first: int, records: list[Any]) -> tuple[list[Any], AnyArray]:
        boxes, numbers = [], []
        for number, record in enumerate(records, first):
            box = self._parse(record)
            if isinstance(box, str):
                item = f"{self.file}#annotations[{number}]"
                self.rejections.append(
                    Rejection(item, "quarantined", box, detail=annotation_records.abbreviate_record(record))
                )
            else:
                boxes.append(box)
                numbers.append(number)
        return boxes, np.array(numbers, dtype=np.int32)

    def _parse(self, record: object) -> Any:
        """Return the annotation, or the reason why it is invalid."""
        return annotation_records.parse_annotation(record)

    def table(self) -> pd.DataFrame:
        return pd.DataFrame({name: column.values() for name, column in self._columns.items()}, copy=False)


class _DetectionCollector(_AnnotationCollector):
    """The same with the scores of a detector."""

    _more_types: ClassVar = {"score": np.float64}

    def _read_columns(self, records: list[Any], numbers: AnyArray, fits: bool) -> list[AnyArray]:
        score = np.fromiter(map(attrgetter("score"), records), np.float64, len(records))
        return [*super()._read_columns(records, numbers, fits), score]

    def _parse(self, record: object) -> Any:
        return annotation_records.parse_detection(record)


class _Column:
    """An array that grows by doubling. Memory that is allocated ahead costs nothing until it is written; joining the
    batches at the end would hold them twice."""

    def __init__(self, kind: Any) -> None:
        self._values: AnyArray = np.empty(0, dtype=kind)
        self._size = 0

    def extend(self, batch: AnyArray) -> None:
        end, kind = self._size + len(batch), self._values.dtype
        if batch.dtype != kind:
            kind = np.result_type(kind, batch.dtype)
        if end > len(self._values) or kind != self._values.dtype:
            grown = np.empty(max(end, 2 * self._size), dtype=kind)
            grown[: self._size] = self.values()
            self._values = grown
        self._values[self._size : end] = batch
        self._size = end

    def values(self) -> AnyArray:
        return self._values[: self._size]


class _ImageCollector:
    """Collects image records as rows. Records with one id and different content are all quarantined: it is unknown
    which of them the boxes belong to."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.entered = 0
        self.rejections: list[Rejection] = []
        self._rows: dict[int | str, tuple[int, annotation_records.CocoImage]] = {}
        self._repeats: dict[int | str, list[tuple[int, annotation_records.CocoImage]]] = {}

    def add(self, first: int, records: list[Any], fits: bool) -> None:
        self.entered += len(records)
        for number, record in enumerate(records, first):
            image = record if fits else annotation_records.parse_image(record)
            if isinstance(image, str):
                self._reject(number, image, record)
                continue
            first_seen = self._rows.setdefault(image.id, (number, image))
            if first_seen[1] is not image:
                self._repeats.setdefault(image.id, []).append((number, image))

    def _reject(self, number: int, reason: str, record: object) -> None:
        item = f"{self.file}#images[{number}]"
        self.rejections.append(
            Rejection(item, "quarantined", reason, detail=annotation_records.abbreviate_record(record))
        )

    def table(self, licences: dict[Any, str]) -> pd.DataFrame:
        for key, repeats in self._repeats.items():
            if any(image != self._rows[key][1] for _, image in repeats):
                for number, image in (*repeats, self._rows.pop(key)):
                    self._reject(number, "id_used_twice", image)
            else:
                for number, image in repeats:
                    self._reject(number, "listed_twice", image)
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


def _ids(values: list[Any], *, are_integers: bool = False) -> AnyArray:
    """Return integers of the smallest type that fits; objects where an id is huge or a string."""
    if are_integers or str not in set(map(type, values)):
        for kind in (np.int32, np.int64):
            with suppress(OverflowError):
                return np.fromiter(values, kind, len(values))
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _licence_names(licences: object) -> dict[Any, str]:
    entries = [entry for entry in licences if isinstance(entry, dict)] if isinstance(licences, list) else []
    names = {annotation_records.parse_record_id(entry.get("id")): entry.get("name") for entry in entries}
    return {
        key: name for key, name in names.items() if key is not None and name and annotation_records.is_utf8_text(name)
    }


def _category_table(file: str, categories: object, with_boxes: set[int | str]) -> pd.DataFrame:
    """Return the columns id, name, supercategory. Two ids with one name are one label, in the group of the first of
    them that has boxes: exports add a root category without boxes. Raises UserError for a missing id or name, and for
    an id that is used twice."""
    stage, fix = "read annotations", "fix the categories of the file"
    if not isinstance(categories, list) or not categories:
        raise UserError(stage, f"{file}#categories", "is not a list of categories", fix)
    rows: dict[int | str, tuple[str, str]] = {}
    for number, entry in enumerate(categories):
        item = f"{file}#categories[{number}]"
        key = annotation_records.parse_record_id(entry.get("id")) if isinstance(entry, dict) else None
        name = entry.get("name") if isinstance(entry, dict) else None
        if key is None or not annotation_records.is_utf8_text(name) or not name.strip():
            raise UserError(stage, item, f"has no id or no name: {annotation_records.abbreviate_record(entry)}", fix)
        if key in rows:
            raise UserError(stage, item, f"uses the id {key}, which already belongs to {rows[key][0]!r}", fix)
        group = entry.get("supercategory")
        rows[key] = (name.strip(), group.strip() if annotation_records.is_utf8_text(group) else "")
    groups: dict[str, str] = {}
    for _, (name, group) in sorted(rows.items(), key=lambda row: row[0] not in with_boxes):
        groups.setdefault(name, group)
    named = [(name, groups[name]) for name, _ in rows.values()]
    frame = pd.DataFrame(named, columns=["name", "supercategory"], dtype="str")
    frame.insert(0, "id", _ids(list(rows)))
    return frame
