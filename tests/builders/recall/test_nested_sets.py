"""1K within 10K within 100K: the same queries, ever larger galleries."""

import numpy as np
import pandas as pd
import pytest

from builders.recall.nested_sets import cut_nested_tables
from querytruth.errors import UserError

# img_a was merged into q_b's truth, img_d into q_a's; img_c was judged wrong for q_a, img_a for q_d.
QUERIES = pd.DataFrame({"query_id": ["q_a", "q_b", "q_c", "q_d"], "text": ["a", "b", "c", "d"]})
IMAGES = pd.DataFrame({"image_id": ["img_a", "img_b", "img_c", "img_d"]})
RANK = np.array([0, 3, 1, 2])
QRELS = pd.DataFrame(
    [
        ("q_a", "img_a", 1),
        ("q_a", "img_c", 0),
        ("q_a", "img_d", 1),
        ("q_b", "img_a", 1),
        ("q_b", "img_b", 1),
        ("q_c", "img_c", 1),
        ("q_d", "img_a", 0),
        ("q_d", "img_d", 1),
    ],
    columns=["query_id", "image_id", "relevance"],
).astype({"query_id": "category", "image_id": "category"})


def test_each_size_holds_the_first_images_and_what_can_be_asked_of_them() -> None:
    sets = cut_nested_tables([4, 2], RANK, QUERIES, IMAGES, QRELS)
    assert list(sets) == [2, 4]
    small = sets[2]
    assert small.images["image_id"].tolist() == ["img_a", "img_c"]
    assert small.queries["query_id"].tolist() == ["q_a", "q_b", "q_c"]
    assert small.qrels.astype(str).to_numpy().tolist() == [
        ["q_a", "img_a", "1"],
        ["q_a", "img_c", "0"],
        ["q_b", "img_a", "1"],
        ["q_c", "img_c", "1"],
    ]
    assert small.rejections[["item", "reason"]].to_numpy().tolist() == [["q_d", "image_outside"]]
    assert small.figures == {"queries": 3, "images": 2, "judgments": 4, "narrower": 2}
    assert sets[4].figures == {"queries": 4, "images": 4, "judgments": 8, "narrower": 0}


def test_a_small_set_knows_nothing_of_the_large_one() -> None:
    small = cut_nested_tables([1], RANK, QUERIES, IMAGES, QRELS)[1].qrels
    assert small["image_id"].cat.categories.tolist() == ["img_a"]
    assert small["query_id"].cat.categories.tolist() == ["q_a", "q_b"]


@pytest.mark.parametrize("size", [0, 5, -1])
def test_a_size_that_the_gallery_does_not_have_is_refused(size: int) -> None:
    with pytest.raises(UserError, match="is not within 1 to 4 images"):
        cut_nested_tables([2, size], RANK, QUERIES, IMAGES, QRELS)


def test_two_images_never_have_one_turn() -> None:
    with pytest.raises(ValueError, match="3 different ranks for 4 images"):
        cut_nested_tables([2], np.array([0, 1, 1, 2]), QUERIES, IMAGES, QRELS)
