"""What the album promises to whoever counts labels in it."""

from collections import Counter
from itertools import combinations

import pytest

from sample_album import AlbumImage

pytestmark = pytest.mark.thorough  # the whole album is drawn: ten seconds

ALWAYS_SMALL = {"Wild Bird", "Kite", "Traffic Light"}
RARE = {"Guitar"}


def _labels(image: AlbumImage) -> list[str]:
    return sorted({box.label for box in image.boxes})


def _prominent(image: AlbumImage) -> set[str]:
    area = image.width * image.height
    return {box.label for box in image.boxes if box.width * box.height > 0.1 * area}


def test_all_but_a_few_labels_are_frequent_and_prominent(scenes: list[AlbumImage]) -> None:
    images = Counter(label for image in scenes for label in _labels(image))
    prominent = Counter(label for image in scenes for label in _prominent(image))
    assert len(images) == 37
    searchable = {label for label, count in images.items() if count >= 10 and prominent[label]}
    assert set(images) - searchable == ALWAYS_SMALL | RARE
    assert all(prominent[label] >= 4 for label in searchable)
    assert all(images[label] >= 12 for label in searchable | ALWAYS_SMALL)
    assert all(0 < images[label] < 10 for label in RARE)
    assert not any(prominent[label] for label in ALWAYS_SMALL)


def test_many_pairs_and_several_triples_occur_together(scenes: list[AlbumImage]) -> None:
    def frequent(size: int) -> int:
        counts = Counter(group for image in scenes for group in combinations(_labels(image), size))
        return sum(count >= 10 for count in counts.values())

    assert frequent(2) >= 35
    assert frequent(3) >= 8


def test_narrower_labels_occur_without_the_wider_one(scenes: list[AlbumImage]) -> None:
    for narrow, wide in (
        ("SUV", "Car"),
        ("Leather Shoes", "Other Shoes"),
        ("Sneakers", "Other Shoes"),
        ("Sailboat", "Boat"),
        ("Slippers", "Sandals"),
    ):
        alone = [image for image in scenes if narrow in _labels(image) and wide not in _labels(image)]
        both = [image for image in scenes if wide in _labels(image)]
        assert len(alone) >= 4 and both, (narrow, wide)


def test_counts_places_and_lights_vary(scenes: list[AlbumImage]) -> None:
    counts = Counter(count for image in scenes for count in Counter(box.label for box in image.boxes).values())
    assert set(counts) == {1, 2, 3, 4}
    assert min(Counter(image.place for image in scenes).values()) >= 12
    assert min(Counter(image.light for image in scenes).values()) >= 10
