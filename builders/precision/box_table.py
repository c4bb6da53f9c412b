"""The table of boxes: where the labels of a set are marked in its images."""

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd

from builders.precision.annotated_gallery import AnnotatedGallery
from builders.precision.compatibility import LabelCompatibility
from builders.precision.tag_tree import LabelConcept
from builders.records import categorical_from_codes, empty_frame

SIDES = ("left", "top", "right", "bottom")


def build_box_table(
    gallery: AnnotatedGallery, concepts: Sequence[LabelConcept], compatibility: LabelCompatibility
) -> pd.DataFrame:
    """Returns the accepted boxes as the table `boxes`, sorted by image; none where the gallery has no sides."""
    if gallery.box_sides is None or not len(gallery.box_image):
        return empty_frame("boxes")
    counts_for = [[concept.key] for concept in concepts]
    for concept, accepted in zip(concepts, compatibility.accepts, strict=True):
        for code in accepted:
            counts_for[code].append(concept.key)
    order = np.lexsort((*gallery.box_sides.T[::-1], gallery.box_label, gallery.box_image))
    label = gallery.box_label[order]
    texts, first = pd.factorize(np.array([json.dumps(names, ensure_ascii=False) for names in counts_for], dtype=object))
    return pd.DataFrame(
        {
            "image_id": categorical_from_codes(gallery.images["image_id"], gallery.box_image[order]),
            "label": categorical_from_codes([concept.key for concept in concepts], label),
            "counts_for": categorical_from_codes(first, texts[label]),
            **{side: gallery.box_sides[order, place] for place, side in enumerate(SIDES)},
            "score": pd.array([None] * len(order), dtype="Float32"),
            "source": pd.Categorical([None] * len(order), categories=pd.Index([], dtype="str")),
        },
        copy=False,
    )
