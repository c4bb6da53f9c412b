"""The whole album, drawn once for all tests."""

from __future__ import annotations

import pytest

from builders.sample_album import AlbumPicture, draw_album


@pytest.fixture(scope="session")
def album() -> list[AlbumPicture]:
    """All files, in the order in which they are drawn."""
    return list(draw_album())


@pytest.fixture(scope="session")
def good(album: list[AlbumPicture]) -> list[AlbumPicture]:
    """Scenes and near-duplicates."""
    return [picture for picture in album if picture.fault is None]


@pytest.fixture(scope="session")
def scenes(good: list[AlbumPicture]) -> list[AlbumPicture]:
    """The 240 scenes alone."""
    return [picture for picture in good if picture.duplicate_of is None]
