"""The table of boxes: where the labels of a set are marked in its images."""

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd

from builders.precision.annotated_gallery import AnnotatedGallery
from builders.precision.compatibility import LabelCompatibility
from builders.precision.detections import Detections
from builders.precision.tag_tree import LabelConcept
from builders.records import categorical_from_codes, empty_frame

SIDES = ("left", "top", "right", "bottom")


def build_box_table(
    gallery: AnnotatedGallery,
    concepts: Sequence[LabelConcept],
    compatibility: LabelCompatibility,
    found: Detections | None = None,
) -> pd.DataFrame:
    """Returns the accepted boxes and the detected ones as the table `boxes`, sorted by image; none where the gallery
    has no sides."""
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
