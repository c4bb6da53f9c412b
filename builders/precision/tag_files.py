"""Tags of whole images, from a tagger or an album, read as annotations: a tag covers its whole image.

A table (CSV, TSV) has a row per tag, or per image with its tags separated by `;` or `|`, in a column `tags`, `labels`
or 标签 also by commas. JSON lines have an object per image, whose tags are a list of names, or names with scores. A tag
does not say where or how often something occurs: it counts as a crowd that fills the image.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from builders.precision.annotated_gallery import AnnotationFile
from builders.precision.detections import DetectionFile
from querytruth.backends.files.column_profile import check_bad_rows, read_scores
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.table_profile import COLUMN_NAMES, fold_name, report_profile
from querytruth.backends.files.table_rows import iterate_rows, refuse_objects
from querytruth.backends.files.text_files import import_error
from querytruth.backends.files.text_formats import unescape_formula  # a name such as -1.jpg
from querytruth.sets.ledger import Rejection, rejection_table

TAG_SUFFIXES = (".csv", ".tsv", ".jsonl")
_IMAGE_NAMES, _TAG_NAMES, _GROUP_NAMES, _SCORE_NAMES = (
    COLUMN_NAMES[name] for name in ("tagged_image", "tag", "group", "score")
)
_PARTED_BY = {
    name: re.compile("[;|,；，、]" if name in ("tags", "labels", "标签") else "[;|；]") for name in _TAG_NAMES
}
_MOST = 2.0**31  # pixels: more than an image has; boxes are clipped to their image
_WHOLE_IMAGE = {"x": 0.0, "y": 0.0, "width": _MOST, "height": _MOST}


def is_tag_file(path: Path) -> bool:
    """Return whether the name is that of a table or of JSON lines, which COCO's form never uses."""
    return path.suffix.lower() in TAG_SUFFIXES


def read_tags(path: Path, at_least: float = 0.0) -> AnnotationFile:
    """Read one file; tags with a score below `at_least` are rejected. Raises UserError for a file in another form."""
    rejections = list[Rejection]()
    image_of, tag_of = dict[str, int](), dict[str, int]()
    groups, rows = dict[str, str](), list[tuple[str, int, int]]()
    tags, scale = _read_all(path)
    report_profile(path, f"scores {scale}" if scale else "no scores: every tag counts as certain")
    for number, image, tag, score, group in tags:
        item = f"{path.name} line {number}"
        if not image or not tag or not score >= 0:
            reason = "missing_file_name" if not image else "bad_score" if tag else "missing_tag"
            rejections.append(Rejection(item, "quarantined", reason, detail=tag or None))
        elif score < at_least:
            rejections.append(Rejection(item, "rejected", "low_score", detail=f"{tag} {score:g}"))
        else:
            groups.setdefault(tag, group)
            image_of.setdefault(image, number)
            rows.append((image, tag_of.setdefault(tag, len(tag_of)), number))
    bad = ((one.reason, f"{one.item}: {one.detail or ''}") for one in rejections if one.bucket == "quarantined")
    check_bad_rows("import", path, bad, len(tags))
    if not rows:
        reason = f"has no tags in {len(tags):,} rows"
        raise import_error(path, reason, "name the columns of images and tags, or lower tags.at_least")
    boxes = pd.DataFrame(rows, columns=["image", "category", "record"])
    categories = pd.DataFrame(
        {"id": [*tag_of.values()], "name": [*tag_of], "supercategory": [groups[one] for one in tag_of]}
    )
    return make_tag_annotations(path, list(image_of), boxes, categories, rejections)


def make_tag_annotations(
    path: Path, names: list[str], boxes: pd.DataFrame, categories: pd.DataFrame, rejections: list[Rejection]
) -> AnnotationFile:
    """Return tags of whole images (image, category, record) as annotations, with those that do not count."""
    return AnnotationFile(
        name=path.name,
        sha256=file_sha256(path)[0],
        images=list_tagged_images(names),
        boxes=boxes.astype({"image": object}).assign(**_WHOLE_IMAGE, crowd=True, fake=False),
        categories=categories,
        images_entered=len(names),
        boxes_entered=len(boxes) + len(rejections),
        rejected_images=rejection_table([]),
        rejected_boxes=rejection_table(rejections),
        path=str(path),
    )


def list_tagged_images(names: list[str]) -> pd.DataFrame:
    """Return the images of an AnnotationFile by these names, of unknown size."""
    texts = pd.DataFrame({"id": names, "file_name": names, "licence": None, "source_url": None}, dtype="str")
    return texts.astype({"id": object}).assign(width=np.int32(0), height=np.int32(0))


def read_unsure_tags(annotated: AnnotationFile, propose_from: float, at_least: float) -> DetectionFile:
    """Read the same file's tags with scores between the two as detections on whole images, of images and tags that
    others in it name surely."""
    tag_of = dict(zip(annotated.categories["name"], annotated.categories["id"], strict=True))
    known = set(annotated.images["id"])
    rows = [
        (image, tag_of[tag], number, score)
        for number, image, tag, score, _ in _read_all(Path(annotated.path))[0]
        if propose_from <= score < at_least and image in known and tag in tag_of
    ]
    boxes = pd.DataFrame(rows, columns=["image", "category", "record", "score"]).astype({"image": object})
    boxes = boxes.assign(**_WHOLE_IMAGE, crowd=True, fake=False)
    return DetectionFile(annotated.name, annotated.sha256, boxes, len(rows), rejection_table([]))


def _read_all(path: Path) -> tuple[list[tuple[int, str, str, float, str]], str]:
    """Return line, image, tag, score from 0 to 1 (1 if missing, nan if invalid) and group of each tag, and the scale of
    the scores, "" without any."""
    rows = list(_iterate_tags(path))
    scored = [row[3] for row in rows if row[3] not in ("", None)]
    read, scale = read_scores("import", path, scored) if scored else ((), "")
    values = iter(read)
    return [(*row[:3], 1.0 if row[3] in ("", None) else float(next(values)), row[4]) for row in rows], scale


def _iterate_tags(path: Path) -> Iterator[tuple[int, str, str, Any, str]]:
    """Yield line, image, tag, score as it is written, and group of each tag."""
    for place, row in iterate_rows(path, (), (*_IMAGE_NAMES, *_TAG_NAMES, *_GROUP_NAMES, *_SCORE_NAMES), objects=True):
        cells = {fold_name(name): value for name, value in row.items()}
        if not cells.keys() & {*_IMAGE_NAMES} or not cells.keys() & {*_TAG_NAMES}:
            columns = ", ".join(row) or "none"
            next_step = f"name the columns of images ({', '.join(_IMAGE_NAMES)}) and tags ({', '.join(_TAG_NAMES)})"
            raise import_error(place, f"has the columns {columns}", next_step)
        image, group = (_find(cells, names) for names in (_IMAGE_NAMES, _GROUP_NAMES))
        refuse_objects(place, "import", [image])
        column = next(name for name in _TAG_NAMES if name in cells)
        tags = cells[column]
        if isinstance(tags, str):
            tags = [one for one in _PARTED_BY[column].split(tags) if one.strip()] or [""]
        score = _find(cells, _SCORE_NAMES)
        scored = tags.items() if isinstance(tags, dict) else [(one, score) for one in tags or [""]]
        number = int(place.rpartition(" ")[2])
        for tag, value in scored:
            yield number, _read_name(image), _to_text(tag), value, _to_text(group)


def _read_name(image: object) -> str:
    name = str(image or "")
    return unescape_formula(name) if name.strip() else ""


def _find(cells: dict[str, Any], names: list[str]) -> Any:
    return next((cells[name] for name in names if name in cells), "")


def _to_text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
