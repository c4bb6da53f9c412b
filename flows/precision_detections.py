"""The steps that join a detector's results to the annotations of a precision set."""

from dataclasses import replace
from pathlib import Path

from backends.annotations import coco_annotations
from builders.ledger import Ledger
from builders.precision import annotated_gallery, detections, detector_ids, stored_pixels
from flows.precision_labels import LabelVocabulary, match_labels
from flows.steps import current_run, step


@step("read detections")
def read_detections(paths: list[Path]) -> list[detections.DetectionFile]:
    """A detector's results, by name and digest. Raises UserError for a file that cannot be read."""
    files = [coco_annotations.read_results(path) for path in paths]
    return sorted(files, key=lambda file: (file.name, file.sha256))


def fit_results(
    results: list[detections.DetectionFile],
    file: annotated_gallery.AnnotationFile,
    rows: annotated_gallery.Ints,
    frames: stored_pixels.StoredFrames | None,
    at_least: float,
) -> list[detections.DetectionFile]:
    """The results with the annotations' image ids, as boxes of upright images. Raises UserError for a file that is
    about other images or labels. `rows`: the listed image of each image record of `file`."""
    out = []
    for one in results:
        named = detector_ids.name_images_by_id(one, file)
        if named is not one:
            log = current_run().reporter.log
            log(f"{one.name}: none of the image_ids is one of {file.name}; they are read as file names")
        boxes = stored_pixels.turn_boxes(named.boxes, file.images["id"].to_numpy(), rows, frames)
        out.append(replace(named, boxes=boxes))
        detector_ids.check_detections(out[-1], file, at_least)
    return out


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
