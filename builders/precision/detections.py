"""A detector's boxes beside the annotations: whether they fit them, and what annotators may have left out.

A detection is not ground truth. If the annotations have no box of its label in the image, the image becomes a candidate
for queries for the label, and an explicit negative of no query. A detector numbers labels in its own way: from 0 if the
annotations start with 1, without the gaps of COCO's ids, or by file name. A results file does not state it; it is
derived from detections and annotated boxes at the same place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from builders.precision import annotated_gallery, judgments, mixes, tag_tree
from builders.precision.compatibility import LabelCompatibility
from builders.precision.label_index import LabelIndex, bit_positions, build_label_index, images_with_all, test_bits
from querytruth.array_types import BoolArray, FloatArray
from querytruth.errors import UserError
from querytruth.records import empty_frame
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.manifest import Input

_STAGE = "join detections"
_SAME_PLACE = 0.5  # intersection over union
_SAMPLE = 20_000  # detections
_FEWEST = 8  # detections at the place of a box: fewer say nothing
_BETTER_BY = 0.25  # of the detections: another numbering fits so many more
_UNLIKE = 0.1  # of the detections at the place of a box have its label: fewer are another list of labels


@dataclass(frozen=True, slots=True)
class DetectionFile:
    """A detector's results as their backend reads them. `boxes`: the columns of AnnotationFile.boxes and `score`, 0 to
    1; image and category are ids of the annotation file."""

    name: str
    sha256: str
    boxes: pd.DataFrame
    entered: int
    rejected: pd.DataFrame

    def input_record(self) -> Input:
        """Return the file as an input of the build."""
        return Input(file=self.name, sha256=self.sha256, counts={"detections": self.entered})


@dataclass(frozen=True, slots=True)
class Detections:
    """Detected boxes of labels that the annotations do not have in the image. `image`, `label`, `share`, `sides` as in
    AnnotatedGallery; `source`: the file that has it, by position in `files`."""

    image: annotated_gallery.Ints
    label: annotated_gallery.Ints
    share: FloatArray
    sides: np.ndarray[Any, np.dtype[np.float32]]
    score: FloatArray
    source: annotated_gallery.Ints
    files: tuple[str, ...]


def accept_detections(
    files: Sequence[DetectionFile],
    annotated: annotated_gallery.AnnotationFile,
    labels: annotated_gallery.Ints,
    gallery: annotated_gallery.AnnotatedGallery,
    at_least: float,
    ledger: Ledger,
) -> Detections:
    """Return the detections with a score of `at_least` or more whose label the annotations do not have in the image,
    and record the stage `detections`. `labels`: the position of each category of `annotated` in the label table."""
    parts: list[tuple[Any, ...]] = []
    rejections: list[pd.DataFrame] = []
    annotated_pairs = np.unique(gallery.box_image.astype(np.int64) * (1 << 32) + gallery.box_label)
    for place, file in enumerate(files):
        _refuse_unreadable(file)
        score_of = pd.Series(file.boxes["score"].to_numpy(), index=file.boxes["record"].to_numpy())
        low = file.boxes["score"].to_numpy() < at_least
        sure = replace(annotated, name=file.name, boxes=file.boxes[~low])
        blocks, rejected = annotated_gallery.accept_boxes(
            sure, gallery.image_rows[0], gallery.images, labels.astype(np.int32), frozenset(), True
        )
        rejections += [file.rejected, *rejected, _below_score(file, low, at_least)]
        for image, label, share, sides, record in blocks:
            is_known = np.isin(image.astype(np.int64) * (1 << 32) + label, annotated_pairs)
            items = [f"{file.name}#annotations[{number}]" for number in record[is_known]]
            rejections.append(rejection_rows(items, "rejected", "label_annotated"))
            new = ~is_known
            values = score_of.loc[record[new]].to_numpy(dtype=np.float64)
            parts.append((image[new], label[new], share[new], sides[new], values, np.full(new.sum(), place)))
    empty = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0), np.empty((0, 4), np.float32), np.empty(0))
    columns = zip((*empty, np.empty(0, np.int64)), *parts, strict=True)
    image, label, share, sides, score, source = (np.concatenate(column) for column in columns)
    entered = sum(file.entered for file in files)
    ledger.record_stage("detections", "detection", entered, len(image), *rejections)
    return Detections(image, label, share, sides, score, source, tuple(file.name for file in files))


def _refuse_unreadable(file: DetectionFile) -> None:
    """Raise UserError if no detection of a file can be read: it is in another form, which a build would ignore."""
    if file.entered and not len(file.boxes):
        reasons = ", ".join(sorted(file.rejected["reason"].unique())).replace("_", " ")
        next_step = "give each detection image_id, category_id, bbox and a score from 0 to 1"
        raise UserError("read detections", file.name, f"contains no readable detections ({reasons})", next_step)


def _below_score(file: DetectionFile, low: object, at_least: float) -> pd.DataFrame:
    rows = file.boxes[low]
    items = [f"{file.name}#annotations[{number}]" for number in rows["record"]]
    values = rows["score"].tolist()
    return rejection_rows(items, "rejected", "below_score", measure="score", value=values, threshold=at_least)


def doubt_places(places: annotated_gallery.BoxPlaces, found: Detections) -> annotated_gallery.BoxPlaces:
    """Return the places with each detected label as one whose number in the image is unknown."""
    image, label = np.append(places.doubtful_image, found.image), np.append(places.doubtful_label, found.label)
    return replace(places, doubtful_image=image, doubtful_label=label)


@dataclass(slots=True)
class CandidateFinder:
    """Finds the images that answer a seed once detections count as boxes."""

    index: LabelIndex  # of the annotations
    found: Detections
    tree: tag_tree.TagTree
    compatibility: LabelCompatibility
    image_ids: Sequence[str]
    detected: LabelIndex = field(init=False)
    _best: dict[tuple[int, int], tuple[float, int]] = field(init=False)  # (concept, image): score, detection

    def __post_init__(self) -> None:
        found, label_count = self.found, len(self.tree.labels)
        gallery = annotated_gallery.AnnotatedGallery(
            pd.DataFrame(index=range(len(self.image_ids))), found.image, found.label, found.share
        )
        self.detected = build_label_index(gallery, label_count, self.compatibility, 1.0)
        accepting: list[list[int]] = [[code] for code in range(label_count)]
        for code, accepted in enumerate(self.compatibility.accepts):
            for label in accepted:
                if label < label_count:
                    accepting[label].append(code)
        self._best = {}
        for row in np.lexsort((found.source, -found.score)).tolist():  # the surest first
            for concept in accepting[found.label[row]]:
                self._best.setdefault((concept, int(found.image[row])), (float(found.score[row]), row))

    def find(self, concepts: mixes.Mix) -> list[tuple[int, float, list[int]]]:
        """Return the images (rows, ascending) that show all concepts only with detections, each with the score of its
        least sure detection and the detections."""
        both = [self.index.present[code] | self.detected.present[code] for code in concepts]
        images = bit_positions(np.bitwise_and.reduce(both) & ~images_with_all(self.index.present, concepts))
        missing = {code: ~test_bits(self.index.present[code], images) for code in concepts}
        out = []
        for place, image in enumerate(images.tolist()):
            rest = [self._best[code, image] for code in concepts if missing[code][place]]
            out.append((image, min(score for score, _ in rest), [row for _, row in rest]))
        return out

    def describe(self, detections: list[int], language: str) -> str:
        """Return what detectors see and the annotations do not have, e.g. “狗 0.87 (yolo.json)”."""
        texts = []
        for row in detections:
            name = self.tree.concepts[self.found.label[row]].name(language)
            texts.append(f"{name} {self.found.score[row]:.2f} ({self.found.files[self.found.source[row]]})")
        return "not annotated: " + "; ".join(texts)


def build_candidate_table(
    seeds: Sequence[mixes.Mix], finder: CandidateFinder, wording: judgments.QueryWording
) -> pd.DataFrame:
    """Return the candidate judgments of all seeds in every language and style, sorted by id."""
    rows = []
    for concepts in seeds:
        keys = [finder.tree.concepts[code].key for code in concepts]
        for image, score, detections in finder.find(concepts):
            for language in wording.languages:
                evidence = finder.describe(detections, language)
                rows += [
                    (judgments.find_seed_query_id(language, style, keys), finder.image_ids[image], score, evidence)
                    for style in wording.styles
                ]
    if not rows:
        return empty_frame("candidate_judgments")
    table = pd.DataFrame(rows, columns=["query_id", "image_id", "score", "evidence"]).astype({"score": "float32"})
    return table.sort_values(["query_id", "image_id"], ignore_index=True)


def name_images_by_id(found: DetectionFile, annotated: annotated_gallery.AnnotationFile) -> DetectionFile:
    """Return the results with image ids of the annotations if theirs are file names or stems (numbers, if the stem is a
    number) and none is an id."""
    given = found.boxes["image"].to_numpy()
    ids = annotated.images["id"].to_numpy()
    if not len(given) or (annotated_gallery.find_id_positions(given, ids) >= 0).any():
        return found
    positions = np.full(len(given), -1)
    for name_of, key_of in ((_get_name, _get_name), (_get_stem, _get_name), (_get_number, _get_number)):
        names = [name_of(str(name)) for name in annotated.images["file_name"]]
        counted = pd.Series(names).value_counts()
        place = {name: n for n, name in enumerate(names) if name and counted[name] == 1}
        keys = [key_of(str(one)) for one in given]
        positions = np.array([place.get(key, -1) for key in keys])
        if (positions >= 0).any():
            break
    if (positions < 0).all():
        return found
    images = given.astype(object)
    images[positions >= 0] = ids[positions[positions >= 0]]
    return replace(found, boxes=found.boxes.assign(image=images))


def _get_name(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name


def _get_stem(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).stem


def _get_number(name: str) -> str:
    stem = _get_stem(name)
    return str(int(stem)) if stem.isascii() and stem.isdigit() else ""


def check_detections(found: DetectionFile, annotated: annotated_gallery.AnnotationFile, at_least: float) -> None:
    """Raise UserError, with three examples, for results with unknown ids only, or whose ids mean other labels or images
    than those of the annotations. `annotated` and `found` have boxes of the same pixels."""
    boxes = found.boxes
    if not len(boxes):
        return
    ids, labels = annotated.images["id"].to_numpy(), annotated.categories["id"].to_numpy()
    image = annotated_gallery.find_id_positions(boxes["image"].to_numpy(), ids)
    label = annotated_gallery.find_id_positions(boxes["category"].to_numpy(), labels)
    for what, positions, known in (("image_id", image, ids), ("category_id", label, labels)):
        if (positions < 0).all():
            column = boxes[what.removesuffix("_id")].drop_duplicates()
            theirs, ours = (", ".join(repr(one) for one in ones[:3].tolist()) for ones in (column, known))
            reason = f"has no {what} in common with the annotations: it has {theirs} …; {annotated.name} has {ours} …"
            raise UserError(_STAGE, found.name, reason, f"use the same {what} as the annotations, or remove the file")
    sure = np.flatnonzero(boxes["score"].to_numpy() >= at_least)
    sure = sure[:: max(1, len(sure) // _SAMPLE)]
    _check_agreement(found, annotated, boxes.iloc[sure], image[sure])


def _check_agreement(
    found: DetectionFile,
    annotated: annotated_gallery.AnnotationFile,
    boxes: pd.DataFrame,
    image: annotated_gallery.Ints,
) -> None:
    labels = annotated.categories["id"]
    names = [str(name) for name in annotated.categories["name"]]
    at = annotated_gallery.find_id_positions(annotated.boxes["image"].to_numpy(), annotated.images["id"].to_numpy())
    pairs = _pair_boxes(boxes, image, annotated.boxes, at)
    placed = len(np.unique(pairs["found"]))
    if placed >= _FEWEST:
        category = boxes["category"].to_numpy()
        truth = np.array([*names, ""], dtype=object)[
            annotated_gallery.find_id_positions(annotated.boxes["category"].to_numpy(), labels.to_numpy())
        ]
        agreed = {
            how: _count_agreed(pairs, _name(ids, labels, names), truth) for how, ids in _numberings(category, labels)
        }
        as_given = agreed.pop("as they are")
        best = max(agreed, key=lambda how: agreed[how].sum(), default=None)
        fix = ""
        if best is not None and agreed[best].sum() >= as_given.sum() + _BETTER_BY * len(boxes):
            fix = f"use the category_id of the annotations: {best}"
            count = f"{as_given.sum():,} of {len(boxes):,}, with another numbering for {agreed[best].sum():,}"
        elif as_given.sum() < _UNLIKE * placed:
            fix = "use the category_id and image_id of the annotations, or remove the file"
            count = f"{as_given.sum():,} of {placed:,}"
        if fix:
            reason = f"its labels match the annotated boxes at the same place for only {count}"
            shown = _quote_disagreements(pairs, as_given, boxes, _name(category, labels, names), truth)
            raise UserError(_STAGE, found.name, f"{reason} ({shown})", fix)
    _check_image_numbers(found, annotated, boxes, image, at, placed)


def _numberings(category: Any, labels: pd.Series) -> list[tuple[str, Any]]:
    """Return the category ids unchanged, and as other numberings of the same list interpret them."""
    out: list[tuple[str, Any]] = [("as they are", category)]
    if category.dtype == object or labels.dtype == object:
        return out
    listed = labels.to_numpy().astype(np.int64)
    out += [(f"add {step:+d}", category.astype(np.int64) + step) for step in (1, -1)]
    for first, order in ((0, listed), (1, listed), (0, np.sort(listed)), (1, np.sort(listed))):
        place = category.astype(np.int64) - first
        is_in = (place >= 0) & (place < len(order))
        out.append((f"the results count them from {first}", np.where(is_in, order[place * is_in], -(1 << 40))))
    return out


def _name(ids: object, labels: pd.Series, names: Sequence[str]) -> Any:
    return np.array([*names, "an unknown label"], dtype=object)[
        annotated_gallery.find_id_positions(ids, labels.to_numpy())
    ]


def _count_agreed(pairs: pd.DataFrame, given: Any, truth: Any) -> BoolArray:
    """Return per detection whether a box at its place has its label, where names are compared."""
    agrees = np.zeros(len(given), dtype=bool)
    same = given[pairs["found"].to_numpy()] == truth[pairs["annotated"].to_numpy()]
    agrees[pairs["found"].to_numpy()[same.astype(bool)]] = True
    return agrees


def _quote_disagreements(pairs: pd.DataFrame, agreed: BoolArray, boxes: pd.DataFrame, given: Any, truth: Any) -> str:
    first = pairs.drop_duplicates("found")
    return "; ".join(
        f"image {boxes['image'].iloc[one]}: category_id {boxes['category'].iloc[one]} is {given[one]}, "
        f"but annotated as {truth[other]}"
        for one, other in first[~agreed[first["found"]]][:3].itertuples(index=False)
    )


def _check_image_numbers(
    found: DetectionFile,
    annotated: annotated_gallery.AnnotationFile,
    boxes: pd.DataFrame,
    image: annotated_gallery.Ints,
    at: annotated_gallery.Ints,
    placed: int,
) -> None:
    """Raise UserError if the detections match the boxes of the images before or after theirs."""
    ids = annotated.images["id"].to_numpy()
    if ids.dtype == object or boxes["image"].dtype == object:
        return
    category = boxes["category"].to_numpy()
    truth = annotated.boxes["category"].to_numpy()

    def count(positions: annotated_gallery.Ints) -> int:
        pairs = _pair_boxes(boxes, positions, annotated.boxes, at)
        same = category[pairs["found"]] == truth[pairs["annotated"]]
        return len(np.unique(pairs["found"].to_numpy()[same]))

    as_given = count(image)
    for step in (1, -1):
        other = count(annotated_gallery.find_id_positions(boxes["image"].to_numpy().astype(np.int64) + step, ids))
        if other >= max(_FEWEST, as_given + 2 * _BETTER_BY * len(boxes)):
            some = ", ".join(f"{one} for {one + step}" for one in boxes["image"].drop_duplicates()[:3].tolist())
            reason = f"{other:,} boxes match those of the images {step:+d}, {as_given:,} those of their own ({some})"
            raise UserError(_STAGE, found.name, reason, f"add {step:+d} to each image_id")


def _pair_boxes(
    boxes: pd.DataFrame, image: annotated_gallery.Ints, annotated: pd.DataFrame, at: annotated_gallery.Ints
) -> pd.DataFrame:
    """Return the detections and the annotated boxes (positions) that are at the same place of the same image."""
    one = pd.DataFrame({"image": image, "found": np.arange(len(boxes))})
    wanted = np.flatnonzero(np.isin(at, image[image >= 0]))
    pairs = one[one["image"] >= 0].merge(pd.DataFrame({"image": at[wanted], "annotated": wanted}), on="image")
    a = boxes[["x", "y", "width", "height"]].to_numpy(dtype=float)[pairs["found"].to_numpy()]
    b = annotated[["x", "y", "width", "height"]].to_numpy(dtype=float)[pairs["annotated"].to_numpy()]
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:])
        shared = np.clip(high - low, 0, None).prod(axis=1)
        union = a[:, 2:].prod(axis=1) + b[:, 2:].prod(axis=1) - shared
        is_same = shared >= _SAME_PLACE * union
    return pairs.loc[is_same, ["found", "annotated"]].reset_index(drop=True)
