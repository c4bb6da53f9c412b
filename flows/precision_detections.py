"""The steps that join a detector's results to the annotations of a precision set."""

from dataclasses import replace
from pathlib import Path

from backends.annotations import coco_annotations
from builders.ledger import Ledger
from builders.precision import annotated_gallery, detections
from flows.precision_labels import LabelVocabulary, match_labels
from flows.steps import step


@step("read detections")
def read_detections(paths: list[Path]) -> list[detections.DetectionFile]:
    """A detector's results, by name and digest. Raises UserError for a file that cannot be read."""
    files = [coco_annotations.read_results(path) for path in paths]
    return sorted(files, key=lambda file: (file.name, file.sha256))


@step("join detections")
def join_detections(
    files: list[annotated_gallery.AnnotationFile],
    results: list[detections.DetectionFile],
    gallery: annotated_gallery.AnnotatedGallery,
    labels: LabelVocabulary,
    ledger: Ledger,
    at_least: float,
) -> tuple[annotated_gallery.AnnotatedGallery, detections.Detections]:
    """The detections that the annotations lack, and the gallery in which their labels are doubtful where they lie."""
    (file,) = files
    (codes,) = match_labels(files, labels)
    found = detections.accept_detections(results, file, codes, gallery, at_least, ledger)
    if gallery.places is not None:
        gallery = replace(gallery, places=detections.doubt_places(gallery.places, found))
    return gallery, found
