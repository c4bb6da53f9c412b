"""Annotation files as columns: every odd record is set aside with its place and reason, and the rest is read."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from builders.precision.annotated_gallery import AnnotationFile
from builders.precision.annotation_files import read_annotations, read_results
from builders.precision.annotation_records import parse_annotation, parse_image
from querytruth.backends.files import json_stream
from querytruth.backends.files.column_profile import ReadingOptions, use_table_options
from querytruth.errors import UserError

Shared = Callable[[str], Path]
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
CATEGORY = {"id": 3, "name": "Cigar/Cigarette "}


def coco(images: Any = (IMAGE,), annotations: Any = (BOX,), categories: Any = (CATEGORY,), **more: Any) -> bytes:
    whole = {"images": images, "annotations": annotations, "categories": categories, **more}
    return json.dumps(whole).encode()


@pytest.fixture
def read(tmp_path: Path) -> Callable[[bytes], AnnotationFile]:
    def read_bytes(data: bytes) -> AnnotationFile:
        (tmp_path / "f.json").write_bytes(data)
        return read_annotations(tmp_path / "f.json")

    return read_bytes


Read = Callable[[bytes], AnnotationFile]


def set_aside(frame: pd.DataFrame) -> dict[str, str]:
    assert set(frame["bucket"]) <= {"quarantined"}
    return dict(zip(frame["item"], frame["reason"], strict=True))


def test_the_columns_of_a_small_file(read: Read) -> None:
    licences = [{"id": 5, "name": "CC BY"}, {"id": [], "name": "odd"}, 3, {"name": "none"}]
    found = read(coco([IMAGE, {"id": 9, "file_name": "b.jpg", "coco_url": "u"}], licenses=licences, info={"a": [1]}))
    assert (found.images_entered, found.boxes_entered) == (2, 1)
    assert found.images.to_dict("list") | {"licence": None, "source_url": None} == {
        "id": [7, 9],
        "file_name": ["images/v1/patch8/a.jpg", "b.jpg"],
        "width": [100, 0],
        "height": [80, 0],
        "licence": None,
        "source_url": None,
    }
    assert found.images["licence"].fillna("-").tolist() == ["CC BY", "-"]
    assert found.images["source_url"].fillna("-").tolist() == ["-", "u"]
    assert found.boxes.iloc[0].to_dict() == {
        "image": 7,
        "category": 3,
        "crowd": False,
        "fake": False,
        "record": 0,
        "x": 1.5,
        "y": 2.0,
        "width": 30.0,
        "height": 40.0,
    }
    assert found.categories.to_dict("records") == [{"id": 3, "name": "Cigar/Cigarette", "supercategory": ""}]


ODD_BOXES = [None, "}, {", {}, BOX | {"bbox": [1, 2, 3]}, BOX | {"image_id": True}, BOX | {"iscrowd": "0"}]
ODD_IMAGES = [7, {"file_name": "b.jpg"}, {"id": 8}, {"id": 8, "file_name": "half \ud83d.jpg"}, {"id": float("nan")}]


@pytest.mark.parametrize("record", ODD_BOXES)
def test_an_odd_annotation_is_set_aside_and_its_neighbours_are_read(read: Read, record: Any) -> None:
    found = read(coco(annotations=[BOX, record, BOX]))
    assert set_aside(found.rejected_boxes) == {"f.json#annotations[1]": parse_annotation(record)}
    assert found.boxes["record"].tolist() == [0, 2]
    assert found.boxes_entered == 3


@pytest.mark.parametrize("record", ODD_IMAGES)
def test_an_odd_image_is_set_aside_and_its_neighbours_are_read(read: Read, record: Any) -> None:
    found = read(coco([IMAGE, record, IMAGE | {"id": 9}]))
    assert set_aside(found.rejected_images) == {"f.json#images[1]": parse_image(record)}
    assert found.images["id"].tolist() == [7, 9]
    assert found.images_entered == 3


def test_an_id_used_twice_with_other_content_takes_all_its_images_away(read: Read) -> None:
    for images in (
        [IMAGE, IMAGE | {"id": 8}, IMAGE | {"width": 90}, IMAGE],
        [IMAGE, IMAGE | {"id": 8}, IMAGE, IMAGE | {"width": 90}],
    ):
        with use_table_options(ReadingOptions(bad_rows=1)):
            found = read(coco(images))
        assert found.images["id"].tolist() == [8]
        assert set_aside(found.rejected_images) == {f"f.json#images[{n}]": "id_used_twice" for n in (0, 2, 3)}


def test_a_name_that_is_no_utf8_is_set_aside(read: Read) -> None:
    data = coco([IMAGE, {"id": 8, "file_name": "NAME"}, {"id": 9, "file_name": "c.jpg", "note": "NAME"}])
    found = read(data.replace(b"NAME", b"caf\xe9.jpg"))
    assert set_aside(found.rejected_images) == {"f.json#images[1]": "file_name_not_utf8"}
    assert found.images["id"].tolist() == [7, 9]
    for text in [*found.rejected_images["detail"], *found.rejected_images["item"]]:
        text.encode()


def test_ids_may_be_strings_whole_floats_or_huge(read: Read) -> None:
    ids = [7, 3.0, "a", "7", 2**40, 2**70]
    images = [{"id": n, "file_name": f"{n}.jpg"} for n in ids]
    found = read(coco(images, [BOX | {"image_id": n} for n in ids], [CATEGORY | {"id": "x"}, {"id": 0, "name": "b"}]))
    assert found.images["id"].tolist() == found.boxes["image"].tolist() == [7, 3, "a", "7", 2**40, 2**70]
    assert found.categories["id"].tolist() == ["x", 0]
    only_large = read(coco(images[4:5], [BOX | {"image_id": 2**40}]))
    assert only_large.boxes["image"].dtype == np.int64


@pytest.mark.parametrize("key", ["images", "annotations", "categories"])
def test_a_missing_or_repeated_key_is_one_error(read: Read, key: str) -> None:
    whole = json.loads(coco())
    missing = {k: v for k, v in whole.items() if k != key}
    with pytest.raises(UserError, match=rf"f\.json .*has no key '{key}'"):
        read(json.dumps(missing).encode())
    twice = coco()[:-1] + f', "{key}": {json.dumps(whole[key])}}}'.encode()
    with pytest.raises(UserError, match=rf"f\.json .*has the key '{key}' twice"):
        read(twice)


@pytest.mark.parametrize(
    ("record", "key"),
    [
        ('"image_id": 7, "category_id": 1, "category_id": 2, "bbox": [0, 0, 9, 9]', "category_id"),
        ('"image_id": 7, "image_id": 7, "category_id": 1, "bbox": [0, 0, 9, 9]', "image_id"),
        ('"image_id": 7, "category_id": 1, "bbox": [0, 0, 9, 9], "bbox": [0, 0, 1, 1]', "bbox"),
    ],
)
@pytest.mark.parametrize(
    "beside", ["", '{"image_id": 7, "category_id": 1, "bbox": NaN}, '], ids=["alone", "one by one"]
)
@pytest.mark.parametrize("after", [0, 5], ids=["at the end", "among others"])
def test_a_box_with_a_key_twice_is_one_error(read: Read, record: str, key: str, beside: str, after: int) -> None:
    whole = json.dumps({**json.loads(coco()), "annotations": "HERE"})
    good = ['{"image_id": 7, "category_id": 1, "bbox": [0, 0, 9, 9]}']
    records = ", ".join([*good * 3, f"{beside}{{{record}}}", *good * after])
    with pytest.raises(UserError, match=rf"f\.json .*has a record after byte \d+ whose key '{key}' occurs twice"):
        read(whole.replace('"HERE"', f"[{records}]").encode())


def test_a_label_with_two_names_is_one_error(read: Read) -> None:
    whole = coco().replace(b'"categories": [{', b'"categories": [{"name": "x", ')
    with pytest.raises(UserError, match=r"f\.json .*has a record after byte \d+ whose key 'name' occurs twice"):
        read(whole)


def test_a_nested_key_of_the_same_name_is_no_second_one(read: Read) -> None:
    box = {"image_id": 7, "category_id": 0, "bbox": [0, 0, 9, 9], "attributes": {"bbox": 1, "category_id": "bbox"}}
    assert read(coco(annotations=[box] * 3)).boxes_entered == 3


@pytest.mark.parametrize("key", ["images", "annotations"])
@pytest.mark.parametrize("value", [None, {}, 5, "[]"])
def test_images_and_annotations_must_be_arrays(read: Read, key: str, value: Any) -> None:
    with pytest.raises(UserError, match=r"f\.json .*at byte \d+: an array was expected"):
        read(coco(**{key: value}))


@pytest.mark.parametrize(
    ("categories", "said"),
    [
        ([], "not a list of categories"),
        ({}, "not a list of categories"),
        ([5], r"categories\[0\].*no id or no name"),
        ([CATEGORY, {"id": 4}], r"categories\[1\].*no id or no name"),
        ([{"id": 4, "name": "  "}], "no id or no name"),
        ([{"id": 4, "name": "\ud800"}], "no id or no name"),
        ([CATEGORY, {"id": 3.0, "name": "b"}], "the id 3, which already belongs to 'Cigar/Cigarette'"),
    ],
)
def test_doubtful_categories_are_refused(read: Read, categories: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(coco(categories=categories))


def test_annotations_may_come_first_and_arrays_may_be_empty(read: Read) -> None:
    whole = json.loads(coco())
    turned = read(json.dumps(dict(reversed(whole.items()))).encode())
    assert_frame_equal(turned.boxes, read(coco()).boxes)
    empty = read(coco([], []))
    assert (len(empty.images), len(empty.boxes), empty.boxes_entered) == (0, 0, 0)
    assert_frame_equal(empty.boxes, turned.boxes[:0])


@pytest.mark.parametrize("window", [11, 1 << 20])
@pytest.mark.thorough
def test_a_damaged_file_is_an_error_that_names_it_or_a_result(
    read: Read, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "WINDOW", window)
    whole = coco([IMAGE, IMAGE | {"id": 8, "file_name": "字.jpg"}], [BOX, BOX | {"id": 2}], info={"a": [1, {}]})
    for size in range(len(whole)):
        with pytest.raises(UserError, match=r"f\.json .*at byte \d+" if size else "is empty"):
            read(whole[:size])
    chance, results = random.Random(window), 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 3])):
            data[chance.randrange(len(data))] = chance.choice([chance.randrange(256), *b'{}[],:"\\ 0e.-'])
        try:
            found = read(bytes(data))
        except UserError as error:
            assert "f.json" in str(error)
        else:
            results += 1
            assert found.boxes_entered == len(found.boxes) + len(found.rejected_boxes)
            assert found.images_entered == len(found.images) + len(found.rejected_images)
            for text in [
                *found.rejected_images["detail"],
                *found.rejected_boxes["detail"],
                *found.images["file_name"],
            ]:
                text.encode()
    assert results > 40, "many a flip leaves a readable file"


REAL = [
    "boxes_only/pascal_test2007.json",
    "boxes_only/taco_annotations.json",
    "coco_tiny/annotations/instances_train2017.json",
    "coco_tiny/annotations/instances_val2017.json",
]


@pytest.mark.parametrize("window", [4096, 1 << 20])
@pytest.mark.parametrize("name", REAL)
@pytest.mark.thorough
def test_real_files_count_as_json_load_counts(
    shared: Shared, name: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "WINDOW", window)
    path = shared(name)
    whole, found = json.loads(path.read_bytes()), read_annotations(path)
    assert set_aside(found.rejected_images) == set_aside(found.rejected_boxes) == {}
    assert found.images["id"].tolist() == [image["id"] for image in whole["images"]]
    assert found.images["file_name"].tolist() == [image["file_name"] for image in whole["images"]]
    assert found.boxes["image"].tolist() == [box["image_id"] for box in whole["annotations"]]
    assert found.boxes["category"].tolist() == [box["category_id"] for box in whole["annotations"]]
    assert found.boxes["crowd"].tolist() == [bool(box.get("iscrowd")) for box in whole["annotations"]]
    assert found.boxes[["x", "y", "width", "height"]].to_numpy().tolist() == [b["bbox"] for b in whole["annotations"]]
    assert found.categories["name"].tolist() == [entry["name"].strip() for entry in whole["categories"]]


def test_the_real_records_of_objects365_are_read(shared: Shared, read: Read) -> None:
    real = json.loads(shared("labels/objects365_real_records.json").read_bytes())
    boxes = [real["annotation_of_420917"], *real["annotations_of_900001"]]
    found = read(coco([real["image"]], boxes, [{"id": n, "name": f"label {n} "} for n in range(1, 366)]))
    assert len(found.rejected_boxes) == len(found.rejected_images) == 0
    assert found.images.loc[0, ["id", "width", "height"]].tolist() == [420917, 769, 512]
    assert found.boxes["image"].tolist() == [420917] + 5 * [900001]
    assert found.boxes["category"].tolist() == [84, 1, 33, 1, 33, 80]
    assert found.boxes.loc[0, "x"] == 491.3955078011
    assert found.categories["id"].tolist() == list(range(1, 366))


@pytest.mark.parametrize("window", [50, 1 << 19])
def test_results_of_a_detector_are_read_a_window_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(json_stream, "WINDOW", window)
    box = {"image_id": 7, "category_id": 1, "bbox": [0, 0, 9, 9]}
    scores: list[Any] = [0.5, 1, 0, None, True, 1.5, -0.1, float("nan"), 10**400, 0.25, "0.5"]
    results = [*({**box, "score": score} for score in scores), {"score": 1}, 3, {**box, "score": 0.75}]
    (tmp_path / "yolo.json").write_text("\n " + json.dumps(results) + "\n")
    read_bytes: list[int] = []
    with pytest.raises(UserError, match=r"7 of 14 rows would be left out as bad score.*tables.bad_rows: 0.5"):
        read_results(tmp_path / "yolo.json")
    with use_table_options(ReadingOptions(bad_rows=0.5)):
        found = read_results(tmp_path / "yolo.json", read_bytes.append)
    assert found.boxes["score"].tolist() == [0.5, 1, 0, 0.25, 0.75]
    assert found.boxes["record"].tolist() == [0, 1, 2, 9, 13]
    assert (found.entered, sum(read_bytes)) == (14, (tmp_path / "yolo.json").stat().st_size)
    assert Counter(found.rejected["reason"]) == {"bad_score": 7, "missing_image_id": 1, "not_an_object": 1}
    (tmp_path / "yolo.json").write_text(" [ ]")
    assert read_results(tmp_path / "yolo.json").boxes.empty
