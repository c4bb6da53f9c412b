"""The table of boxes: where the labels of a set are marked in its upright images.

A camera stores a portrait photo sideways, with an orientation tag. Tools that ignore the tag write the size and the
boxes of the stored pixels; all other code uses the upright image. If the two sizes differ in shape, they show which one
a tool wrote; the same is assumed for the other turned images of its file.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from builders.precision import annotated_gallery, detections, tag_tree
from builders.precision.compatibility import LabelCompatibility
from querytruth.array_types import BoolArray, FloatArray
from querytruth.records import categorical_from_codes, empty_frame

SIDES = ("left", "top", "right", "bottom")
_SLACK = 1.01  # of a side: boxes are rounded
_LYING = 5  # from this EXIF orientation on, the stored and the shown sides are exchanged


def build_box_table(
    gallery: annotated_gallery.AnnotatedGallery,
    concepts: Sequence[tag_tree.LabelConcept],
    compatibility: LabelCompatibility,
    found: detections.Detections | None = None,
) -> pd.DataFrame:
    """Return the accepted and the detected boxes as the table `boxes`, sorted by image; empty if the gallery has no
    sides."""
    if gallery.box_sides is None:
        return empty_frame("boxes")
    image, label, sides = gallery.box_image, gallery.box_label, gallery.box_sides
    score, source = np.full(len(image), np.nan), np.full(len(image), -1)
    if found is not None:
        image, label = np.append(image, found.image), np.append(label, found.label)
        sides = np.concatenate([sides, found.sides])
        score, source = np.append(score, found.score), np.append(source, found.source)
    if not len(image):
        return empty_frame("boxes")
    counts_for = [[concept.key] for concept in concepts]
    for concept, accepted in zip(concepts, compatibility.accepts, strict=True):
        for code in accepted:
            counts_for[code].append(concept.key)
    order = np.lexsort((source, *sides.T[::-1], label, image))
    label = label[order]
    texts, first = pd.factorize(np.array([json.dumps(names, ensure_ascii=False) for names in counts_for], dtype=object))
    return pd.DataFrame(
        {
            "image_id": categorical_from_codes(gallery.images["image_id"], image[order]),
            "label": categorical_from_codes([concept.key for concept in concepts], label),
            "counts_for": categorical_from_codes(first, texts[label]),
            **{side: sides[order, place] for place, side in enumerate(SIDES)},
            "score": pd.array(score[order].astype(np.float32), dtype="Float32"),
            "source": categorical_from_codes(found.files if found else [], source[order]),
        },
        copy=False,
    )


@dataclass(frozen=True, slots=True)
class StoredFrames:
    """Return per listed image: the EXIF orientation by which its boxes are turned (1: none), the width and the height
    of the pixels that its boxes refer to (NaN if unknown), and whether the annotated sides are exchanged."""

    turn: annotated_gallery.Ints
    width: FloatArray
    height: FloatArray
    is_exchanged: BoolArray


def find_stored_frames(
    files: Sequence[annotated_gallery.AnnotationFile], listed: annotated_gallery.ListedImages, scanned: pd.DataFrame
) -> StoredFrames | None:
    """Return which listed images are annotated in their stored pixels, None where none is. `scanned` has a row per
    listed image: upright width and height, orientation."""
    orientation = pd.to_numeric(scanned["orientation"], errors="coerce").fillna(1).to_numpy(dtype=np.int8)
    if not (orientation > 1).any():
        return None
    width, height = (listed.images[side].to_numpy(dtype=np.float64) for side in ("width", "height"))
    shown_w, shown_h = (pd.to_numeric(scanned[side], errors="coerce").to_numpy(float) for side in ("width", "height"))
    lies = orientation >= _LYING
    has_size = (width > 0) & (height > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(has_size, width / height, np.nan)
        fits_shown = np.abs(ratio / (shown_w / shown_h) - 1) < annotated_gallery.ASPECT_RATIO_TOLERANCE
        fits_stored = np.abs(ratio / (shown_h / shown_w) - 1) < annotated_gallery.ASPECT_RATIO_TOLERANCE
    is_exchanged, is_upright = lies & fits_stored & ~fits_shown, lies & fits_shown & ~fits_stored
    if not is_exchanged.any():
        return None
    inside_stored, inside_shown = _find_frames_of_boxes(files, listed, width, height)
    turn = np.ones(len(orientation), dtype=np.int8)
    for rows in listed.rows:
        of_file = np.zeros(len(turn), dtype=bool)
        of_file[rows] = True
        stored = of_file & is_exchanged
        only_shown, only_stored = stored & inside_shown & ~inside_stored, stored & inside_stored & ~inside_shown
        if only_shown.any() and not only_stored.any():
            continue  # the sizes are of the stored pixels, the boxes of the shown ones
        turned = stored & ~only_shown
        if turned.any() and not (of_file & is_upright).any():
            turned |= of_file & ~is_exchanged & (orientation > 1)  # square, mirrored, upside down, or without a size
        turn[turned] = orientation[turned]
    stored_w, stored_h = np.where(lies, shown_h, shown_w), np.where(lies, shown_w, shown_h)
    frame = np.where(has_size, width, stored_w), np.where(has_size, height, stored_h)
    return StoredFrames(turn, *frame, is_exchanged)


def _find_frames_of_boxes(
    files: Sequence[annotated_gallery.AnnotationFile],
    listed: annotated_gallery.ListedImages,
    width: FloatArray,
    height: FloatArray,
) -> tuple[BoolArray, BoolArray]:
    """Return per listed image whether all its boxes are inside the annotated size, and inside it on its side."""
    inside = np.ones((2, len(width)), dtype=bool)
    for file, rows in zip(files, listed.rows, strict=True):
        place = np.append(rows, -1)[
            annotated_gallery.find_id_positions(file.boxes["image"].to_numpy(), file.images["id"].to_numpy())
        ]
        x, y, w, h = (file.boxes[side].to_numpy(dtype=np.float64) for side in ("x", "y", "width", "height"))
        for frame, (wide, high) in enumerate(((width, height), (height, width))):
            is_out = (x + w > wide[place] * _SLACK) | (y + h > high[place] * _SLACK)
            inside[frame, place[is_out & (place >= 0)]] = False
    return inside[0], inside[1]


def turn_files(
    files: Sequence[annotated_gallery.AnnotationFile],
    listed: annotated_gallery.ListedImages,
    frames: StoredFrames | None,
) -> list[annotated_gallery.AnnotationFile]:
    """Return the files with the boxes of stored pixels as boxes of the upright images."""
    if frames is None:
        return list(files)
    pairs = zip(files, listed.rows, strict=True)
    return [
        replace(file, boxes=turn_boxes(file.boxes, file.images["id"].to_numpy(), rows, frames)) for file, rows in pairs
    ]


def turn_boxes(
    boxes: pd.DataFrame, image_ids: annotated_gallery.Ints, rows: annotated_gallery.Ints, frames: StoredFrames | None
) -> pd.DataFrame:
    """Return the boxes of a file upright. `rows`: the listed image of each of its image records, `image_ids`."""
    if frames is None:
        return boxes
    place = np.append(rows, -1)[annotated_gallery.find_id_positions(boxes["image"].to_numpy(), image_ids)]
    turn = np.append(frames.turn, np.int8(1))[place]
    if not (turn > 1).any():
        return boxes
    wide, high = (np.append(side, 1.0)[place] for side in (frames.width, frames.height))
    x, y, w, h = (boxes[side].to_numpy(dtype=np.float64) for side in ("x", "y", "width", "height"))
    right, bottom = wide - x - w, high - y - h  # the gaps behind the box
    lies = turn >= _LYING
    # EXIF 2.32, tag Orientation: which stored side is the upper and the left one of the shown image
    left = np.select([np.isin(turn, (2, 3)), np.isin(turn, (5, 8)), np.isin(turn, (6, 7))], [right, y, bottom], x)
    top = np.select([np.isin(turn, (3, 4)), np.isin(turn, (5, 6)), np.isin(turn, (7, 8))], [bottom, x, right], y)
    return boxes.assign(x=left, y=top, width=np.where(lies, h, w), height=np.where(lies, w, h))
