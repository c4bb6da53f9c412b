"""A disk that cannot read a source: the message names that file, not the folder of the rendered ones."""

import errno
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from builders.gallery.render_steps import render_images
from querytruth.backends.images import rendering as image_rendering
from querytruth.backends.images import worker_processes
from querytruth.backends.steps import BuildRun, active_run
from querytruth.definitions import RenderOptions
from querytruth.errors import UserError


def test_a_source_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_location: str, _limit: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def map_here(work: Any, items: Any, **_more: Any) -> Any:
        return map(work, items)

    monkeypatch.setattr(image_rendering, "read_bounded", fail)
    monkeypatch.setattr(worker_processes, "map_in_workers", map_here)
    images = pd.DataFrame({"image_id": ["img_00"], "file_name": ["a.jpg"]})
    source = tmp_path / "photos" / "a.jpg"
    with pytest.raises(UserError, match="Input/output error") as caught, active_run(BuildRun()):
        render_images(images, [str(source)], ["0" * 64], RenderOptions(), tmp_path / "set")
    assert str(source) in str(caught.value)
