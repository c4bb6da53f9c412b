"""Where a box of the source lies in the image that a card shows."""

import json

import numpy as np
import pandas as pd
import pytest

from querytruth.review.query_cards import BoxIndex, place_sides

LEFT_HALF = np.array([0.0, 0.0, 0.5, 1.0])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (None, [0, 0, 0.5, 1]),
        ("longer_side", [0, 0, 0.5, 1]),
        ("squash", [0, 0, 0.5, 1]),
        ("fit", [0, 0.25, 0.5, 0.75]),  # 200 x 100 in a square: bars above and below
        ("crop", [0, 0, 0.5, 1]),  # half of the left half is cut away
    ],
)
def test_a_box_follows_its_object_in_each_way_of_rendering(mode: str | None, expected: list[float]) -> None:
    assert place_sides(LEFT_HALF, (200, 100), mode).tolist() == pytest.approx(expected)


def test_a_card_gets_the_boxes_of_its_labels_only_and_detected_ones_last() -> None:
    boxes = pd.DataFrame(
        [
            ("img_a", "dog", ["dog", "animal"], 0.1, 0.1, 0.2, 0.2, 0.91),
            ("img_a", "cat", ["cat", "animal"], 0.3, 0.3, 0.4, 0.4, None),
            ("img_a", "car", ["car"], 0.5, 0.5, 0.6, 0.6, None),
            ("img_b", "dog", ["dog", "animal"], 0.7, 0.7, 0.8, 0.8, None),
        ],
        columns=["image_id", "label", "counts_for", "left", "top", "right", "bottom", "score"],
    )
    boxes["counts_for"] = boxes["counts_for"].map(json.dumps)
    index = BoxIndex(boxes, None)
    found = index.list_boxes("img_a", (100, 100), ["bench", "animal"])
    assert [(box["label"], box["place"], box["score"]) for box in found] == [("cat", 1, None), ("dog", 1, 0.91)]
    assert index.list_boxes("img_a", (100, 100), ["ani"]) == []
    assert index.list_boxes("img_c", (100, 100), ["dog"]) == []


def test_boxes_of_another_publisher_that_are_none_are_not_drawn() -> None:
    rows = [("img_a", "dog", text, left, 0.1, 0.2, 0.2, None) for text, left in (("[", 0.1), ("7", 0.1))]
    rows += [("img_a", "dog", '["dog"]', left, 0.1, 0.2, 0.2, None) for left in (float("nan"), float("inf"), -3.0)]
    columns = ["image_id", "label", "counts_for", "left", "top", "right", "bottom", "score"]
    assert BoxIndex(pd.DataFrame(rows, columns=columns), None).list_boxes("img_a", (100, 100), ["dog"]) == []
