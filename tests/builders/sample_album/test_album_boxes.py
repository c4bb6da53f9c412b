"""The boxes: inside the picture, exact to the pixel, and of things that can be seen."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import ImageChops

from builders.sample_album import AlbumPicture, coco_annotations
from builders.sample_album.kinds import KINDS
from builders.sample_album.scene_plan import plan_scene
from builders.sample_album.stage import paint_scene, settle


def test_boxes_lie_inside_the_picture(good: list[AlbumPicture]) -> None:
    for picture in good:
        for box in picture.boxes:
            assert box.x >= 0 and box.y >= 0 and box.width >= 4 and box.height >= 4, picture.file_name
            assert box.x + box.width <= picture.width and box.y + box.height <= picture.height, picture.file_name


def test_every_fact_has_its_boxes_and_every_box_its_fact(good: list[AlbumPicture]) -> None:
    for picture in good:
        from_facts = sorted(label for label, _, count in picture.facts for _ in range(count))
        assert from_facts == sorted(box.label for box in picture.boxes), picture.file_name


def test_nothing_is_more_than_half_hidden() -> None:
    for index in range(240):
        _, _, hidden = settle(0, plan_scene(0, index))
        assert max(hidden) < 0.4, (index, hidden)


@pytest.mark.parametrize("index", range(0, 60, 4))
def test_a_box_is_where_the_picture_changes_when_its_object_is_left_out(index: int) -> None:
    plan = plan_scene(0, index)
    whole = paint_scene(0, plan)
    for number, box in enumerate(whole.boxes()):
        without = paint_scene(0, plan, without=number)
        changed = np.asarray(ImageChops.difference(whole.image, without.image)).max(axis=2) > 0
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        seen = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
        # Faint edge pixels, less than half covered, change too: mostly none or one on a side, two where the
        # rim lies under another object's soft edge.
        claimed = (box.x, box.y, box.x + box.width, box.y + box.height)
        assert np.abs(np.subtract(seen, claimed)).max() <= 2, (box, seen)


def test_boxes_equal_the_extent_of_the_visible_mask() -> None:
    for index in range(0, 240, 7):
        painted = paint_scene(0, plan_scene(0, index))
        owners = np.asarray(painted.owners)
        for number, box in enumerate(painted.boxes(), start=1):
            rows, columns = np.nonzero(owners == number)
            assert (box.x, box.y) == (columns.min(), rows.min())
            assert (box.x + box.width, box.y + box.height) == (columns.max() + 1, rows.max() + 1)


def test_coco_annotations_join_up(album: list[AlbumPicture]) -> None:
    coco = coco_annotations(album)
    assert len(coco["images"]) == len(album)
    assert [image["file_name"] for image in coco["images"]] == [picture.file_name for picture in album]
    images = {image["id"] for image in coco["images"]}
    names = {category["id"]: category["name"] for category in coco["categories"]}
    assert len(coco["annotations"]) == sum(len(picture.boxes) for picture in album)
    assert len({annotation["id"] for annotation in coco["annotations"]}) == len(coco["annotations"])
    for annotation in coco["annotations"]:
        assert annotation["image_id"] in images and annotation["category_id"] in names
        assert annotation["area"] == annotation["bbox"][2] * annotation["bbox"][3]
        assert (annotation["iscrowd"], annotation["isfake"]) == (0, 0)
    assert (names[1], names[229], names[105]) == ("Person", "Hotair ballon", "Orange/Tangerine")
    assert len(names) == len(KINDS)
