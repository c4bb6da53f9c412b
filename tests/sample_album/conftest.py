"""The whole album, drawn once for all tests."""

import pytest

from sample_album import AlbumImage, draw_album


@pytest.fixture(scope="session")
def album() -> list[AlbumImage]:
    """All files, in the order in which they are drawn."""
    return list(draw_album())


@pytest.fixture(scope="session")
def good(album: list[AlbumImage]) -> list[AlbumImage]:
    """Scenes and near-duplicates."""
    return [image for image in album if image.defect is None]


@pytest.fixture(scope="session")
def scenes(good: list[AlbumImage]) -> list[AlbumImage]:
    """The 240 scenes alone."""
    return [image for image in good if image.duplicate_of is None]
