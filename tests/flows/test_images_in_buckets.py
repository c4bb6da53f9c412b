"""A gallery of images that lie in a bucket: listed, scanned and rendered there, by the limited workers, too."""

from pathlib import Path

import pytest

import querytruth as qt
from tests.images import make_jpeg
from tests.object_service import ObjectService


@pytest.mark.thorough
def test_images_are_read_where_they_lie(object_service: ObjectService, tmp_path: Path) -> None:
    for number in range(3):
        data = make_jpeg((number * 80, 99, 9), (64, 48))
        object_service.ask("PUT", f"photos/summer/{number}.jpg", data)
    (tmp_path / "list.txt").write_text(f"s3://{object_service.bucket}/photos/summer/1.jpg\n")
    keys = {
        "kind": "gallery",
        "out": str(tmp_path / "sets"),
        "render": {"size": 32},
        "near_duplicates": {"distance": None},
    }
    whole = qt.build({**keys, "name": "whole", "images": f"s3://{object_service.bucket}/photos"})
    listed = qt.build({**keys, "name": "listed", "images": str(tmp_path / "list.txt")})
    assert len(qt.load(whole.path).images) == 3 and len(qt.load(listed.path).images) == 1
    assert set(qt.load(listed.path).images["image_id"]) < set(qt.load(whole.path).images["image_id"])
