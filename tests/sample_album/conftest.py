"""The whole album, read once for all tests."""

from dataclasses import dataclass
from typing import Any

import pytest

from querytruth.sample_album.album import AlbumImage, read_album, read_annotations


@dataclass(frozen=True)
class AnnotatedBox:
    """One box of an image, in pixels, with the colour that the annotations name."""

    label: str
    x: float
    y: float
    width: float
    height: float
    attributes: tuple[str, ...]


@dataclass(frozen=True)
class AnnotatedImage:
    """What the annotations say of one image: its size once upright, and its boxes."""

    width: int
    height: int
    boxes: tuple[AnnotatedBox, ...]

    @property
    def labels(self) -> list[str]:
        return [box.label for box in self.boxes]


@pytest.fixture(scope="session")
def album() -> list[AlbumImage]:
    """All files, in their order."""
    return read_album()


@pytest.fixture(scope="session")
def good(album: list[AlbumImage]) -> list[AlbumImage]:
    """Scenes and near-duplicates."""
    return [image for image in album if image.defect is None]


@pytest.fixture(scope="session")
def scenes(good: list[AlbumImage]) -> list[AlbumImage]:
    """The 240 scenes alone."""
    return [image for image in good if image.duplicate_of is None]


@pytest.fixture(scope="session")
def coco(album: list[AlbumImage]) -> dict[str, Any]:
    """The annotations as they are written."""
    return read_annotations(album)


@pytest.fixture(scope="session")
def annotated(coco: dict[str, Any]) -> dict[str, AnnotatedImage]:
    """What the annotations say, by file name."""
    names = {category["id"]: category["name"] for category in coco["categories"]}
    boxes: dict[int, list[AnnotatedBox]] = {image["id"]: [] for image in coco["images"]}
    for one in coco["annotations"]:
        box = AnnotatedBox(names[one["category_id"]], *one["bbox"], tuple(one.get("attributes", ())))
        boxes[one["image_id"]].append(box)
    return {
        image["file_name"]: AnnotatedImage(image["width"], image["height"], tuple(boxes[image["id"]]))
        for image in coco["images"]
    }
