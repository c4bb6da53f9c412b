"""The boxes: inside the picture, exact to the pixel, and of things that can be seen."""

import numpy as np
import pytest
from PIL import ImageChops

from sample_album import AlbumImage, build_coco_annotations
from sample_album.object_kinds import OBJECT_KINDS
from sample_album.scene_painting import choose_layout, paint_scene
from sample_album.scene_plan import plan_scene

pytestmark = pytest.mark.thorough  # the whole album is drawn: ten seconds


def test_boxes_lie_inside_the_image(good: list[AlbumImage]) -> None:
    for image in good:
        for box in image.boxes:
            assert box.x >= 0 and box.y >= 0 and box.width >= 4 and box.height >= 4, image.file_name
            assert box.x + box.width <= image.width and box.y + box.height <= image.height, image.file_name


def test_every_fact_has_its_boxes_and_every_box_its_fact(good: list[AlbumImage]) -> None:
    for image in good:
        from_facts = sorted(label for label, _, count in image.facts for _ in range(count))
        assert from_facts == sorted(box.label for box in image.boxes), image.file_name


def test_nothing_is_more_than_half_hidden() -> None:
    for index in range(240):
        _, _, hidden = choose_layout(0, plan_scene(0, index))
        assert max(hidden) < 0.4, (index, hidden)


@pytest.mark.parametrize("index", range(0, 60, 4))
def test_a_box_is_where_the_image_changes_when_its_object_is_left_out(index: int) -> None:
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
        owners = np.asarray(painted.object_map)
        for number, box in enumerate(painted.boxes(), start=1):
            rows, columns = np.nonzero(owners == number)
            assert (box.x, box.y) == (columns.min(), rows.min())
            assert (box.x + box.width, box.y + box.height) == (columns.max() + 1, rows.max() + 1)


def test_coco_annotations_join_up(album: list[AlbumImage]) -> None:
    coco = build_coco_annotations(album)
    assert len(coco["images"]) == len(album)
    assert [image["file_name"] for image in coco["images"]] == [image.file_name for image in album]
    images = {image["id"] for image in coco["images"]}
    names = {category["id"]: category["name"] for category in coco["categories"]}
    assert len(coco["annotations"]) == sum(len(image.boxes) for image in album)
    assert len({annotation["id"] for annotation in coco["annotations"]}) == len(coco["annotations"])
    for annotation in coco["annotations"]:
        assert annotation["image_id"] in images and annotation["category_id"] in names
        assert annotation["area"] == annotation["bbox"][2] * annotation["bbox"][3]
        assert (annotation["iscrowd"], annotation["isfake"]) == (0, 0)
    assert (names[1], names[229], names[105]) == ("Person", "Hotair ballon", "Orange/Tangerine")
    assert len(names) == len(OBJECT_KINDS)
