"""Annotations as tools really write them: sizes of stored pixels, paths of other machines, ids of another list."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageOps

from builders.precision.annotation_files import read_annotations, read_results
from builders.precision.annotation_records import find_extent
from builders.precision.boxes import StoredFrames, turn_boxes
from builders.precision.detections import check_detections, name_images_by_id
from builders.precision.steps import mine_seeds
from flows.definition_loader import load_definition
from querytruth.backends.images.image_folder import ImageFolder, folder_words
from querytruth.errors import UserError
from querytruth.sets.ledger import Ledger
from tests.images import make_exif

CATEGORIES = [{"id": 1, "name": "kayak"}, {"id": 2, "name": "lantern"}]


def draw(path: Path, number: int, size: tuple[int, int] = (96, 64), orientation: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = (number * 20 % 256, 90, 255 - number * 20 % 256)
    Image.new("RGB", size, colour).save(path, exif=make_exif({0x0112: orientation}))


def coco(names: list[str], size: Any = (96, 64), box: Any = (8, 6, 40, 30), **other: Any) -> dict[str, Any]:
    sizes = dict(zip(("width", "height"), size, strict=True)) if size else {}
    images = [{"id": n, "file_name": name} | sizes for n, name in enumerate(names, 1)]
    boxes = [{"image_id": n, "category_id": 1 + n % 2, "bbox": list(box)} for n in range(1, len(names) + 1)]
    return {"images": images, "annotations": boxes, "categories": CATEGORIES} | other


def mine(folder: Path, **files: dict[str, Any]) -> tuple[Any, Ledger]:
    """The gallery of annotation files, by name, of the images below `photos`."""
    for name, data in files.items():
        (folder / f"{name}.json").write_text(json.dumps(data))
    keys = {"kind": "precision", "name": "p", "annotations": [f"{name}.json" for name in files], "images": "photos"}
    (folder / "p.yaml").write_text(json.dumps(keys | {"out": str(folder / "sets"), "searchable": {"min_images": 1}}))
    ledger = Ledger()
    return mine_seeds(load_definition(folder / "p.yaml", [], "precision"), ledger).gallery, ledger


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_of_stored_pixels_is_turned_as_the_image_is(orientation: int) -> None:
    pixels = np.zeros((60, 100), dtype=np.uint8)
    pixels[5:25, 70:90] = 255  # x 70, y 5, 20 by 20
    pixels[5:25, 60:70] = 255
    stored = Image.fromarray(pixels)
    stored.info["exif"] = make_exif({0x0112: orientation}).tobytes()
    stored.getexif()[0x0112] = orientation
    left, top, right, bottom = ImageOps.exif_transpose(stored).getbbox() or ()  # type: ignore[misc]
    frames = StoredFrames(
        np.array([orientation], np.int8), np.array([100.0]), np.array([60.0]), np.array([orientation >= 5])
    )
    given = pd.DataFrame({"image": [7], "x": [60.0], "y": [5.0], "width": [30.0], "height": [20.0]})
    turned = turn_boxes(given, np.array([7]), np.array([0]), frames)
    assert turned[["x", "y", "width", "height"]].iloc[0].tolist() == [left, top, right - left, bottom - top]


def test_sizes_of_the_stored_pixels_are_the_same_image(tmp_path: Path) -> None:
    for n, orientation in enumerate([1, 6, 8, 3, 5]):
        draw(tmp_path / "photos" / f"{n}.jpg", n, orientation=orientation)
    gallery, _ = mine(tmp_path, a=coco([f"{n}.jpg" for n in range(5)]))
    by_name = gallery.images.reset_index().set_index("file_name")
    assert [tuple(by_name.loc[f"{n}.jpg", ["width", "height"]]) for n in range(5)] == [
        (96, 64), (64, 96), (64, 96), (96, 64), (64, 96)
    ]  # fmt: skip
    sides = {gallery.images["file_name"][i]: s for i, s in zip(gallery.box_image, gallery.box_sides, strict=True)}
    x, y, right, bottom = 8 / 96, 6 / 64, 48 / 96, 36 / 64
    expected = {
        "0.jpg": (x, y, right, bottom),
        "1.jpg": (1 - bottom, x, 1 - y, right),
        "2.jpg": (y, 1 - right, bottom, 1 - x),
        "3.jpg": (1 - right, 1 - bottom, 1 - x, 1 - y),  # of a tool that ignored the tag of the others
        "4.jpg": (y, x, bottom, right),
    }
    for name, wanted in expected.items():
        assert sides[name] == pytest.approx(wanted, abs=1e-6), name


def test_boxes_of_the_shown_image_beside_sizes_of_the_stored_one_stay(tmp_path: Path) -> None:
    for n in range(2):
        draw(tmp_path / "photos" / f"{n}.jpg", n, orientation=6)
    gallery, _ = mine(tmp_path, a=coco(["0.jpg", "1.jpg"], box=(8, 40, 40, 50)))  # reaches 90 of 64
    assert gallery.box_sides[0] == pytest.approx((8 / 64, 40 / 96, 48 / 64, 90 / 96))


def test_an_upright_size_and_another_shape_are_as_before(tmp_path: Path) -> None:
    draw(tmp_path / "photos" / "0.jpg", 0, orientation=6)
    draw(tmp_path / "photos" / "1.jpg", 1)
    data = coco(["0.jpg", "1.jpg"])
    data["images"][0] |= {"width": 64, "height": 96}
    data["images"][1] |= {"width": 64, "height": 96}
    gallery, ledger = mine(tmp_path, a=data)
    assert gallery.images["file_name"].tolist() == ["0.jpg"]
    assert gallery.box_sides[0] == pytest.approx((8 / 64, 6 / 96, 48 / 64, 36 / 96))
    assert ledger.funnel()[0]["quarantined"] == {"other_shape_than_annotated": 1}


@pytest.mark.parametrize(
    ("listed", "there"),
    [
        ("/home/user/project/images/x.jpg", "x.jpg"),
        ("..\\..\\media\\upload\\4\\x.jpg", "x.jpg"),
        ("../../media/4/x.jpg", "4/x.jpg"),
        ("D:\\data\\set\\x.jpg", "deep/x.jpg"),
        ("https://host/data/x%20y.jpg?d=1", "x y.jpg"),
        ("/data/local-files/?d=images/x.jpg", "images/x.jpg"),
        ("cafe\u0301/e\u0301.jpg", "caf\u00e9/\u00e9.jpg"),
        ("caf\u00e9.jpg", "cafe\u0301.jpg"),
        ("x.JPG", "x.jpg"),
        ("IMG_1.jpg", "img_1.JPG"),
        ("a%2Bb.jpg", "a+b.jpg"),
        ("a+b.jpg", "a%2Bb.jpg"),
    ],
)
def test_a_name_is_found_by_its_end_in_every_form(tmp_path: Path, listed: str, there: str) -> None:
    draw(tmp_path / "photos" / there, 1)
    draw(tmp_path / "photos" / "other.jpg", 2)
    assert ImageFolder(tmp_path / "photos").find(listed) == tmp_path / "photos" / there


def test_what_could_be_several_images_is_none(tmp_path: Path) -> None:
    for number, name in enumerate(["a/x.jpg", "b/x.jpg", "Y.jpg", "train/z.jpg", "w.jpg"]):
        draw(tmp_path / name, number)
    folder = ImageFolder(tmp_path)
    assert folder.find("/home/x.jpg") == "found_in_several_folders"
    assert folder.find("/home/b/x.jpg") == tmp_path / "b/x.jpg"
    assert folder.find("/home/test/z.jpg") == "image_missing", "another split's image"
    assert folder.find("../b/../../etc/passwd") == "image_missing"
    (found,) = folder.find_all([["Y.jpg", "y.jpg", "train/w.jpg", "val/w.jpg"]], [frozenset()])
    assert found == [tmp_path / "Y.jpg", "named_by_several", "named_by_several", "named_by_several"]


@pytest.mark.parametrize(
    ("files", "folders"),
    [
        (("instances_train", "instances_test"), ("train", "test")),
        (("coco_train2017", "coco_val2017"), ("images/train2017", "images/val2017")),
        (("kayaks", "lanterns"), ("kayaks", "lanterns")),
        (("training", "valid"), ("train", "validation")),
    ],
)
def test_one_name_in_two_files_is_the_image_of_each_files_folder(
    tmp_path: Path, files: tuple[str, str], folders: tuple[str, str]
) -> None:
    names = [f"frame_{n}.jpg" for n in range(3)]
    for number, folder in enumerate(folders):
        for n, name in enumerate(names):
            draw(tmp_path / "photos" / folder / name, 5 * number + n)
    worlds = {file: coco(names, box=(0, 0, 10 * (k + 1), 30)) for k, file in enumerate(files)}
    gallery, ledger = mine(tmp_path, **worlds)
    assert len(gallery.images) == ledger.funnel()[1]["accepted"] == 6
    for image, sides in zip(gallery.box_image, gallery.box_sides, strict=True):
        of = folders.index(gallery.images["file_name"][image].rpartition("/")[0])
        assert sides[2] == pytest.approx(10 * (of + 1) / 96), "the boxes of its own file"


def test_files_of_one_name_are_told_apart_by_their_own_folders(tmp_path: Path) -> None:
    draw(tmp_path / "train" / "x.jpg", 1)
    draw(tmp_path / "valid" / "x.jpg", 2)
    nears = [folder_words("_annotations.coco") | folder_words(split) for split in ("train", "valid")]
    found = ImageFolder(tmp_path).find_all([["x.jpg"], ["x.jpg"]], nears)
    assert found == [[tmp_path / "train/x.jpg"], [tmp_path / "valid/x.jpg"]]
    (tmp_path / "valid" / "x.jpg").unlink()
    assert ImageFolder(tmp_path).find_all([["x.jpg"], ["x.jpg"]], nears)[1] == ["named_by_several"]


def test_names_that_nothing_tells_apart_are_one_line_with_examples(tmp_path: Path) -> None:
    for number, folder in enumerate("pq"):
        draw(tmp_path / "photos" / folder / "x.jpg", number)
    with pytest.raises(UserError, match=r"1 found in several folders.*: x.jpg.*name each annotation file after"):
        mine(tmp_path, one=coco(["x.jpg"]), two=coco(["x.jpg"]))


def test_two_categories_of_one_name_are_one_label(tmp_path: Path) -> None:
    root = {"id": 0, "name": "kayak", "supercategory": "none"}
    categories = [root, *[one | {"supercategory": "kayak"} for one in CATEGORIES]]
    (tmp_path / "a.json").write_text(json.dumps(coco(["x.jpg", "y.jpg"], categories=categories)))
    read = read_annotations(tmp_path / "a.json").categories
    assert read["name"].tolist() == ["kayak", "kayak", "lantern"]
    assert read["supercategory"].tolist() == ["kayak"] * 3, "of the one that has boxes"
    draw(tmp_path / "photos" / "x.jpg", 1)
    draw(tmp_path / "photos" / "y.jpg", 2)
    gallery, _ = mine(tmp_path, a=coco(["x.jpg", "y.jpg"], categories=categories))
    assert sorted(gallery.box_label.tolist()) == [0, 1]


@pytest.mark.parametrize(
    ("segmentation", "box"),
    [
        ([[10, 20, 40, 20, 40, 60]], [10, 20, 30, 40]),
        ([[10, 20, 40, 20, 40, 60], [5, 5, 6, 5, 6, 6]], [5, 5, 35, 55]),
        ([10, 20, 40, 20, 40, 60], [10, 20, 30, 40]),
        ([[[10, 20], [40, 20], [40, 60]]], [10, 20, 30, 40]),
        ({"size": [4, 5], "counts": [5, 2, 2, 2, 9]}, [1, 1, 2, 2]),
        ({"size": [4, 5], "counts": "52209"}, None),
        ([], None),
        ([[1, 2]], None),
        ([[1, 2, 3, 4, 5, float("nan")]], None),
        ({"size": [4, 5], "counts": [3]}, None),
        ("x", None),
    ],
)
def test_the_extent_of_a_polygon_is_its_box(segmentation: Any, box: list[float] | None) -> None:
    assert find_extent(segmentation) == box


@pytest.mark.parametrize("bbox", [{}, {"bbox": []}, {"bbox": None}])
def test_an_object_with_a_polygon_and_no_box_counts(tmp_path: Path, bbox: dict[str, Any]) -> None:
    draw(tmp_path / "photos" / "x.jpg", 1)
    polygon = {"image_id": 1, "category_id": 1, "segmentation": [[8, 6, 48, 6, 48, 36]]} | bbox
    gallery, _ = mine(tmp_path, a=coco(["x.jpg"], annotations=[polygon]))
    assert gallery.box_sides[0] == pytest.approx((8 / 96, 6 / 64, 48 / 96, 36 / 64))


def many(folder: Path, ids: list[int] = [1, 2, 3]) -> Any:  # noqa: B006
    """Twelve images with two boxes each, far apart, of three labels in turn."""
    data = coco(
        [f"img_{n:03}.jpg" for n in range(12)], (96, 520), categories=[{"id": i, "name": f"label {i}"} for i in ids]
    )
    data["annotations"] = [
        {"image_id": n + 1, "category_id": ids[(n + k) % 3], "bbox": [50 * k, 40 * n, 40, 30]}
        for n in range(12)
        for k in range(2)
    ]
    (folder / "a.json").write_text(json.dumps(data))
    return read_annotations(folder / "a.json"), data["annotations"]


def results(folder: Path, records: list[dict[str, Any]], **change: Any) -> Any:
    rows = [row | {"score": 0.9} | {key: of(row) for key, of in change.items()} for row in records]
    (folder / "yolo.json").write_text(json.dumps(rows))
    return read_results(folder / "yolo.json")


@pytest.mark.parametrize(
    ("ids", "change", "said"),
    [
        ([1, 2, 3], {"category_id": lambda row: row["category_id"] - 1}, r"match .* only 0 of 24.*add \+1"),
        ([1, 2, 3], {"category_id": lambda row: row["category_id"] + 1}, r"add -1"),
        (
            [1, 5, 90],
            {"category_id": lambda row: [1, 5, 90].index(row["category_id"])},
            "the results count them from 0",
        ),
        (
            [1, 2, 3],
            {"category_id": lambda row: 1 + row["category_id"] % 3},
            r"match .* only 0 of 24.* \(image 1: .*; image",
        ),
        (
            [1, 2, 3],
            {"category_id": lambda row: row["category_id"] + 80},
            "has no category_id in common with the annotations",
        ),
        ([1, 2, 3], {"image_id": lambda row: f"unknown {row['image_id']}"}, "has no image_id .*'unknown 1'.*1, 2, 3"),
        ([1, 2, 3], {"image_id": lambda row: row["image_id"] - 1}, r"images \+1"),
    ],
)
def test_results_of_another_list_are_one_line_with_examples(
    tmp_path: Path, ids: list[int], change: dict[str, Any], said: str
) -> None:
    annotated, records = many(tmp_path, ids)
    with pytest.raises(UserError, match=said):
        check_detections(name_images_by_id(results(tmp_path, records, **change), annotated), annotated, 0.5)


@pytest.mark.parametrize(
    "name_of",
    [
        lambda n: n,
        lambda n: f"img_{n - 1:03}",
        lambda n: f"img_{n - 1:03}.jpg",
        lambda n: f"/data/photos/img_{n - 1:03}.jpg",
    ],
)
def test_results_that_name_the_images_are_read_by_name(tmp_path: Path, name_of: Any) -> None:
    annotated, records = many(tmp_path)
    found = results(tmp_path, records, image_id=lambda row: name_of(row["image_id"]))
    named = name_images_by_id(found, annotated)
    assert named.boxes["image"].tolist() == [row["image_id"] for row in records]
    check_detections(named, annotated, 0.5)


def test_results_of_what_annotators_left_out_pass(tmp_path: Path) -> None:
    annotated, records = many(tmp_path)
    moved = results(tmp_path, records, bbox=lambda row: [300, 300, 20, 20])
    check_detections(name_images_by_id(moved, annotated), annotated, 0.5)
