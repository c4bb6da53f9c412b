"""Joins annotation files into one gallery: images with ids, boxes with an image, a label and a share of its area."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import BoolArray, FloatArray
from querytruth.backends.files.column_profile import check_bad_rows
from querytruth.errors import UserError
from querytruth.records import image_id_of_bytes, image_id_of_source
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.manifest import Input

Ints = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]

# Boxes are valid only for the annotated shape of an image.
ASPECT_RATIO_TOLERANCE = 0.02
_BLOCK = 1 << 17  # boxes per block, which bounds the memory of intermediate columns
_FIRST = 1000  # annotations by which ids of another type are noticed


@dataclass(frozen=True, slots=True)
class AnnotationFile:
    """One file as its backend reads it. `images`: id, file_name, width, height (0 where unknown), licence,
    source_url. `boxes`: image and category (ids of this file), x, y, width, height in pixels, crowd, fake,
    record (number in the file). `categories`: id, name, supercategory. `rejected_images` and
    `rejected_boxes`: ledger rows of the records that cannot be read."""

    name: str
    sha256: str
    images: pd.DataFrame
    boxes: pd.DataFrame
    categories: pd.DataFrame
    images_entered: int
    boxes_entered: int
    rejected_images: pd.DataFrame
    rejected_boxes: pd.DataFrame
    path: str = ""  # as given; only its name is published
    facts: pd.DataFrame | None = None  # of a table of facts: what is known of each of its images

    def input_record(self) -> Input:
        """Return the file as an input of the build."""
        counts = {"images": self.images_entered, "annotations": self.boxes_entered, "categories": len(self.categories)}
        return Input(file=self.name, sha256=self.sha256, counts=counts)


@dataclass(frozen=True, slots=True)
class ListedImages:
    """The distinct images of all files, and for every file the row of each of its images."""

    images: pd.DataFrame  # file_name, source_id, width, height, licence, source_url, found
    rows: list[Ints]


@dataclass(frozen=True, slots=True)
class BoxPlaces:
    """The places of objects that can be counted: boxes of single objects, clipped to the image. `sides` (boxes, 4):
    left, top, right, bottom as shares of the image's width and height. `doubtful_image` and `doubtful_label`: pairs
    with boxes whose number of objects is unknown (a crowd, or a box that is not accepted). `file` and `record`: the
    file of each box, and its number there."""

    image: Ints
    label: Ints
    sides: FloatArray
    doubtful_image: Ints
    doubtful_label: Ints
    file: Ints
    record: Ints


@dataclass(frozen=True, slots=True)
class AnnotatedGallery:
    """Accepted images sorted by image_id, and their accepted boxes as columns of numbers."""

    images: pd.DataFrame  # columns of records.IMAGES
    box_image: Ints  # per box: row of `images`
    box_label: Ints  # per box: position in the label table
    box_share: np.ndarray[Any, np.dtype[np.float64]]  # per box: share of the image's area, 0 to 1, clipped to the image
    places: BoxPlaces | None = None  # where asked for
    box_sides: np.ndarray[Any, np.dtype[np.float32]] | None = None  # per box, where asked for: as in BoxPlaces
    image_rows: tuple[Ints, ...] = ()  # per file and image record: row of `images`, -1: not accepted


def list_images(files: list[AnnotationFile], found: Sequence[Sequence[str]] | None = None) -> ListedImages:
    """Return the images of all files. Two records with the same file name and id are one image, unless they were
    `found` in two places (per file and image record, below the images' folder or a reason): then each is named by its
    place."""
    frame = pd.concat([file.images for file in files], ignore_index=True)
    frame["source_id"] = frame.pop("id").astype(str)
    frame["found"] = "" if found is None else [place for of_file in found for place in of_file]
    if len(frame) and found is not None:
        is_several = frame.groupby("file_name")["found"].transform("nunique") > 1
        frame["file_name"] = frame["file_name"].mask(is_several & frame["found"].str.contains("/"), frame["found"])
    keys = [frame["file_name"], frame["source_id"], frame["found"]]
    names, sources, places = (pd.factorize(column)[0].astype(np.int64) for column in keys)
    codes, first = pd.factorize(pd.factorize(names * len(frame) + sources)[0] * len(frame) + places)
    if len(first) < len(frame):
        # Files may differ in the other columns: the choice must not depend on their order.
        rest = ["width", "height", "licence", "source_url"]
        sizes = frame.assign(code=codes).sort_values(rest, ascending=False, kind="stable")
        frame = sizes.drop_duplicates("code").sort_values("code").drop(columns="code")
    bounds = np.cumsum([len(file.images) for file in files])[:-1]
    return ListedImages(frame.reset_index(drop=True), np.split(codes, bounds))


def check_scanned_images(
    listed: ListedImages, scanned: pd.DataFrame, is_exchanged: BoolArray | None = None
) -> pd.DataFrame:
    """Return the scan of each listed image with `bucket` and `reason` ('' where the image is usable), and the
    annotated width and height where given. A missing image is rejected, an unusable one is quarantined.
    `is_exchanged`: where the annotated sides are those of a stored image that EXIF turns."""
    images = listed.images
    if is_exchanged is not None:
        sides = images["width"].to_numpy(), images["height"].to_numpy()
        width, height = (np.where(is_exchanged, one, other) for one, other in (sides[::-1], sides))
        images = images.assign(width=width, height=height)
    annotated_ratio = (images["width"] / images["height"].where(images["height"] > 0)).to_numpy()
    file_ratio = (scanned["width"] / scanned["height"].where(scanned["height"] > 0)).to_numpy()
    fits = np.isnan(annotated_ratio) | (np.abs(annotated_ratio / file_ratio - 1) < ASPECT_RATIO_TOLERANCE)
    reason = scanned["reason"].fillna("")
    reason = reason.mask((reason == "") & ~fits, "other_shape_than_annotated")
    bucket = reason.map(lambda code: code and ("rejected" if code == "image_missing" else "quarantined"))
    sizes = {side: images[side].where(images[side] > 0, scanned[side]) for side in ("width", "height")}
    return scanned.assign(reason=reason, bucket=bucket, **sizes)


def join_annotations(
    files: list[AnnotationFile],
    listed: ListedImages,
    read_images: pd.DataFrame | None,
    labels: list[Ints],
    ledger: Ledger,
    *,
    left_out: frozenset[str] = frozenset(),
    with_places: bool = False,
    with_sides: bool = False,
) -> AnnotatedGallery:
    """Return the gallery of all files and record the stages `images` and `boxes` in the ledger.

    `read_images` has a row per listed image (sha256, width, height, path … or bucket, reason, detail); None where there
    are only annotations. `labels[f]`: for each category row of file f its position in the label table. `left_out`:
    which boxes do not count, crowd or fake.
    """
    images, image_of, unaccepted = _identify(listed, read_images)
    unreadable = [file.rejected_images for file in files]
    entered = sum(file.images_entered for file in files)
    listed_twice = _find_listed_twice(files, listed)
    ledger.record_stage("images", "image", entered, len(images), *unreadable, listed_twice, unaccepted)

    parts, rejected_boxes = [], [file.rejected_boxes for file in files]
    for file, rows, label in zip(files, listed.rows, labels, strict=True):
        good, rejected = accept_boxes(file, image_of[rows], images, label.astype(np.int32), left_out, with_sides)
        parts += good
        rejected_boxes += rejected
        bad = [
            one[["reason", "item"]] for one in rejected if (one["bucket"] == "quarantined").any()
        ]  # each of one reason
        check_bad_rows("join gallery", file.name, (row for one in bad for row in one.to_numpy()), len(file.boxes))
    empty: tuple[Any, ...] = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0), np.empty((0, 4), np.float32))
    empty = (*empty, np.empty(0, np.int32))
    image, label_codes, share, sides, _ = (np.concatenate(column) for column in zip(empty, *parts, strict=True))
    ledger.record_stage("boxes", "box", sum(file.boxes_entered for file in files), len(image), *rejected_boxes)
    places, image_rows = None, tuple(image_of[rows] for rows in listed.rows)
    if with_places:
        blocks = [
            _find_places(number, file, image_of[rows], images, label, "fake" not in left_out)
            for number, (file, rows, label) in enumerate(zip(files, listed.rows, labels, strict=True))
        ]
        places = BoxPlaces(*(np.concatenate(column) for column in zip(*blocks, strict=True)))
    return AnnotatedGallery(images, image, label_codes, share, places, sides if with_sides else None, image_rows)


def _find_listed_twice(files: list[AnnotationFile], listed: ListedImages) -> pd.DataFrame:
    rows = np.concatenate(listed.rows) if files else np.empty(0, dtype=np.int64)
    names = listed.images["file_name"].to_numpy()[rows[np.flatnonzero(pd.Series(rows).duplicated())]]
    return rejection_rows(list(names), "rejected", "listed_in_another_file")


def _identify(listed: ListedImages, read_images: pd.DataFrame | None) -> tuple[pd.DataFrame, Ints, pd.DataFrame]:
    """Return the accepted images sorted by id, the row of each listed image (-1: not accepted), and the rejections."""
    table = listed.images
    if read_images is None:
        sources = zip(table["file_name"].tolist(), table["source_id"].tolist(), strict=True)
        ids = [image_id_of_source(name, source) for name, source in sources]
        images = table.assign(path=None, sha256=None, taken_at=None, latitude=np.nan, longitude=np.nan)
        outcome = pd.DataFrame({"bucket": "quarantined", "reason": "no_size", "detail": None}, index=table.index)
        outcome.loc[(table["width"] > 0) & (table["height"] > 0), "bucket"] = ""
    else:
        ids = [image_id_of_bytes(digest) if digest else "" for digest in read_images["sha256"].fillna("")]
        read = read_images[["path", "sha256", "width", "height", "taken_at", "latitude", "longitude"]]
        images = pd.concat([table.drop(columns=["width", "height"]), read.set_axis(table.index)], axis=1)
        outcome = read_images[["bucket", "reason", "detail"]].set_axis(table.index)
    images = images.assign(image_id=ids, duplicate_group=None, page_url=None)
    good = outcome.index[outcome["bucket"] == ""]
    if read_images is not None:
        # Of files with the same bytes the first by name is accepted.
        good = images.loc[good].sort_values(["file_name", "source_id"], kind="stable").index
    keys = np.array(ids, dtype="S")[good]  # sorts ten times as fast as Python strings
    _, first, position = np.unique(keys, return_index=True, return_inverse=True)
    image_of = np.full(len(images), -1, dtype=np.int32)
    image_of[good] = position
    copies = good.delete(first)
    outcome = outcome.assign(item=table["file_name"])
    outcome.loc[copies, ["bucket", "reason"]] = ["rejected", "same_bytes"]
    outcome["related_item"] = images["image_id"].where(images.index.isin(copies))
    accepted = images.loc[good[first]].drop(columns=["source_id", "found"], errors="ignore").reset_index(drop=True)
    return accepted, image_of, outcome[outcome["bucket"] != ""]


def accept_boxes(
    file: AnnotationFile,
    image_of: Ints,
    images: pd.DataFrame,
    label: Ints,
    left_out: frozenset[str],
    with_sides: bool,
) -> tuple[list[tuple[Any, ...]], list[pd.DataFrame]]:
    """Return image, label, share, and (none unless wanted) sides and record number of the accepted boxes of the file
    in blocks, and the rejections. `image_of`: per image record the row of `images`; `label`: per category record."""
    _refuse_ids_of_another_type(file)
    known, categories = (pd.Index(table["id"].to_numpy()) for table in (file.images, file.categories))
    # Position -1 (unknown) selects the appended values.
    image_of = np.append(image_of, np.int32(-1))
    sizes = [np.append(images[side].to_numpy(dtype=np.float64), 1.0) for side in ("width", "height")]
    parts, rejected_parts = [], []
    for start in range(0, len(file.boxes), _BLOCK):
        boxes = file.boxes.iloc[start : start + _BLOCK]
        listed = find_id_positions(boxes["image"].to_numpy(), known)
        category = find_id_positions(boxes["category"].to_numpy(), categories)
        row = image_of[listed]
        finite, extended, inside, share = _geometry(boxes, sizes[0][row], sizes[1][row])
        rules = [
            ("quarantined", "unknown_image", listed < 0),
            ("quarantined", "unknown_category", category < 0),
            ("quarantined", "bbox_not_finite", ~finite),
            ("quarantined", "bbox_without_extent", ~extended),
            ("rejected", "image_not_accepted", row < 0),
            ("quarantined", "bbox_outside_image", ~inside),
            *(("rejected", kind, boxes[kind].to_numpy(dtype=bool)) for kind in sorted(left_out)),
        ]
        good, rejected = _split_by_rules(file.name, boxes, rules)
        shown: Any = np.flatnonzero(good) if with_sides else []
        sides = find_sides(boxes.iloc[shown], sizes[0][row[shown]], sizes[1][row[shown]])
        parts.append(
            (row[good], label[category[good]], share[good], sides.astype(np.float32), boxes["record"].to_numpy()[shown])
        )
        rejected_parts += rejected
    return parts, rejected_parts


def _find_places(
    number: int, file: AnnotationFile, image_of: Ints, images: pd.DataFrame, label: Ints, keep_fake: bool
) -> tuple[Ints, Ints, FloatArray, Ints, Ints, Ints, Ints]:
    """Return the columns of BoxPlaces for the boxes of the file that have a known label and an accepted image."""
    known, categories = (pd.Index(table["id"].to_numpy()) for table in (file.images, file.categories))
    row = np.append(image_of, np.int32(-1))[find_id_positions(file.boxes["image"].to_numpy(), known)]
    category = find_id_positions(file.boxes["category"].to_numpy(), categories)
    inside = np.flatnonzero((row >= 0) & (category >= 0))
    boxes, row, code = file.boxes.iloc[inside], row[inside], label[category[inside]].astype(np.int32)
    width, height = (images[side].to_numpy(dtype=np.float64)[row] for side in ("width", "height"))
    finite, extended, overlaps, _ = _geometry(boxes, width, height)
    is_single = finite & extended & overlaps & ~boxes["crowd"].to_numpy(dtype=bool)
    is_single &= keep_fake | ~boxes["fake"].to_numpy(dtype=bool)
    sides = find_sides(boxes[is_single], width[is_single], height[is_single])
    record = boxes["record"].to_numpy()[is_single]
    of_file = np.full(len(record), number, dtype=np.int16)
    return row[is_single], code[is_single], sides, row[~is_single], code[~is_single], of_file, record


def find_sides(boxes: pd.DataFrame, width: FloatArray, height: FloatArray) -> FloatArray:
    """Return left, top, right and bottom of boxes (n, 4) as shares of their images' sizes, clipped to the image."""
    x, y, w, h = (boxes[side].to_numpy(dtype=np.float64) for side in ("x", "y", "width", "height"))
    sides: FloatArray = np.stack([x / width, y / height, (x + w) / width, (y + h) / height], axis=1)
    return np.clip(sides, 0, 1)


def _geometry(
    boxes: pd.DataFrame, image_width: FloatArray, image_height: FloatArray
) -> tuple[BoolArray, BoolArray, BoolArray, FloatArray]:
    """Return per box whether it is finite, has an extent and overlaps the image, and its share of the image's area."""
    x, y, width, height = (boxes[side].to_numpy() for side in ("x", "y", "width", "height"))
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(width) & np.isfinite(height)
    with np.errstate(invalid="ignore", over="ignore"):
        inside_w = np.minimum(x + width, image_width) - np.maximum(x, 0)
        inside_h = np.minimum(y + height, image_height) - np.maximum(y, 0)
        share = inside_w * inside_h / (image_width * image_height)
    return finite, (width > 0) & (height > 0), (inside_w > 0) & (inside_h > 0), share


def _split_by_rules(
    file: str, boxes: pd.DataFrame, rules: list[tuple[str, str, BoolArray]]
) -> tuple[BoolArray, list[pd.DataFrame]]:
    """Return which boxes match no rule, and the rejections of the others by the first matching rule."""
    good, rejected = np.ones(len(boxes), dtype=bool), []
    for bucket, reason, is_rejected in rules:
        hit = np.flatnonzero(good & is_rejected)
        if len(hit):
            good[hit] = False
            rows = boxes.iloc[hit]
            items = [f"{file}#annotations[{number}]" for number in rows["record"]]
            sides = zip(*(rows[side] for side in ("x", "y", "width", "height")), strict=True)
            details = [f"{x:g} {y:g} {width:g} {height:g}" for x, y, width, height in sides]
            rejected.append(rejection_rows(items, bucket, reason, detail=details))
    return good, rejected


def _refuse_ids_of_another_type(file: AnnotationFile) -> None:
    """Raise UserError where none of the first annotations names a known image or category, and all would if numbers
    were texts. They are not taken for each other: '07' and 7 may be two images."""
    boxes = file.boxes.iloc[:_FIRST]
    for column, table, place in (("image", file.images, "images"), ("category", file.categories, "categories")):
        named, known = boxes[column], table["id"]
        if not len(named) or (find_id_positions(named.to_numpy(), known.to_numpy()) >= 0).any():
            continue
        if named.astype("str").isin(known.astype("str")).all():
            first_known, first_named = known.head(1).tolist()[0], named.head(1).tolist()[0]
            one, other = ("text", "number") if isinstance(first_known, str) else ("number", "text")
            reason = f"has {first_known!r} ({one}) in the ids of {place}, {first_named!r} ({other}) in the annotations"
            raise UserError("read annotations", file.name, reason, "write both as numbers, or both as text")


def find_id_positions(values: Any, known_ids: Any) -> Ints:
    """Return the position of each value among the known ids, -1 for an unknown value."""
    known = pd.Index(known_ids)
    if values.dtype == object or known.dtype == object:
        known, values = known.astype(object), pd.Index(values, dtype=object)
    positions: Ints = known.get_indexer(values)
    return positions
