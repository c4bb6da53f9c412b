"""A detector's boxes beside the annotations: what annotators may have left out, for people to judge.

A detection is no truth. Where the annotations have no box of its label in the image, it makes the image a candidate of
the queries for the label, and no explicit negative of any query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from builders.array_types import FloatArray
from builders.ledger import Ledger, rejection_rows
from builders.manifest_records import InputRecord
from builders.precision.annotated_gallery import AnnotatedGallery, AnnotationFile, BoxPlaces, Ints, accept_boxes
from builders.precision.compatibility import LabelCompatibility
from builders.precision.judgments import QueryWording, find_seed_query_id
from builders.precision.label_index import LabelIndex, bit_positions, build_label_index, images_with_all, test_bits
from builders.precision.mixes import Mix
from builders.precision.tag_tree import TagTree
from builders.records import empty_frame


@dataclass(frozen=True, slots=True)
class DetectionFile:
    """A detector's results as their backend reads them. `boxes`: the columns of AnnotationFile.boxes and `score`, 0 to
    1; image and category are ids of the annotation file."""

    name: str
    sha256: str
    boxes: pd.DataFrame
    entered: int
    rejected: pd.DataFrame

    def input_record(self) -> InputRecord:
        """Returns the file as an input of the build."""
        return InputRecord(self.name, self.sha256, {"detections": self.entered})


@dataclass(frozen=True, slots=True)
class Detections:
    """Detected boxes of labels that the annotations do not have in the image. `image`, `label`, `share`, `sides` as in
    AnnotatedGallery; `source`: the file that has it, by position in `files`."""

    image: Ints
    label: Ints
    share: FloatArray
    sides: np.ndarray[Any, np.dtype[np.float32]]
    score: FloatArray
    source: Ints
    files: tuple[str, ...]


def accept_detections(
    files: Sequence[DetectionFile],
    annotated: AnnotationFile,
    labels: Ints,
    gallery: AnnotatedGallery,
    at_least: float,
    ledger: Ledger,
) -> Detections:
    """Returns the detections with a score of `at_least` or more whose label the annotations do not have in the image,
    and records the stage `detections`. `labels`: the position of each category of `annotated` in the label table."""
    parts: list[tuple[Any, ...]] = []
    rejections: list[pd.DataFrame] = []
    annotated_pairs = np.unique(gallery.box_image.astype(np.int64) * (1 << 32) + gallery.box_label)
    for place, file in enumerate(files):
        score_of = pd.Series(file.boxes["score"].to_numpy(), index=file.boxes["record"].to_numpy())
        low = file.boxes["score"].to_numpy() < at_least
        sure = replace(annotated, name=file.name, boxes=file.boxes[~low])
        blocks, rejected = accept_boxes(
            sure, gallery.image_rows[0], gallery.images, labels.astype(np.int32), True, True, True
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


def _below_score(file: DetectionFile, low: Any, at_least: float) -> pd.DataFrame:
    rows = file.boxes[low]
    items = [f"{file.name}#annotations[{number}]" for number in rows["record"]]
    values = rows["score"].tolist()
    return rejection_rows(items, "rejected", "below_score", measure="score", value=values, threshold=at_least)


def doubt_places(places: BoxPlaces, found: Detections) -> BoxPlaces:
    """Returns the places with each detected label as one whose number in the image is unknown."""
    image, label = np.append(places.doubtful_image, found.image), np.append(places.doubtful_label, found.label)
    return replace(places, doubtful_image=image, doubtful_label=label)


@dataclass(slots=True)
class CandidateFinder:
    """Finds the images that answer a seed once detections count as boxes."""

    index: LabelIndex  # of the annotations
    found: Detections
    tree: TagTree
    compatibility: LabelCompatibility
    image_ids: Sequence[str]
    detected: LabelIndex = field(init=False)
    _best: dict[tuple[int, int], tuple[float, int]] = field(init=False)  # (concept, image): score, detection

    def __post_init__(self) -> None:
        found, label_count = self.found, len(self.tree.labels)
        gallery = AnnotatedGallery(
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

    def find(self, concepts: Mix) -> list[tuple[int, float, list[int]]]:
        """Returns the images (rows, ascending) that show all concepts only with detections, each with the score of its
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
        """Returns what detectors see and the annotations do not have, e.g. “狗 0.87 (yolo.json)”."""
        texts = []
        for row in detections:
            name = self.tree.concepts[self.found.label[row]].name(language)
            texts.append(f"{name} {self.found.score[row]:.2f} ({self.found.files[self.found.source[row]]})")
        return "not annotated: " + "; ".join(texts)


def build_candidate_table(seeds: Sequence[Mix], finder: CandidateFinder, wording: QueryWording) -> pd.DataFrame:
    """Returns the candidate judgments of all seeds in every language and style, sorted by id."""
    rows = []
    for concepts in seeds:
        keys = [finder.tree.concepts[code].key for code in concepts]
        for image, score, detections in finder.find(concepts):
            for language in wording.languages:
                evidence = finder.describe(detections, language)
                rows += [
                    (find_seed_query_id(language, style, keys), finder.image_ids[image], score, evidence)
                    for style in wording.styles
                ]
    if not rows:
        return empty_frame("candidate_judgments")
    table = pd.DataFrame(rows, columns=["query_id", "image_id", "score", "evidence"]).astype({"score": "float32"})
    return table.sort_values(["query_id", "image_id"], ignore_index=True)
