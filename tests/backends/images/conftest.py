"""What the tests of image files share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from querytruth.backends.images.image_reading import ScannedImage, read_image


@pytest.fixture
def read(tmp_path: Path) -> Callable[[bytes], ScannedImage]:
    """Read an image that lies on disk for so long."""

    def of(data: bytes) -> ScannedImage:
        (tmp_path / "image").write_bytes(data)
        return read_image(tmp_path / "image")

    return of
