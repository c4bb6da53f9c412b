"""The boxes: inside the image, of the things that are in it, and in their colours."""

from collections import Counter
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from querytruth.sample_album.album import AlbumImage, read_album, read_annotations, read_words
from tests.sample_album.conftest import AnnotatedImage

# Kinds that have several colours, or one alone.
WITHOUT_COLOUR = {"Airplane", "Potted Plant", "Traffic Light", "Orange/Tangerine", "Banana", "Soccer"}
HUES = {"red": 0, "orange": 20, "yellow": 34, "green": 85, "blue": 152, "purple": 195, "pink": 241}  # of 256


def test_boxes_lie_inside_the_image(good: list[AlbumImage], annotated: dict[str, AnnotatedImage]) -> None:
    for image in good:
        one = annotated[image.file_name]
        for box in one.boxes:
            assert box.x >= 0 and box.y >= 0 and box.width >= 4 and box.height >= 4, image.file_name
            assert box.x + box.width <= one.width and box.y + box.height <= one.height, image.file_name


def test_every_fact_has_its_boxes_and_every_box_its_fact(
    good: list[AlbumImage], annotated: dict[str, AnnotatedImage]
) -> None:
    """A colour is named of every box of its kind, or of none; of a person it is that of the clothes."""
    for image in good:
        things = Counter[tuple[str, tuple[str, ...]]]()
        for label, colour, count in image.facts:
            named = f"in {colour}" if label == "Person" else colour
            things[label, () if label in WITHOUT_COLOUR else (named,)] += count
        assert things == Counter((box.label, box.attributes) for box in annotated[image.file_name].boxes)


@pytest.mark.thorough
def test_the_colour_of_a_box_is_to_be_seen_in_it(good: list[AlbumImage], annotated: dict[str, AnnotatedImage]) -> None:
    """Once the image is upright; and less of it where the box would lie in its mirror image. Night tints."""
    shares = []
    for image in (image for image in good if image.light != "night"):
        with Image.open(BytesIO(image.data)) as opened:
            upright = ImageOps.exif_transpose(opened).convert("RGB").convert("HSV")
        hue, saturation, _ = np.moveaxis(np.asarray(upright), 2, 0)
        for box in annotated[image.file_name].boxes:
            for colour in (named.removeprefix("in ") for named in box.attributes):
                if colour in HUES:
                    distance = (hue - np.uint8(HUES[colour])).view(np.int8)  # around the circle
                    shown = (distance > -18) & (distance < 18) & (saturation > 60)
                    x, y, width, height = (round(side) for side in (box.x, box.y, box.width, box.height))
                    inside, upside_down, left_to_right = (
                        one[y : y + height, x : x + width].mean() for one in (shown, shown[::-1], shown[:, ::-1])
                    )
                    assert inside > 0.05, (image.file_name, box)
                    shares.append((inside, upside_down, left_to_right))
    means = np.mean(shares, axis=0)
    assert len(shares) > 500 and means[0] > 1.5 * max(means[1:])


def test_the_boxes_of_a_near_duplicate_are_those_of_its_scene(
    good: list[AlbumImage], annotated: dict[str, AnnotatedImage]
) -> None:
    """Scaled with the image, or moved with its rim; a box that the new rim cuts ends there."""
    for image in (image for image in good if image.duplicate_of):
        copy, scene = annotated[image.file_name], annotated[image.duplicate_of or ""]
        is_cut = abs(copy.width / scene.width - 0.98) < 0.005  # a hundredth on either side
        scale = 1 if is_cut else copy.width / scene.width
        left, top = ((scene.width - copy.width) / 2, (scene.height - copy.height) / 2) if is_cut else (0, 0)
        for one, other in zip(copy.boxes, scene.boxes, strict=True):
            expected = [
                min(max(edge * scale - shift, 0), limit)
                for edge, shift, limit in (
                    (other.x, left, copy.width),
                    (other.y, top, copy.height),
                    (other.x + other.width, left, copy.width),
                    (other.y + other.height, top, copy.height),
                )
            ]
            assert [one.x, one.y, one.x + one.width, one.y + one.height] == pytest.approx(expected, abs=1.5)


def test_coco_annotations_join_up(album: list[AlbumImage], coco: dict[str, Any]) -> None:
    assert [image["file_name"] for image in coco["images"]] == [image.file_name for image in album]
    images = {image["id"] for image in coco["images"]}
    names = {category["id"]: category["name"] for category in coco["categories"]}
    assert len({annotation["id"] for annotation in coco["annotations"]}) == len(coco["annotations"])
    for annotation in coco["annotations"]:
        assert annotation["image_id"] in images and annotation["category_id"] in names
        assert annotation["area"] == annotation["bbox"][2] * annotation["bbox"][3]
        assert (annotation["iscrowd"], annotation["isfake"]) == (0, 0)
    assert (names[1], names[229], names[105]) == ("Person", "Hotair ballon", "Orange/Tangerine")
    assert set(names.values()) == set(read_words()["labels"])


def test_the_annotations_of_some_scenes_are_a_part_of_all(coco: dict[str, Any]) -> None:
    some = read_annotations(read_album(9))
    assert len(some["images"]) == 9 + 1 + 6
    assert all(image in coco["images"] for image in some["images"])
    ids = {image["id"] for image in some["images"]}
    assert some["annotations"] == [box for box in coco["annotations"] if box["image_id"] in ids]
