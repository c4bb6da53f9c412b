"""The boxes of a set: what is marked where, and which queries a box counts for."""

import json

import numpy as np
import pandas as pd

from builders.precision.annotated_gallery import AnnotatedGallery
from builders.precision.boxes import build_box_table
from builders.precision.compatibility import build_compatibility
from builders.precision.tag_tree import LabelConcept, TagTree
from querytruth.records import to_arrow

DOG, POODLE, CAT = (LabelConcept(name, "", "", name) for name in ("dog", "poodle", "cat"))
TREE = TagTree((DOG, POODLE, CAT))


def gallery(sides: list[tuple[float, ...]] | None) -> AnnotatedGallery:
    images = pd.DataFrame({"image_id": ["img_a", "img_b"]})
    boxes = None if sides is None else np.array(sides, dtype=np.float32)
    return AnnotatedGallery(images, np.array([1, 0]), np.array([1, 2]), np.array([0.1, 0.2]), None, boxes)


def test_a_box_counts_for_its_label_and_for_those_that_accept_it() -> None:
    rows = pd.DataFrame([("asymmetric", "dog", "poodle", "")], columns=["relation", "label", "accepts", "reason"])
    table = build_box_table(
        gallery([(0.1, 0.2, 0.5, 0.6), (0, 0, 1, 1)]), TREE.concepts, build_compatibility(TREE, rows)
    )
    assert to_arrow("boxes", table).num_rows == 2
    assert list(table["image_id"]) == ["img_a", "img_b"]
    assert [json.loads(text) for text in table["counts_for"]] == [["cat"], ["poodle", "dog"]]
    assert [round(float(table.loc[1, side]), 3) for side in ("left", "top", "right", "bottom")] == [0.1, 0.2, 0.5, 0.6]
    assert table["score"].isna().all(), "the annotations have them"


def test_a_set_of_annotations_alone_has_no_table_of_boxes() -> None:
    assert build_box_table(gallery(None), TREE.concepts, build_compatibility(TREE, None)).empty
