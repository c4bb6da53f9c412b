"""What the album promises to whoever counts labels in it."""

from collections import Counter
from itertools import combinations

import pytest

from querytruth.sample_album.album import AlbumImage
from tests.sample_album.conftest import AnnotatedImage

ALWAYS_SMALL = {"Wild Bird", "Kite", "Traffic Light"}
RARE = {"Guitar"}


@pytest.fixture(scope="module")
def scene_annotations(scenes: list[AlbumImage], annotated: dict[str, AnnotatedImage]) -> list[AnnotatedImage]:
    return [annotated[image.file_name] for image in scenes]


def _labels(image: AnnotatedImage) -> list[str]:
    return sorted(set(image.labels))


def _prominent(image: AnnotatedImage) -> set[str]:
    area = image.width * image.height
    return {box.label for box in image.boxes if box.width * box.height > 0.1 * area}


def test_all_but_a_few_labels_are_frequent_and_prominent(scene_annotations: list[AnnotatedImage]) -> None:
    images = Counter(label for image in scene_annotations for label in _labels(image))
    prominent = Counter(label for image in scene_annotations for label in _prominent(image))
    assert len(images) == 37
    searchable = {label for label, count in images.items() if count >= 10 and prominent[label]}
    assert set(images) - searchable == ALWAYS_SMALL | RARE
    assert all(prominent[label] >= 4 for label in searchable)
    assert all(images[label] >= 12 for label in searchable | ALWAYS_SMALL)
    assert all(0 < images[label] < 10 for label in RARE)
    assert not any(prominent[label] for label in ALWAYS_SMALL)


def test_many_pairs_and_several_triples_occur_together(scene_annotations: list[AnnotatedImage]) -> None:
    def frequent(size: int) -> int:
        counts = Counter(group for image in scene_annotations for group in combinations(_labels(image), size))
        return sum(count >= 10 for count in counts.values())

    assert frequent(2) >= 35
    assert frequent(3) >= 8


def test_narrower_labels_occur_without_the_wider_one(scene_annotations: list[AnnotatedImage]) -> None:
    for narrow, wide in (
        ("SUV", "Car"),
        ("Leather Shoes", "Other Shoes"),
        ("Sneakers", "Other Shoes"),
        ("Sailboat", "Boat"),
        ("Slippers", "Sandals"),
    ):
        alone = [image for image in scene_annotations if narrow in _labels(image) and wide not in _labels(image)]
        both = [image for image in scene_annotations if wide in _labels(image)]
        assert len(alone) >= 4 and both, (narrow, wide)


def test_counts_places_and_lights_vary(scenes: list[AlbumImage], scene_annotations: list[AnnotatedImage]) -> None:
    counts = Counter(count for image in scene_annotations for count in Counter(image.labels).values())
    assert set(counts) == {1, 2, 3, 4}
    assert min(Counter(image.place for image in scenes).values()) >= 12
    assert min(Counter(image.light for image in scenes).values()) >= 10
