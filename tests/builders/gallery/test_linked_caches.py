"""A received set may hold links in place of its caches: nothing is written through them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.gallery.render_steps import locate_rendered
from querytruth.backends.images.scan_parts import scan_store_folder
from querytruth.backends.models.vector_store import VectorStore
from querytruth.definitions import RenderOptions
from querytruth.errors import UserError


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def test_scans_and_rendered_images_are_not_written_through_a_link(tmp_path: Path, outside: Path) -> None:
    for name in (".scan", ".rendered"):
        (tmp_path / name).symlink_to(outside)
    with pytest.raises(UserError, match=r"\.scan .*is a link"):
        scan_store_folder(tmp_path)
    with pytest.raises(UserError, match=r"\.rendered .*is a link"):
        locate_rendered(pd.Series(["img_00"]), RenderOptions(), tmp_path)


def test_vectors_are_not_written_through_a_link(tmp_path: Path, outside: Path) -> None:
    store = VectorStore(tmp_path / ".vectors", "a model")
    store.add(["img_00"], np.ones((1, 4), np.float32))
    (kept,) = (tmp_path / ".vectors").iterdir()
    kept.rename(tmp_path / "moved")
    kept.symlink_to(outside)
    with pytest.raises(UserError, match="is a link"):
        VectorStore(tmp_path / ".vectors", "a model")
    assert not list(outside.iterdir())
