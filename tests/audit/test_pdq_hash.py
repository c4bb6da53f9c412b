"""PDQ hashes, against those that its authors publish for their images, and mirrored ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from querytruth.backends.images.image_reading import hash_pdq
from querytruth.backends.images.perceptual_hashes import compute_pdq

# threatexchange/signal_type/pdq/signal.py of facebook/ThreatExchange, by the order of file names.
BRIDGE_HASHES = {
    "aaa-orig": "f8f8f0cee0f4a84f06370a22038f63f0b36e2ed596621e1d33e6b39c4e9c9b22",
    "blur-a-little": "f8f8f0cee0f4a84f06370a2a038f63f0b36e26d596621e1d33e6b39c4e9c9b22",
    "blur-a-lot": "f8f8f0cee0f4a84f0637022a038f67f0b36e26d596621e1d33e6b39c4e9c9b22",
    "high-contrast": "f8f8f0cee0f4a84f06370a2a068f67f0b36e26d596621e1d33e6339c4e9c9b22",
    "high-saturation": "f8f8f0cee0f4a84f06370a22038f67f0b36e2ed596221e1d33e6b39c4e9c9b22",
    "sharpen-a-little": "f8f8f0cee0f4a84f0e370a22038f67f0b36e2ed596221e1d33e6b39c4a9c9b22",
    "sharpen-a-lot": "d8f8f0cec0f4a84f8e370a22038f67f0b36a2ed597231e1d72e6b39c4a9c9b22",
    "shrink-a-little": "f8f8f0cee0f4a84f06370a22038f67f0b36e2ed596621e1d33e6339c4e9c9b22",
    "shrink-a-lot": "d0f8f1ccc0f4a84d0a370a3a228f67f0b36e2ed5b6623e1d33e6339c4e9c9b22",
    "square-128x128": "d8f8f1eec0f4a84f0e37022a078f63f0b36e2ed596621e1d33e6239c4e9c9b22",
    "square-256x256": "d8f8f0cec4f4a84f0637022a078f67f0b36e2ee5b6621e1d33e6239c4e9c9b22",
    "square-512x512": "d8f8f0cec0f4a84f0637022a278f67f0b36e2ed596621e1d33e6339c4e9c9b22",
}
_MOST_BITS = 10  # by which a correct implementation may differ, as its authors state


def _distance(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def _noise(seed: int) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (20, 20), dtype=np.uint8)
    return Image.fromarray(coarse).resize((200, 150), Image.Resampling.BICUBIC)


def test_published_hashes_are_found(shared: Callable[[str], Path]) -> None:
    for name, published in BRIDGE_HASHES.items():
        found = hash_pdq(str(shared(f"near_duplicates/pdq/pdq/data/bridge-mods/{name}.jpg"))).pdq
        assert found is not None
        assert _distance(found, bytes.fromhex(published)) <= _MOST_BITS, name


def test_one_of_the_authors_images_without_any_reduction_has_the_published_bits(
    shared: Callable[[str], Path],
) -> None:
    with Image.open(shared("near_duplicates/pdq/pdq/data/bridge-mods/square-512x512.jpg")) as image:
        found = compute_pdq(np.asarray(image.convert("L")))
    assert found is not None and found.hex() == BRIDGE_HASHES["square-512x512"]


def test_a_mirrored_photo_has_the_mirrored_hash_and_another_one_has_not(tmp_path: Path) -> None:
    own = _noise(1)
    own.save(tmp_path / "own.png")
    ImageOps.mirror(own).save(tmp_path / "mirrored.jpg", quality=60)
    _noise(2).save(tmp_path / "other.png")
    first, mirrored, other = (hash_pdq(str(tmp_path / name)).pdq for name in ("own.png", "mirrored.jpg", "other.png"))
    expected = hash_pdq(str(tmp_path / "own.png")).pdq_mirrored
    assert first and mirrored and other and expected
    assert _distance(expected, mirrored) <= 31 < 80 < _distance(first, mirrored)
    assert _distance(first, other) > 80


@pytest.mark.parametrize("grey", [np.full((200, 200), 7, np.uint8), np.zeros((4, 300), np.uint8)])
def test_an_image_without_structure_has_no_hash(grey: np.ndarray) -> None:
    assert compute_pdq(grey) is None
