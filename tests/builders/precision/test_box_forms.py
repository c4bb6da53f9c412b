"""A file of boxes is looked at as a whole: corners and centres are not read as x, y, width, height."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.precision.annotation_files import read_annotations, read_results
from builders.precision.box_forms import fit_boxes
from querytruth.backends.files.column_profile import ReadingOptions, use_table_options
from querytruth.errors import UserError

WIDE, HIGH = 640, 480
FORMS: dict[str, Callable[[list[float]], list[float]]] = {
    "xywh": lambda box: box,
    "corners": lambda box: [box[0], box[1], box[0] + box[2], box[1] + box[3]],
    "centre": lambda box: [box[0] + box[2] / 2, box[1] + box[3] / 2, box[2], box[3]],
}


def boxes() -> list[list[float]]:
    """Forty boxes that lie anywhere in their image."""
    chance = np.random.default_rng(3)
    sizes = chance.uniform((60, 40), (300, 250), (40, 2)).round()
    places = (chance.uniform(0, 1, (40, 2)) * (np.array([WIDE, HIGH]) - sizes)).round()
    return [[*place, *size] for place, size in zip(places.tolist(), sizes.tolist(), strict=True)]


def write(path: Path, form: str, *, of_image: bool = False, with_area: bool = False) -> Path:
    given = [FORMS[form](box) for box in boxes()]
    if of_image:
        given = [(np.array(box) / (WIDE, HIGH, WIDE, HIGH)).tolist() for box in given]
    records: list[dict[str, Any]] = [
        {"image_id": n, "category_id": 1, "bbox": box} | ({"area": own[2] * own[3]} if with_area else {})
        for n, (box, own) in enumerate(zip(given, boxes(), strict=True))
    ]
    images = [{"id": n, "file_name": f"{n}.jpg", "width": WIDE, "height": HIGH} for n in range(len(records))]
    whole = {"images": images, "annotations": records, "categories": [{"id": 1, "name": "kite"}]}
    path.write_text(json.dumps(whole))
    return path


@pytest.mark.parametrize("of_image", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_the_same_boxes_or_stops_with_its_name(tmp_path: Path, form: str, of_image: bool) -> None:
    path = write(tmp_path / "a.json", form, of_image=of_image)
    if form != "xywh":
        with pytest.raises(UserError, match=rf"of 40 boxes leave.*image \d+: .*; .*; .*set tables.boxes: {form}"):
            read_annotations(path)
    with use_table_options(ReadingOptions(boxes=None if form == "xywh" else form)):
        found = read_annotations(path).boxes[["x", "y", "width", "height"]].to_numpy()
    assert found == pytest.approx(np.array(boxes()), abs=1e-6)


def test_a_stated_area_tells_small_corners_from_boxes(tmp_path: Path) -> None:
    """All of them lie inside their image in either form."""
    path = write(tmp_path / "a.json", "corners", with_area=True)
    data = json.loads(path.read_text())
    for image in data["images"]:
        image |= {"width": 4 * WIDE, "height": 4 * HIGH}
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match=r"`area` does not match.*tables.boxes: corners"):
        read_annotations(path)


def test_an_option_for_a_detector_leaves_right_annotations_alone(tmp_path: Path) -> None:
    annotated = write(tmp_path / "a.json", "xywh")
    numbered = [{"image_id": n, "category_id": 1, "score": 91 + n / 10} for n in range(40)]
    corners = [one | {"bbox": FORMS["corners"](box)} for one, box in zip(numbered, boxes(), strict=True)]
    (tmp_path / "yolo.json").write_text(json.dumps(corners))
    with use_table_options(ReadingOptions(boxes="centre")):
        file, found = read_annotations(annotated), read_results(tmp_path / "yolo.json")
    assert found.boxes["score"].tolist() == pytest.approx([(91 + n / 10) / 100 for n in range(40)]), "per cent"
    with pytest.raises(UserError, match=r"yolo\.json \(read detections\).*corners"):
        fit_boxes("read detections", found.name, found.boxes, file.images)
    with use_table_options(ReadingOptions(boxes="corners")):
        fitted, form = fit_boxes("read detections", found.name, found.boxes, file.images)
        assert read_annotations(annotated).boxes.equals(file.boxes)
    assert form == "corners" and fitted[["x", "y", "width", "height"]].to_numpy() == pytest.approx(np.array(boxes()))


def test_a_few_boxes_beyond_the_edge_are_clipped_as_before(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", "xywh")
    data = json.loads(path.read_text())
    for record in data["annotations"][:3]:
        record["bbox"] = [600, 400, 200, 200]
    path.write_text(json.dumps(data))
    assert len(read_annotations(path).boxes) == 40


def test_no_size_and_no_boxes_say_nothing() -> None:
    images = pd.DataFrame({"id": [1], "width": [0], "height": [0]})
    rows = pd.DataFrame({"image": [1, 2], "x": 0.0, "y": 0.0, "width": 9.0, "height": 9.0, "area": np.nan})
    for some in (rows, rows.head(0)):
        fitted, form = fit_boxes("read", "a.json", some, images)
        assert form == "" and list(fitted) == ["image", "x", "y", "width", "height"]
