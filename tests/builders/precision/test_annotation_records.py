"""What makes a record good, bad or doubtful, and that the typed form and the rules in words are the same rules."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.precision.annotation_records import (
    CocoAnnotation,
    CocoImage,
    abbreviate_record,
    parse_annotation,
    parse_image,
)

IMAGE = {"id": 7, "file_name": "images/v1/patch8/a.jpg", "height": 80, "width": 100, "license": 5, "url": ""}
BOX = {
    "id": 1,
    "image_id": 7,
    "category_id": 3,
    "bbox": [1.5, 2, 30, 40],
    "iscrowd": 0,
    "isfake": 0,
    "area": 1200,
}
NAN, INF = float("nan"), float("inf")
ODD_BOXES: list[tuple[Any, str]] = [
    (None, "not_an_object"),
    ([1, 2], "not_an_object"),
    ("}, {", "not_an_object"),
    ({}, "missing_image_id"),
    (BOX | {"image_id": None}, "missing_image_id"),
    ({k: v for k, v in BOX.items() if k != "category_id"}, "missing_category_id"),
    ({k: v for k, v in BOX.items() if k != "bbox"}, "missing_bbox"),
    (BOX | {"bbox": None}, "missing_bbox"),
    (BOX | {"bbox": [1, 2, 3]}, "bbox_not_four_numbers"),
    (BOX | {"bbox": [1, 2, 3, 4, 5]}, "bbox_not_four_numbers"),
    (BOX | {"bbox": [1, 2, "3", 4]}, "bbox_not_four_numbers"),
    (BOX | {"bbox": [1, 2, None, 4]}, "bbox_not_four_numbers"),
    (BOX | {"bbox": [1, 2, True, 4]}, "bbox_not_four_numbers"),
    (BOX | {"bbox": "1 2 3 4"}, "bbox_not_four_numbers"),
    (BOX | {"image_id": True}, "bad_image_id"),
    (BOX | {"image_id": 7.5}, "bad_image_id"),
    (BOX | {"image_id": [7]}, "bad_image_id"),
    (BOX | {"category_id": NAN}, "bad_category_id"),
    (BOX | {"category_id": "\ud800"}, "bad_category_id"),
    (BOX | {"iscrowd": "0"}, "bad_flag"),
    (BOX | {"isfake": []}, "bad_flag"),
]
ODD_IMAGES: list[tuple[Any, str]] = [
    (7, "not_an_object"),
    ({"file_name": "b.jpg"}, "missing_id"),
    ({"id": None, "file_name": "b.jpg"}, "missing_id"),
    ({"id": False, "file_name": "b.jpg"}, "bad_id"),
    ({"id": 1.5, "file_name": "b.jpg"}, "bad_id"),
    ({"id": "\udcff", "file_name": "b.jpg"}, "bad_id"),
    ({"id": 8}, "missing_file_name"),
    ({"id": 8, "file_name": ""}, "missing_file_name"),
    ({"id": 8, "file_name": 5}, "missing_file_name"),
    ({"id": 8, "file_name": "half \ud83d.jpg"}, "file_name_not_utf8"),
]


@pytest.mark.parametrize(("record", "reason"), ODD_BOXES)
def test_an_annotation_that_is_none_has_a_reason(record: Any, reason: str) -> None:
    assert parse_annotation(record) == reason


@pytest.mark.parametrize(("record", "reason"), ODD_IMAGES)
def test_an_image_that_is_none_has_a_reason(record: Any, reason: str) -> None:
    assert parse_image(record) == reason


@pytest.mark.parametrize(
    ("flag", "is_set"),
    [(0, 0), (1, 1), (True, 1), (False, 0), (None, 0), (2, 1), (0.0, 0), (1.0, 1), (2**70, 1)],
)
def test_flags_may_be_missing_numbers_or_booleans(flag: Any, is_set: int) -> None:
    box = parse_annotation(BOX | {"iscrowd": flag})
    assert isinstance(box, CocoAnnotation)
    assert (bool(box.iscrowd), bool(box.isfake)) == (bool(is_set), False)
    bare = parse_annotation({key: BOX[key] for key in ("image_id", "category_id", "bbox")})
    assert isinstance(bare, CocoAnnotation)
    assert not bare.iscrowd
    assert not bare.isfake


@pytest.mark.parametrize("side", [0, -5, NAN, INF, -INF, 2**31, 10**400, "100", None, True, [1]])
def test_a_width_that_is_none_is_unknown(side: Any) -> None:
    image = parse_image(IMAGE | {"width": side})
    assert isinstance(image, CocoImage)
    assert (image.width, image.height) == (None, 80)


ids = st.sampled_from([0, 7, -1, 3.0, 7.5, 2**40, 2**70, "a", "7", "", True, None, "\ud800", NAN])
sides = st.sampled_from([0, 1.5, -3, 1e300, 2**70, 10**400, NAN, INF, "1", None, True])
flags = st.sampled_from([0, 1, 2, True, False, None, 1.0, "1", []])
some_text = st.sampled_from(["a.jpg", "字", "", None, 5, "\udcff", "a\x00b"])
boxes = st.fixed_dictionaries(
    {},
    optional={"image_id": ids, "category_id": ids, "bbox": st.lists(sides, min_size=3, max_size=5) | sides}
    | {"iscrowd": flags, "isfake": flags, "segmentation": st.just([[1, 2]])},
)
images = st.fixed_dictionaries(
    {"id": ids, "file_name": some_text},
    optional={"width": sides, "height": sides, "license": ids, "flickr_url": some_text, "url": some_text},
)


@settings(max_examples=500)
@given(boxes | st.builds(lambda box: BOX | box, boxes))
@pytest.mark.thorough
def test_a_box_that_fits_the_type_is_the_same_box_by_the_rules(record: dict[str, Any]) -> None:
    try:
        typed = msgspec.json.decode(json.dumps(record).encode(), type=CocoAnnotation)
    except msgspec.DecodeError:
        return
    by_rules = parse_annotation(record)
    assert isinstance(by_rules, CocoAnnotation)
    for name in ("image_id", "category_id", "bbox"):
        assert getattr(typed, name) == getattr(by_rules, name)
    assert [bool(typed.iscrowd), bool(typed.isfake)] == [bool(by_rules.iscrowd), bool(by_rules.isfake)]


@settings(max_examples=500)
@given(images)
@pytest.mark.thorough
def test_an_image_that_fits_the_type_is_the_same_image_by_the_rules(record: dict[str, Any]) -> None:
    try:
        typed = msgspec.json.decode(json.dumps(record).encode(), type=CocoImage)
    except msgspec.DecodeError:
        return
    assert parse_image(record) == typed


def test_what_the_ledger_shows_is_short_and_can_be_written() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    for record in (
        BOX,
        deep,
        {"a": "\ud800" * 1000},
        {str(n): n for n in range(1000)},
        ["x" * 10**6],
        10**3000,
    ):
        text = abbreviate_record(record)
        assert len(text.encode()) <= 300


def test_an_image_without_a_name_has_that_of_its_url() -> None:
    """LVIS v1 lists coco_url alone."""
    image = parse_image({"id": 1, "coco_url": "http://images.cocodataset.org/val2017/000000397133.jpg"})
    assert not isinstance(image, str) and image.file_name == "val2017/000000397133.jpg"
    assert parse_image({"id": 1, "coco_url": "nothing"}) == "missing_file_name"
